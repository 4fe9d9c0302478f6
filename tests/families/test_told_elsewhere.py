"""What source tells of a library's kernels on an architecture where none of them was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.decode import DECODE
from tracetool.families.attention.latent_hosts import WARPS_GAIN_8
from tracetool.families.attention.problem import SMALL_KERNEL_US
from tracetool.families.attention.tile_sizes import (
    SGLANG_ENCODER,
    SGLANG_TRITON,
    TENSOR_TILES,
    VLLM_TRITON,
)
from tracetool.families.implementations import FittedLaw, Implementation, implementations
from tracetool.families.law import TENSOR_MEMORY, Law
from tracetool.families.loops import NEXT_US
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.chip_scaling import memory_bytes_per_clock_sm, paced
from tracetool.model.eligible_implementations import members
from tracetool.model.unmeasured_libraries import host_of
from tracetool.replay.operator_tables import read_table
from tracetool.replay.predict import predict_table

B200, H200, RTX = (load_gpu(name) for name in ("b200-sxm", "h200-sxm", "rtx-5090"))


def _fitted(values: dict[str, float], *gpus: str) -> FittedLaw:
    return FittedLaw(
        values=values, by_architecture={}, versions=frozenset(), band=(-0.1, 0.1),
        gpus=dict.fromkeys(gpus, 100), band_by_architecture={},
    )  # fmt: skip


def _one(law: Law, values: dict[str, float], *gpus: str, name: str = "x", stack: str = "x") -> Implementation:
    return Implementation(name, name, stack, frozenset({name}), (), {law.name: _fitted(values, *gpus)})


def _on(law: Law, gpu: str, every: tuple[Implementation, ...], stack: str, name: str) -> Any:
    [one] = members(law, load_gpu(gpu), f"{stack} 1.0", name, every)
    return one.coefficients


def _rows(**columns: float | str) -> OperatorColumns:
    row: dict[str, object] = {"op": "attention", "phase": "decode", "dtype": "bf16", "q_len": 1, "heads": 16}
    return read_table(pl.DataFrame([{**row, "kv_heads": 2, "head_dim": 128, **columns}])).rows


def test_two_tiles_of_queries_are_told_where_results_lie_in_tensor_memory() -> None:
    for name in ("prefill", "encoder"):
        law = laws()[name]
        told = {
            place: host_of(law, "vllm", "vllm_flash_attn_fa4", place, elsewhere=True).get("by_head")
            for place in ("blackwell", "hopper", "blackwell-gb20x")
        }
        assert told == {"blackwell": (0.0, TENSOR_TILES), "hopper": None, "blackwell-gb20x": None}
        # where its kernels were measured a fit chooses among all
        assert "by_head" not in host_of(law, "vllm", "vllm_flash_attn_fa4", "blackwell")
        # encoders have no cache: SGLang's run another kernel
        of_sglang = SGLANG_TRITON if name == "prefill" else SGLANG_ENCODER
        for library, whose in (("vllm", VLLM_TRITON), ("sglang", of_sglang)):
            triton = host_of(law, library, f"{library}_triton", "blackwell", elsewhere=True)
            assert triton["by_head"] == (0.0, whose)


def test_hopper_s_prefill_takes_two_tiles_on_blackwell() -> None:
    law = laws()["prefill"]
    one = _one(
        law, {"by_head": 1.0, "query_tile": 128.0, "mix_norm": 1.0}, "h200-sxm", name="vllm_fa3", stack="vllm"
    )
    there = _on(law, "b200-sxm", (one,), "vllm", "vllm_fa3")
    assert (there["by_head"], there["mix_norm"]) == (TENSOR_TILES, law.priors["mix_norm"].value)
    same = _on(law, "h100-sxm", (one,), "vllm", "vllm_fa3")
    assert (same["by_head"], same["query_tile"], same["mix_norm"]) == (1.0, 128.0, 1.0)


def test_what_tensor_memory_changes_is_the_prior_where_it_is_new() -> None:
    law = laws()["prefill"]
    assert paced(law, {"mix_norm": 1.0}, B200, [H200], [H200])["mix_norm"] == law.priors["mix_norm"].value
    assert paced(law, {"mix_norm": 1.0}, B200, [H200, B200], [H200])["mix_norm"] == 1.0
    assert paced(law, {"mix_norm": 1.0}, RTX, [H200], [H200])["mix_norm"] == 1.0


@pytest.mark.parametrize(("reached", "expected"), [(0.4, 0.6), (0.9, 1.0)])
def test_pairs_of_sms_reach_no_more_than_the_peak(reached: float, expected: float) -> None:
    told = paced(laws()["mla_prefill"], {"tensor_efficiency": reached}, B200, [H200], [H200])
    assert told["tensor_efficiency"] == pytest.approx(expected)


def test_steps_of_one_program_take_as_many_clocks_on_every_chip() -> None:
    law, given = laws()["decode"], {"step_clk": 600.0, "sm_bytes_clk": 50.0}
    faster = memory_bytes_per_clock_sm(H200) / memory_bytes_per_clock_sm(B200)
    tuned = paced(law, given, B200, [H200], [H200])
    assert (tuned["step_clk"], tuned["sm_bytes_clk"]) == pytest.approx((600.0 * faster, 50.0 / faster))
    program = paced(law, given, B200, [H200], [H200], one_program=True)
    assert (program["step_clk"], program["sm_bytes_clk"]) == (600.0, 50.0)
    for name, expected in (("sglang_triton", 600.0), ("sglang_fa3", 600.0 * faster)):
        one = _one(law, given, "h200-sxm", name=name.replace("_", "-"), stack="sglang")
        one = replace(one, names=frozenset({name}))
        assert _on(law, "b200-sxm", (one,), "sglang", name)["step_clk"] == pytest.approx(expected)


def test_generated_decode_holds_nothing_of_the_kernel_before_it() -> None:
    law = laws()["decode"]
    given = {"split_fill": 4.0, "kv8_block": 0.2, "kv8_bytes": 0.7, "launch_us": 5.0, "launch_kv8_us": 3.0}
    one = _one(law, given, "h200-sxm", name="torch_flow", stack="trtllm")
    there = _on(law, "b200-sxm", (one,), "trtllm", "torch_flow")
    told = {"split_fill": 0.0, "kv8_block": 1.0, "kv8_bytes": 1.0, "persistent": 1.0, "key_tile": 256.0}
    assert {name: there[name] for name in told} == told
    # stated of the chip: no pace of memory on top
    assert there["sm_bytes_clk"] == 100.0
    # SGLang converts and quantizes beside the launches of 16 bits, and calls it for heads that share no keys
    borrowed = _on(law, "b200-sxm", (one,), "sglang", "sglang_trtllm_mha")
    assert borrowed["launch_kv8_us"] == 7.0
    assert (borrowed["kv8_casts"], borrowed["vector_heads"]) == (-1.0, 0.0)


def test_what_differs_between_two_architectures_is_told_and_no_more() -> None:
    law = laws()["decode"]
    host = {
        "x": {"launch_us": (1.0, 9.0)},
        "x/hopper": {"launch_us": (1.0, 2.0), "combine_clk": (0.0, 500.0), "pass_factor": (0.0, 3.0)},
    }
    there = {
        f"x/{TENSOR_MEMORY}": {
            "launch_us": (1.0, 5.0),
            "combine_clk": (0.0, 800.0),
            "pass_factor": (0.0, 3.0),
        }
    }
    law = replace(law, library_host=host, elsewhere=there)
    given = {"launch_us": 20.0, "combine_clk": 100.0, "pass_factor": 1.0}
    told = _on(law, "b200-sxm", (_one(law, given, "h200-sxm"),), "x", "x")
    # 5 us in place of 2; another value than was measured under; the same one is in what was measured
    assert (told["launch_us"], told["combine_clk"], told["pass_factor"]) == (23.0, 800.0, 1.0)
    told = _on(law, "h100-sxm", (_one(law, given, "h200-sxm"),), "x", "x")
    assert (told["launch_us"], told["combine_clk"], told["pass_factor"]) == (20.0, 100.0, 1.0)


def test_nothing_is_added_to_a_form_that_is_told_where_it_was_measured() -> None:
    law = replace(
        laws()["decode"],
        library_host={"x": {"pass_factor": (1.0, 0.1)}, "x/hopper": {"pass_factor": (0.0, 1.1)}},
    )
    told = _on(law, "b200-sxm", (_one(law, {"pass_factor": 0.7}, "h200-sxm"),), "x", "x")
    assert told["pass_factor"] == 0.7


def test_sglang_s_encoder_multiplies_each_row_once_where_its_tiles_are_large() -> None:
    law, rows = (
        laws()["encoder"],
        {"phase": "prefill", "causal": 0, "batch": 8, "q_len": 4096, "kv_heads": 16},
    )
    every = implementations("encoder")
    there, measured = (_on(law, gpu, every, "sglang", "triton") for gpu in ("rtx-5090", "l40s"))
    assert (there["by_head"], measured.get("by_head", 0.0)) == (SGLANG_ENCODER, 0.0)
    # products of a tile for heads of 80, padded to 128, take half as long a row; those of 64 as long
    for dim, share in ((80, 0.5), (64, 1.0)):
        took = [
            law.pieces(_rows(**rows, head_dim=dim), load_gpu("l40s"), given).core_cycles[0]
            for given in (there | {"by_head": 0.0, "query_tile": 128.0}, measured | {"query_tile": 128.0})
        ]
        assert took[0] / took[1] == pytest.approx(share, rel=0.05)
    for older in ("ada", "ampere-ga100"):
        assert "by_head" not in host_of(law, "sglang", "triton", older, elsewhere=True)


def test_prompts_of_one_query_take_the_heads_of_a_group_in_one_tile() -> None:
    law, kernels = laws()["prefill"], _fitted({"query_tile": 192.0, "pack_heads": 0.0}, "h200-sxm")
    one = Implementation("trtllm-x", "x", "trtllm", frozenset({"x"}), (), {"prefill": kernels})
    member = {
        called: members(law, B200, "vllm 0.24.0", called, (one,))[0].coefficients
        for called in ("vllm_flashinfer_trtllmdecode", "vllm_flashinfer_trtllmprefill")
    }
    assert [each["pack_heads"] for each in member.values()] == [2.0, 0.0]
    assert member["vllm_flashinfer_trtllmdecode"]["query_tile"] == 64.0


def test_latents_of_8_bits_are_told_to_be_multiplied_as_they_lie_in_tensor_memory() -> None:
    law = laws()["mla_decode"]
    # small kernels set TensorRT-LLM's counters to zero and scale a scale; SGLang writes the cache apart
    launches = {"sglang": (3.0 * NEXT_US, 0.0), "trtllm": (2.0 * NEXT_US + SMALL_KERNEL_US, SMALL_KERNEL_US)}
    for library, (launch_us, kv8_launch_us) in launches.items():
        there, here = (
            host_of(law, library, "trtllm_x", place, elsewhere=True) for place in ("blackwell", "hopper")
        )
        assert (there["kv8_launch_us"], there["dram_efficiency"]) == ((0.0, kv8_launch_us), (0.0, 0.85))
        assert (there["launch_us"], there["block_clk"]) == ((0.0, launch_us), (0.0, 2600.0))
        assert there["kv8_convert_ops"][1] < 0.1
        assert "dram_efficiency" not in here
    # a fit to rows of that architecture is free of it
    assert "dram_efficiency" not in host_of(law, "trtllm", "default", "blackwell")


def test_latents_of_8_bits_are_met_as_they_lie_by_kernels_of_warps_on_the_newest() -> None:
    prefill, decode = laws()["mla_prefill"], laws()["mla_decode"]
    [member] = members(prefill, RTX, "trtllm 1.3.0rc20", "default")
    assert (member.coefficients["expanded_in_8"], member.coefficients["kv8_rate"]) == (1.0, WARPS_GAIN_8)
    for library, name in (("trtllm", "default"), ("sglang", "trtllm_mla")):
        [member] = members(decode, RTX, f"{library} 1.3.0", name)
        told = {"kv8_in_16": 0.0, "cluster_heads": 128.0, "head_tile": 64.0, "most_parts": 1.0}
        assert {name: member.coefficients[name] for name in told} == told
        assert member.coefficients["pass_factor"] > 0.0


def test_rows_of_kernels_that_source_tells_alone_have_wider_bounds() -> None:
    latent = {"op": "mla", "phase": "decode", "dtype": "bf16", "batch": 8, "q_len": 1, "kv_len": 8192}
    latent |= {"kv_lora_rank": 512, "stack": "trtllm 1.3.0rc20", "implementation": "default"}
    kinds = [(heads, kept) for heads in (128, 16) for kept in ("bf16", "fp8")]
    frame = pl.DataFrame([{**latent, "heads": heads, "kv_dtype": kept} for heads, kept in kinds])
    on = {gpu: predict_table(frame, gpu).frame for gpu in ("rtx-5090", "l40s")}
    assert not on["l40s"]["basis"].str.contains("another kernel").any()
    assert on["rtx-5090"]["basis"].str.contains("another kernel").to_list() == [False, True, False, True]
    wide = on["rtx-5090"].select(pl.col("duration_high_us") / pl.col("duration_low_us")).to_series()
    assert wide[1] > 1.4 * wide[0]
    assert wide[3] > 1.4 * wide[2]
    # four SMs of a cluster take no longer than two of 64 heads each
    times = on["rtx-5090"]["duration_us"]
    assert times[1] < 0.7 * times[0]


def test_another_format_s_kernels_keep_step_with_the_chip_as_well() -> None:
    """The L40S's one L2 holds all that fits, for both halves of what an encoder is member there."""
    law = laws()["encoder"]
    fitted = {
        "encoder": _fitted({"l2_hit": 0.3}, "h200-sxm"),
        "prefill": _fitted({"l2_hit": 0.2}, "a100-sxm"),
    }
    one = Implementation("x", "x", "x", frozenset({"x"}), (), fitted)
    assert _on(law, "l40s", (one,), "x", "x")["l2_hit"] == pytest.approx(0.95)


