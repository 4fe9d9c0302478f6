"""Activations that are alive at once, by hand."""

from __future__ import annotations

import pytest

import tracetool as tt
from tracetool.forecast.case import Division
from tracetool.forecast.config import read_model
from tracetool.forecast.memory import activation_bytes, largest_batch, request_bytes
from tracetool.forecast.model_names import named_models
from tracetool.forecast.passes import Parallel
from tracetool.forecast.pricing import Row
from tracetool.forecast.replica_memory import context_room


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("fp64", 8), ("fp32", 4), ("tf32", 4), ("bf16", 2), ("fp8", 2), ("nvfp4", 2), ("int4_wo", 2), ("sq", 2)],
)
def test_activations_have_the_width_of_what_flows_between_layers(dtype: str, width: int) -> None:
    product: Row = {"op": "gemm", "dtype": dtype, "m": 16.0, "n": 96.0, "k": 32.0}
    assert activation_bytes([product]) == 2 * width * 16 * (96 + 32)
    assert activation_bytes([{**product, "batch": 8.0}]) == 2 * width * 8 * 16 * (96 + 32)
    experts: Row = {"op": "moe", "dtype": dtype, "tokens": 10.0, "hidden": 64.0, "top_k": 3.0}
    assert activation_bytes([experts]) == 2 * width * 10 * 64 * (1 + 3)


def test_requests_that_keep_nothing_have_no_largest_batch() -> None:
    assert largest_batch(80e9, 20e9, 0.0) is None
    assert largest_batch(80e9, 80e9, 1e9) == 0.0


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-12b", "gpt-oss-20b", "nemotron-nano-9b-v2"])
@pytest.mark.parametrize("context", [100.0, 900.0, 1500.0, 20000.0])
def test_the_space_of_a_request_is_filled_by_its_tokens(model: str, context: float) -> None:
    """Also where windows are not full: the space of a request holds as many tokens as fill it."""
    of, parallel = read_model(model), Parallel(tp=2)
    free = 32 * request_bytes(of, parallel, context)
    assert context_room(of, Division(parallel, 1), 32, free) == pytest.approx(context)


def test_keys_of_more_requests_than_fit_fill_the_memory() -> None:
    """Of a model with windows too: a batch that shares its beginnings holds no less than a smaller one."""
    cases = [{"gpu": "h100-sxm", "mode": "serve", "isl": 1024, "osl": 512, "bs": bs} for bs in (36, 48, 64)]
    rows = [tt.forecast("gemma-3-27b", **case).frame.to_dicts()[0] for case in cases]
    for name in ("memory_gib", "itl_ms", "tokens_per_s"):
        values = [row[name] for row in rows]
        assert values == sorted(values)


def test_states_pass_in_the_format_the_memory_counts() -> None:
    """Nemotron keeps states in fp32 unless its configuration states another: memory and steps tell alike."""
    fields = {**named_models()["nemotron-nano-12b-v2"]}
    case = {"gpu": "h100-sxm", "mode": "decode", "isl": 400, "osl": 400, "bs": 128}
    wide, narrow = (
        tt.forecast({**fields, "mamba_ssm_cache_dtype": dtype}, **case).frame.to_dicts()[0]
        for dtype in ("float32", "bfloat16")
    )
    assert tt.forecast(fields, **case).frame.to_dicts()[0]["itl_ms"] == wide["itl_ms"]
    more_bytes = (wide["memory_gib"] - narrow["memory_gib"]) * 2**30
    least_ms = 2 * more_bytes / 3.35e12 * 1e3  # read and written at the peak of an H100's memory
    assert least_ms < wide["itl_ms"] - narrow["itl_ms"] < 1.5 * least_ms
