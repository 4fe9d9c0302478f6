"""A forecast against a trace: what matches, what each side has alone, and how many steps there are."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.forecast.test_forecast import CONFIG
from tracetool.core.operators import OperatorColumns
from tracetool.forecast.figures import IDLE, Part
from tracetool.forecast.tables import forecast_one
from tracetool.forecast.trace_comparison import Compared, compare

RUN: Any = SimpleNamespace(path="run.tracetool")
SIZES = (
    "batch",
    "m",
    "n",
    "k",
    "q_len",
    "kv_len",
    "heads",
    "head_dim",
    "rows",
    "cols",
    "elements",
    "bytes",
    "ranks",
)


@pytest.fixture(scope="module")
def parts() -> tuple[Part, ...]:
    case = {"model": CONFIG, "gpu": "h100-sxm", "mode": "decode", "isl": 1000, "bs": 16, "tp": 2}
    return forecast_one(case).pieces


def _trace(
    parts: Sequence[Part],
    steps: float = 1.0,
    slower: float = 1.0,
    sized: bool = True,
    more: Sequence[Any] = (),
) -> Compared:
    """Compare a forecast with kernels that take its own operators' times."""
    own = [part for part in parts if part.name != IDLE]
    rows = [(p.family, p.name, p.launches * steps, p.time_s * steps * slower, p.row) for p in own]
    rows += list(more)
    columns = {
        size: np.array([float(row.get(size, np.nan)) if sized else np.nan for *_, row in rows])
        for size in SIZES
    }
    signatures = pl.DataFrame(
        {
            "kind": ["kernel"] * len(rows),
            "name": [f"kernel_{place}" for place in range(len(rows))],
            "operator_name": [f"aten::{name}" for _, name, *_ in rows],
            "launches": [launches for _, _, launches, *_ in rows],
            "duration_ns": [time * 1e9 for *_, time, _ in rows],
        }
    )
    return compare(parts, RUN, signatures, OperatorColumns(np.array([r[0] for r in rows], object), columns))


@pytest.mark.parametrize("steps", [1.0, 3.0, 1.5])
def test_a_trace_of_the_forecast_itself_matches_whole(parts: tuple[Part, ...], steps: float) -> None:
    compared = _trace(parts, steps)
    assert compared.steps == pytest.approx(steps)
    others = compared.frame.filter(pl.col("family") != "sort")  # sorts have no law, and no sizes of one
    assert set(others["match"]) == {"sizes"}
    assert compared.frame["ratio"].to_list() == pytest.approx([1.0] * compared.frame.height)
    whole = sum(part.time_s for part in parts if part.name != IDLE) * 1e6
    assert compared.facts["predicted_us"] == pytest.approx(whole)
    assert compared.facts["measured_us"] == pytest.approx(whole)
    assert (compared.frame["predicted_us_low"] < compared.frame["predicted_us_high"]).all()


def test_a_slower_trace_has_lower_ratios(parts: tuple[Part, ...]) -> None:
    assert set(_trace(parts, slower=2.0).frame["ratio"].round(9)) == {0.5}


def test_kernels_without_sizes_match_by_family(parts: tuple[Part, ...]) -> None:
    compared = _trace(parts, 2.0, sized=False)
    assert set(compared.frame["match"]) == {"family"}
    assert compared.steps == 2
    assert compared.frame["family"].n_unique() == compared.frame.height
    assert compared.frame["ratio"].to_list() == pytest.approx([1.0] * compared.frame.height)


def test_what_one_side_has_alone_is_listed_with_its_time(parts: tuple[Part, ...]) -> None:
    other = ("gemm", "unforeseen", 5.0, 3e-4, {"batch": 1.0, "m": 7.0, "n": 7.0, "k": 7.0})
    compared = _trace(parts, more=[other])
    alone = compared.frame.filter(match="trace only")
    assert alone["measured_us"].to_list() == pytest.approx([300.0])
    assert alone["kernel"].to_list() == ["aten::unforeseen"]
    assert compared.facts["measured_trace_only_us"] == pytest.approx(300.0)
    assert compared.facts["predicted_forecast_only_us"] == 0
    signatures = pl.DataFrame(
        {
            "kind": ["kernel"],
            "name": ["k"],
            "operator_name": ["aten::mm"],
            "launches": [1],
            "duration_ns": [1e6],
        }
    )
    columns = OperatorColumns(np.array(["gemm"], object), {})
    missing = compare(parts, RUN, signatures, columns).frame.filter(match="forecast only")
    assert "attention" in missing["family"].to_list()


def test_a_product_and_its_transpose_are_one(parts: tuple[Part, ...]) -> None:
    turned = [
        Part(p.name, {**p.row, "m": p.row["n"], "n": p.row["m"]}, p.family, "", p.launches, p.time_s, 0.0)
        for p in parts
        if p.family == "gemm"
    ]
    rows = _trace(turned)
    assert rows.frame.height == len({(*tuple(sorted((p.row["m"], p.row["n"]))), p.row["k"]) for p in turned})
    signatures = pl.DataFrame(
        {"kind": ["kernel"], "name": ["k"], "operator_name": ["mm"], "launches": [1], "duration_ns": [10]}
    )
    one = turned[0].row
    columns = {"m": one["n"], "n": one["m"], "k": one["k"], "batch": 1.0}
    swapped = OperatorColumns(
        np.array(["gemm"], object), {k: np.array([float(v)]) for k, v in columns.items()}
    )
    assert "sizes" in set(compare(turned, RUN, signatures, swapped).frame["match"])


def test_a_trace_of_something_else_says_so(parts: tuple[Part, ...]) -> None:
    signatures = pl.DataFrame(
        {"kind": ["kernel"], "name": ["fft"], "operator_name": [None], "launches": [1], "duration_ns": [10]}
    )
    with pytest.raises(tt.BadInput, match="no kernel matches"):
        compare(parts, RUN, signatures, OperatorColumns(np.array(["fft"], object), {}))


def test_prompts_run_operator_by_operator_in_pytorch() -> None:
    case = {"gpu": "h100-sxm", "mode": "prefill", "isl": 500, "bs": 4}
    eager, fused = (
        tt.forecast({**CONFIG, "num_hidden_layers": 4}, stack=s, **case) for s in ("torch", "vllm")
    )
    assert eager.parts["launches"].sum() > 2 * fused.parts["launches"].sum()
    gemm = pl.col("family") == "gemm"
    products = [p.parts.filter(gemm & ~pl.col("module").str.contains("lm_head")) for p in (eager, fused)]
    assert products[0]["time_ms"].sum() == pytest.approx(products[1]["time_ms"].sum(), rel=0.5)


@pytest.mark.data
def test_a_real_trace_of_prompts_matches(data: Any, tmp_path: Any) -> None:
    trace = data / "traces/kineto/tracelens__h100__Qwen_Qwen1.5-0.5B-Chat.json.gz"
    if not trace.exists():
        pytest.skip("no such trace")
    run = tt.ingest(trace, out=tmp_path / "run.tracetool")
    config = {
        "model_type": "qwen2", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "torch_dtype": "bfloat16",
    }  # fmt: skip
    result = tt.forecast(config, mode="prefill", bs=16, isl=559, stack="torch", compare=run)
    facts = result.to_dict()["compared"]
    assert facts["measured_sizes_us"] > 0.9 * facts["measured_us"]
    by_shape = {row["shape"]: row for row in facts["operators"]}
    assert 0.5 < by_shape["1 x 2816 x 8944 x 1024"]["ratio"] < 1.5