def test_a_block_that_takes_tile_after_tile_begins_once() -> None:
    row = _rows(batch=2048, kv_len=2)
    given = {"block_clk": 4000.0, "latency_clk": 2300.0, "block_overlap": 1.0, "block_serial": 1.0}
    one, many = (DECODE.pieces(row, B200, {**given, "persistent": way}) for way in (0.0, 1.0))
    waves = 4096.0 / B200.sm_count
    saved = float(one.serial_cycles[0] - many.serial_cycles[0])
    assert saved == pytest.approx((waves - 1.0) * 4000.0)
    few = _rows(batch=2, kv_len=2)
    alone = [
        float(DECODE.pieces(few, B200, {**given, "persistent": way}).serial_cycles[0]) for way in (0.0, 1.0)
    ]
    assert alone[0] == alone[1]


def test_launches_of_8_bits_are_all_or_those_beside_the_ones_of_16() -> None:
    row = _rows(batch=2, kv_len=64, kv_dtype="fp8")

    def launches(casts: float) -> float:
        given = {
            "launch_us": 5.0,
            "launch_kv8_us": 4.0,
            "kv8_casts": casts,
            "pack_us": 0.0,
            "odd_dim_us": 0.0,
        }
        return float(DECODE.pieces(row, B200, given).fixed_s[0]) * 1e6 * B200.clock_boost_mhz / 1980.0

    told = np.array([launches(casts) for casts in (0.0, 2.0, -1.0)])
    assert told == pytest.approx([4.0, 5.0 + 2.0 * SMALL_KERNEL_US, 9.0])


def test_a_name_of_generated_kernels_is_none_of_flashinfer_s_own() -> None:
    law = laws()["decode"]
    every = tuple(one for one in implementations("decode") if B200.name not in one.laws["decode"].gpus)
    [generated] = members(law, B200, "vllm 0.24.0", "vllm_flashinfer_trtllmdecode", (
        *every, _one(law, {}, "h200-sxm", name="torch_flow", stack="trtllm"),
    ))  # fmt: skip
    assert generated.coefficients.get("tile_rows", 0.0) == 0.0
