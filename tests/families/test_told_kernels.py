"""What source tells of kernels of single warps, and which format lends where none was measured."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tracetool.families.attention.problem import attention_scores
from tracetool.families.attention.tile_sizes import FLASHINFER, TENSOR_TILES, TRTLLM_WARPS, tile_sizes
from tracetool.families.implementations import FittedLaw, Implementation
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.candidates import is_recognized
from tracetool.model.other_formats import beside_parent
from tracetool.model.unmeasured_libraries import habits_of_name, host_of
from tracetool.replay.operator_tables import read_table


def test_source_tells_kernels_of_single_warps_on_every_chip_without_others() -> None:
    law = laws()["prefill"]
    told = {a: host_of(law, "trtllm", "torch_flow", a).get("by_head") for a in ("ada", "turing", "hopper")}
    assert told == {"ada": (0.0, TRTLLM_WARPS), "turing": (0.0, TRTLLM_WARPS), "hopper": None}
    assert host_of(law, "sglang", "flashinfer", "ada")["by_head"] == (0.0, FLASHINFER)
    assert "by_head" not in host_of(law, "sglang", "flashinfer", "blackwell")


def _fitted(efficiency: float, *architectures: str) -> FittedLaw:
    gpus = {"hopper": "h100-sxm", "ampere-ga100": "a100-sxm"}
    return FittedLaw(
        values={"tensor_efficiency": efficiency}, by_architecture={}, versions=frozenset(), band=(-0.1, 0.1),
        gpus={gpus[name]: 100 for name in architectures}, band_by_architecture={},
    )  # fmt: skip


def test_an_encoder_of_other_kernels_goes_halfway_to_prefill_of_like_ones() -> None:
    law = laws()["encoder"]
    own = _fitted(0.9, "hopper")
    fitted = {"encoder": own, "prefill": _fitted(0.4, "ampere-ga100")}
    one = Implementation("x", "x", "trtllm", frozenset(), (), fitted)

    def efficiency(one: Implementation, architecture: str) -> float:
        def on(_law: object, fitted: FittedLaw, _architecture: str) -> dict[str, float]:
            return dict(fitted.values)

        values = beside_parent(law, dict(own.values), one, architecture, on)
        return round(values["tensor_efficiency"], 3)

    assert efficiency(one, "ada") == 0.6
    assert efficiency(one, "blackwell") == 0.9  # kernels of its kind were measured as an encoder
    both = replace(one, laws={**one.laws, "encoder": _fitted(0.9, "hopper", "ampere-ga100")})
    assert efficiency(both, "ada") == 0.9


def test_a_kernel_called_by_its_project_is_what_source_tells_on_a_chip() -> None:
    """FlashInfer runs its own kernels of warps, CUTLASS's or TensorRT-LLM's where there is tensor memory."""
    prefill, decode = laws()["prefill"], laws()["decode"]
    cutlass = habits_of_name(prefill, "flashinfer", "blackwell")
    assert (cutlass["by_head"], cutlass["pack_heads"]) == (TENSOR_TILES, 0.0)
    assert habits_of_name(prefill, "vllm_flashinfer_fiprefill", "blackwell")["by_head"] == FLASHINFER
    for name in ("flashinfer", "vllm_flashinfer_fiprefill", "torch_flow_flashinfer"):
        assert habits_of_name(prefill, name, "blackwell-gb20x")["by_head"] == FLASHINFER
    assert habits_of_name(prefill, "triton", "blackwell") == {}
    # TensorRT-LLM's backend of that name calls its own kernels there, whose tiles are its own
    for law, tiles in ((prefill, "by_head"), (decode, "tile_rows")):
        assert tiles not in habits_of_name(law, "torch_flow_flashinfer", "blackwell")
        assert tiles in habits_of_name(law, "torch_flow_flashinfer", "ada")
    # and, called so, clears no counters before them
    assert habits_of_name(decode, "torch_flow_flashinfer", "blackwell")["clears"] == 0.0
    assert habits_of_name(decode, "flashinfer", "blackwell")["tile_rows"] == 16.0
    assert is_recognized(prefill, "flashinfer_of_tomorrow")


@pytest.mark.parametrize(("head_dim", "queries"), [(64, 256.0), (128, 256.0), (192, 128.0), (256, 128.0)])
def test_a_block_takes_as_many_tiles_as_tensor_memory_holds(head_dim: int, queries: float) -> None:
    """512 columns of 128 lanes hold two tiles' results of 128 columns beside scores of as many keys."""
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 1, "q_len": 512}
    rows = read_table(pl.DataFrame([row | {"heads": 8, "head_dim": head_dim}])).rows
    gpu = load_gpu("b300-sxm")
    law = laws()["prefill"]
    told = host_of(law, "trtllm", "torch_flow", gpu.architecture, elsewhere=True)["by_head"]
    coefficients = law.every_value({"by_head": told[1]})
    assert tile_sizes(attention_scores(rows, gpu), gpu, coefficients)[0].tolist() == [queries]


def test_generated_kernels_multiply_in_8_bits_where_a_cache_has_8() -> None:
    """Their queries are converted before: by vLLM's loop, by PyTorch, or as TensorRT-LLM rotates them."""
    calls = (("vllm", "vllm_flashinfer_trtllmprefill"), ("trtllm", "torch_flow"))
    for library, name in calls:
        assert host_of(laws()["prefill"], library, name, "blackwell")["kv8_products"] == (0.0, 1.0)
    assert host_of(laws()["prefill"], "sglang", "trtllm_mha", "blackwell")["q_casts"] == (0.0, 1.0)
    told = habits_of_name(laws()["prefill"], "torch_flow_flashinfer", "blackwell")
    assert (told["q_casts"], told["kv8_casts"]) == (1.0, 2.0)


def test_flashinfers_own_kernels_multiply_by_instructions_of_warps_in_tensor_memory_too() -> None:
    """They take as long for long prompts as the rate of GA100's instructions lets them there."""
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 8, "q_len": 8192, "heads": 16}
    rows = read_table(pl.DataFrame([row | {"head_dim": 128}])).rows
    gpu, law = load_gpu("b200-sxm"), laws()["prefill"]
    core = law.pieces(rows, gpu, habits_of_name(law, "vllm_flashinfer_fiprefill", "blackwell")).core_cycles[0]
    flops = 2.0 * 8 * 16 * 8192.0**2 * 128
    assert 1000.0 < flops / core / gpu.sm_count < 2048.0
