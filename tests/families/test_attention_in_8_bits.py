"""Attention with queries of 16 bits and keys of 8: the format its products run in, told once for all uses."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.core.work import Work
from tracetool.families.formats import tensor_clocks
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.dynamic import core_energy_j
from tracetool.model.eligible_implementations import members
from tracetool.model.power_priors import prior_calibration
from tracetool.model.predict import predict_rows
from tracetool.replay.operator_tables import read_table

LONG = {"op": "attention", "phase": "prefill", "batch": 4, "q_len": 8192, "heads": 32, "head_dim": 128}


def _rows(**more: object) -> OperatorColumns:
    return read_table(pl.DataFrame([LONG | {"dtype": "bf16", "kv_dtype": "fp8"} | more])).rows


def _predicted(gpu: str, **more: object) -> Prediction:
    rows = _rows(**more)
    return predict_rows(rows, load_gpu(gpu), np.array([1200.0]))


@pytest.mark.parametrize(
    ("gpu", "stack", "implementation"),
    [
        ("h100-sxm", "vllm 0.24.0", "vllm_flash_attn_fa3"),
        ("h200-sxm", "sglang 0.5.14", "fa3"),
        ("h100-pcie", "vllm 0.24.0", ""),
        ("h100-sxm", "trtllm 1.3.0rc20", "torch_flow"),
        ("b200-sxm", "sglang 0.5.14", "trtllm_mha"),
        ("b200-sxm", "vllm 0.24.0", "vllm_flashinfer_trtllmprefill"),
        ("h100-sxm", "", ""),  # its own tables are of TensorRT-LLM
        ("h200-sxm", "", ""),  # its own are of FlashAttention 3
    ],
)
def test_kernels_that_convert_their_queries_multiply_in_8_bits(
    gpu: str, stack: str, implementation: str
) -> None:
    predicted = _predicted(gpu, stack=stack, implementation=implementation)
    work = predicted.timing.work
    assert work.tensor_fp8_flops[0] == work.tensor_flops[0] > 0
    # as much energy as the same products of FP8 from the start
    same = _predicted(gpu, stack=stack, implementation=implementation, dtype="fp8")
    assert predicted.parts_j["compute"][0, 0] == pytest.approx(same.parts_j["compute"][0, 0], rel=1e-6)


@pytest.mark.parametrize(
    ("gpu", "stack", "implementation"),
    [
        ("h100-sxm", "sglang 0.5.14", "triton"),
        ("l40s", "trtllm 1.3.0rc20", "torch_flow"),  # takes new keys as they came
        ("l40s", "sglang 0.5.14", "flashinfer"),
        ("a100-sxm", "trtllm 1.0.0", "torch_flow"),  # has no FP8
        ("b200-sxm", "", ""),  # its own tables took as long as with keys of 16 bits
    ],
)
def test_kernels_that_expand_their_keys_multiply_in_16_bits(
    gpu: str, stack: str, implementation: str
) -> None:
    work = _predicted(gpu, stack=stack, implementation=implementation).timing.work
    assert work.tensor_fp8_flops[0] == 0 < work.tensor_flops[0]


@pytest.mark.parametrize(
    ("gpu", "stack", "implementation", "in_8_bits"),
    [
        ("h100-sxm", "vllm 0.24.0", "vllm_flash_attn_fa3", True),
        ("h100-sxm", "trtllm 1.3.0rc20", "torch_flow", True),
        ("b200-sxm", "sglang 0.5.14", "trtllm_mha", True),
        ("b200-sxm", "vllm 0.24.0", "vllm_flashinfer_trtllmdecode", True),
        ("b200-sxm", "sglang 0.5.14", "flashinfer", False),
        ("h200-sxm", "sglang 0.5.14", "triton", False),
        ("l40s", "trtllm 1.3.0rc20", "torch_flow", False),
        ("a100-sxm", "trtllm 1.0.0", "torch_flow", False),
    ],
)
def test_decode_multiplies_in_8_bits_where_queries_are_converted(
    gpu: str, stack: str, implementation: str, in_8_bits: bool
) -> None:
    named = {"stack": stack, "implementation": implementation, "kv_heads": 8}
    decode = {"phase": "decode", "batch": 64, "q_len": 1, "kv_len": 8192}
    work = _predicted(gpu, **decode, **named).timing.work
    assert work.tensor_fp8_flops[0] == (work.tensor_flops[0] if in_8_bits else 0.0)
    assert work.tensor_flops[0] > 0
    heads_of_64 = _predicted(gpu, **decode, **named, head_dim=64).timing.work
    # XQA's kernel for 8 bits is for heads of 128 and more
    assert (heads_of_64.tensor_fp8_flops[0] > 0) == (in_8_bits and gpu + stack[:6] != "h100-sxmtrtllm")
    of_keys_in_16 = _predicted(gpu, **decode, **named, kv_dtype="bf16").timing.work
    assert of_keys_in_16.tensor_fp8_flops[0] == 0


@pytest.mark.parametrize(
    ("gpu", "stack", "implementation", "in_8_bits"),
    [
        ("h100-sxm", "trtllm 1.3.0rc20", "default", (True, True)),
        ("b200-sxm", "sglang 0.5.14", "trtllm_mla", (True, True)),
        ("h100-sxm", "vllm 0.14.0", "vllm_flashmla", (False, True)),  # keys just expanded stay in 16 bits
        ("h100-sxm", "sglang 0.5.14", "flash_attention", (False, False)),  # converts the cache to 16
        ("l40s", "trtllm 1.0.0", "default", (False, False)),  # keeps it in 16
    ],
)
def test_latent_attention_multiplies_in_8_bits_where_queries_are_converted(
    gpu: str, stack: str, implementation: str, in_8_bits: tuple[bool, bool]
) -> None:
    shape = {"op": "mla", "dtype": "bf16", "kv_dtype": "fp8", "batch": 8, "heads": 128, "kv_lora_rank": 512}
    phases = {"prefill": {"q_len": 4096}, "decode": {"q_len": 1, "kv_len": 4096}}
    for (phase, lengths), told in zip(phases.items(), in_8_bits, strict=True):
        row = shape | lengths | {"phase": phase, "stack": stack, "implementation": implementation}
        rows = read_table(pl.DataFrame([row])).rows
        work = predict_rows(rows, load_gpu(gpu), np.array([1200.0])).timing.work
        assert work.tensor_fp8_flops[0] == (work.tensor_flops[0] if told else 0.0), phase


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_latents_of_16_bits_are_no_cache_of_8_beside_wider_queries(phase: str) -> None:
    shape = {"op": "mla", "dtype": "tf32", "kv_dtype": "bf16", "batch": 8, "heads": 128, "kv_lora_rank": 512}
    row = shape | {"q_len": 1, "kv_len": 4096, "phase": phase, "stack": "trtllm 1.3.0rc20"}
    work = predict_rows(
        read_table(pl.DataFrame([row])).rows, load_gpu("h100-sxm"), np.array([1200.0])
    ).timing.work
    assert work.tensor_fp8_flops[0] == 0 < work.tensor_flops[0]


def test_steps_stated_beside_those_of_16_bits_keep_their_time() -> None:
    """Only the rate of the peak differs, and that is no limit of a kernel that reaches half of it."""
    law, gpu, rows = laws()["prefill"], load_gpu("h200-sxm"), _rows(stack="vllm", implementation="fa3")
    (fa3,) = members(law, gpu, "vllm", "vllm_flash_attn_fa3")
    in_8, in_16 = (law.pieces(rows, gpu, {**fa3.coefficients, "kv8_products": c}) for c in (2.0, 0.0))
    assert in_8.core_cycles[0] == in_16.core_cycles[0]
    assert (in_8.work.tensor_fp8_flops[0], in_16.work.tensor_fp8_flops[0]) == (in_8.work.tensor_flops[0], 0.0)


def test_operations_in_8_bits_cost_and_take_what_those_of_fp8_do() -> None:
    gpu, words = load_gpu("h100-sxm"), np.array(["bf16", "fp8"], object)
    mixed = Work.of(2, tensor_flops=[1e12, 1e12], tensor_fp8_flops=[1e12, 0.0])
    energy = core_energy_j(mixed, words, prior_calibration(gpu))["compute"]
    assert energy[0] == pytest.approx(energy[1])
    clocks = tensor_clocks(mixed, words, gpu)
    assert clocks[0] == pytest.approx(clocks[1])


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("kv_dtype", ["int8", "uint8", "int4"])
def test_integer_keys_are_met_in_16_bits(phase: str, kv_dtype: str) -> None:
    more = {"phase": phase, "q_len": 8192 if phase == "prefill" else 1, "kv_len": 8192, "kv_heads": 8}
    of = {"stack": "trtllm 1.3.0rc20", "implementation": "torch_flow"}
    rows = {name: _predicted("h100-sxm", kv_dtype=name, **more, **of) for name in (kv_dtype, "fp8")}
    assert rows["fp8"].timing.work.tensor_fp8_flops[0] > 0
    assert rows[kv_dtype].timing.work.tensor_fp8_flops[0] == 0
    assert rows[kv_dtype].parts_j["compute"][0, 0] > rows["fp8"].parts_j["compute"][0, 0]
