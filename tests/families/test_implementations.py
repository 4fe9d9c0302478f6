"""Implementations: every file can be used, a name finds its own, and what nobody states is a mixture."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import (
    Implementation,
    implementations,
    library_of,
    transfer_bands,
)
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.candidates import candidates, other_version
from tracetool.model.chip_scaling import paced
from tracetool.model.eligible_implementations import ANOTHER_KERNEL, in_other_library, members
from tracetool.model.mixtures import member_pieces
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import read_table

FAMILIES = Path(__file__).resolve().parents[2] / "tracetool" / "families"
REFERENCES = tomllib.loads((FAMILIES.parent / "hardware" / "references.toml").read_text("utf-8"))
FILES = sorted(FAMILIES.glob("*/implementations/*.toml"))
LAWS = sorted(name for name in laws() if implementations(name))
H100 = load_gpu("h100-sxm")


def prefill_rows(count: int = 6, **columns: str) -> OperatorColumns:
    lengths = np.geomspace(128, 8192, count).round()
    numbers = {"batch": 4.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0, "causal": 1.0}
    texts = {"phase": "prefill", "dtype": "bf16", "shape_source": "operator", **columns}
    return OperatorColumns(
        np.full(count, "attention", dtype=object),
        {"q_len": lengths, "kv_len": lengths}
        | {k: np.full(count, v) for k, v in numbers.items()}
        | {k: np.full(count, v, dtype=object) for k, v in texts.items()},
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_states_coefficients_of_its_laws_in_their_bounds_and_units(path: Path) -> None:
    document = tomllib.loads(path.read_text("utf-8"))
    sections = {k: v for k, v in document.items() if isinstance(v, dict)}
    assert sections
    for law, entry in sections.items():
        priors = laws()[law].priors
        assert entry["gpus"]
        assert all(load_gpu(name).name == name for name in entry["gpus"])
        keys_measured = entry.get("kv_formats", {})
        assert keys_measured.keys() <= entry["gpus"].keys()
        assert {one for formats in keys_measured.values() for one in formats} <= {"bf16", "fp8"}
        tables = [
            {k: v for k, v in entry.items() if k not in {"gpus", "versions", "kv_formats", "on", "in"}},
            *entry.get("on", {}).values(),
            *(table for of_version in entry.get("in", {}).values() for table in of_version.values()),
        ]
        for name, number in (item for table in tables for item in table.items()):
            assert number["source"] in REFERENCES, (law, name)
            if name.startswith("spread_"):
                continue
            assert number["unit"] == priors[name].unit, (law, name)
            low, high = priors[name].low, priors[name].high
            assert low * 0.999 <= number["value"] <= high * 1.001, (law, name)
            assert not priors[name].choices or number["value"] in priors[name].choices, (law, name)
        assert entry["spread_low"]["value"] < 0 < entry["spread_high"]["value"]


@pytest.mark.parametrize("law", LAWS)
def test_every_fitted_law_says_how_far_it_errs_elsewhere(law: str) -> None:
    bands = transfer_bands(law)
    assert bands is not None
    own = (-0.1, 0.1)
    near, away = bands.on_architecture(own), bands.apart(own, 1.0)
    assert away[0] <= near[0] < own[0] < own[1] < near[1] <= away[1]
    assert bands.apart(own, 3.0) == tuple(3.0 * side for side in bands.other_architecture)
    assert bands.apart((-9.0, 9.0), 3.0) == (-9.0, 9.0)
    assert bands.other_library >= 1.0


def test_a_name_finds_its_own_implementation_whatever_the_version() -> None:
    for stack in ("vllm", "vLLM 0.24.0", "vllm-0.31.2rc1"):
        found = candidates("prefill", "hopper", stack, "vllm_flash_attn_fa3")
        assert [one.name for one in found] == ["vllm-flash-attn-fa3"]


def test_a_library_without_a_name_is_what_it_runs_there() -> None:
    found = candidates("prefill", "hopper", "sglang")
    assert found
    assert {one.stack for one in found} == {"sglang"}
    assert all(any(load_gpu(g).architecture == "hopper" for g in one.laws["prefill"].gpus) for one in found)


def test_what_nobody_states_may_be_any_library_that_runs_there() -> None:
    assert {one.stack for one in candidates("prefill", "hopper")} >= {"vllm", "sglang", "trtllm"}


def test_a_library_nobody_fitted_is_wider_than_one_that_was() -> None:
    def width(**columns: str) -> float:
        timing = time_rows(prefill_rows(**columns), H100, np.array([H100.clock_boost_mhz]))
        return float(np.log(timing.high / timing.low).mean())

    stated = width(stack="vllm 0.24.0", implementation="vllm_flash_attn_fa3")
    assert stated < width(stack="sglang") <= width(stack="lmdeploy")
    assert stated < width()


def test_a_mixture_holds_every_candidate() -> None:
    law, rows = laws()["prefill"], prefill_rows()
    every = members(law, H100, "", "")
    assert len(every) > 2
    pieces, low, high = member_pieces(law, rows, H100, every)
    hertz = np.full((len(rows), 1), H100.clock_boost_mhz * 1e6)
    base = duration_s(pieces, hertz)[:, 0]
    heaviest = sorted(every, key=lambda member: -member.weight)[:3]
    for member in heaviest:
        time = duration_s(law.pieces(rows, H100, member.coefficients), hertz)[:, 0]
        assert (np.log(time / base) >= low).all()
        assert (np.log(time / base) <= high).all()


def test_a_users_own_calibration_stands_before_every_implementation() -> None:
    from tracetool.model.time_calibration import TimeCalibration

    own = TimeCalibration({"prefill": {"launch_us": 55.0}}, {"prefill": (-0.1, 0.1)}, "prior")
    rows = prefill_rows(stack="vllm", implementation="vllm_flash_attn_fa3")
    timing = time_rows(rows, H100, np.array([H100.clock_boost_mhz]), calibration=own)
    assert (timing.duration_s > 55e-6).all()
    np.testing.assert_allclose(np.log(timing.high), 0.1)


@pytest.mark.parametrize(
    ("stack", "library"),
    [
        ("vLLM 0.24.0", "vllm"),
        ("vLLM v0.19.1", "vllm"),
        ("TensorRT-LLM 1.3.0rc20", "trtllm"),
        ("sglang-0.5.14", "sglang"),
        ("sgl v0.5", "sglang"),
        ("", ""),
    ],
)
def test_a_version_is_no_part_of_the_library(stack: str, library: str) -> None:
    assert library_of(stack) == library


def test_pinned_products_cost_the_same() -> None:
    law = laws()["gemm"]
    sizes = np.array([1.0, 7.0, 64.0, 1000.0, 4096.0])
    rows = OperatorColumns(
        np.full(5, "gemm", dtype=object),
        {
            "m": sizes,
            "n": np.full(5, 4096.0),
            "k": np.full(5, 2048.0),
            "dtype": np.full(5, "bf16", dtype=object),
        },
    )
    given = {name: one.value for name, one in law.priors.items()}
    assert law.pin is not None
    hertz = np.full((5, 1), H100.clock_boost_mhz * 1e6)
    free, pinned = (duration_s(law.pieces(r, H100, given), hertz) for r in (rows, law.pin(rows, H100, given)))
    np.testing.assert_allclose(pinned, free, rtol=1e-12)


def test_bounds_of_many_rows_are_told_by_some() -> None:
    few, many = prefill_rows(60), prefill_rows(60).take(np.tile(np.arange(60), 100))
    clocks = np.array([H100.clock_boost_mhz])
    one_by_one, sampled = (time_rows(rows, H100, clocks) for rows in (few, many))
    np.testing.assert_allclose(sampled.duration_s[:60], one_by_one.duration_s)
    assert one_by_one.high.min() <= sampled.high[0] <= one_by_one.high.max()
    assert one_by_one.low.min() <= sampled.low[0] <= one_by_one.low.max()


def test_kernels_of_other_matrix_instructions_are_no_candidates() -> None:
    """FlashAttention 3 was measured on Hopper alone: on an Ampere GPU another kernel runs under its name."""
    found = candidates("prefill", "ampere-ga10x", "vllm", "vllm_flash_attn_fa3")
    assert found
    for one in found:
        assert {"ampere-ga100", "ada"} & set(one.laws["prefill"].architectures), one.name


def test_a_name_tells_the_library_that_made_the_kernels() -> None:
    every = tuple(one for one in implementations("prefill") if one.stack != "sglang")
    found = candidates("prefill", "blackwell", "sglang", "trtllm_kernels", every)
    assert all(one.stack == "trtllm" or any("trtllm" in word for word in one.words) for one in found)
    assert {one.stack for one in found} == {"trtllm", "vllm"}


def test_of_names_nobody_measured_those_alike_are_taken() -> None:
    every = tuple(one for one in implementations("prefill") if one.name != "vllm-flash-attn-fa2")
    found = candidates("prefill", "ada", "vllm", "vllm_flash_attn_next", every)
    assert [one.name for one in found] == ["vllm-flash-attn"]


def moe_rows(**columns: str) -> OperatorColumns:
    tokens = np.array([1.0, 64.0, 4096.0])
    numbers = {"hidden": 4096.0, "intermediate": 2048.0, "top_k": 8.0, "experts": 256.0, "tp": 1.0, "ep": 1.0}
    return OperatorColumns(
        np.full(3, "moe", dtype=object),
        {"tokens": tokens, "dtype": np.full(3, "fp8", dtype=object)}
        | {k: np.full(3, v) for k, v in numbers.items()}
        | {k: np.full(3, v, dtype=object) for k, v in columns.items()},
    )


def test_one_kernel_under_two_names_is_one_implementation() -> None:
    """vLLM's fused_moe is written in Triton: on Hopper it is what its triton experts are."""
    found = candidates("moe", "hopper", "vllm 0.14.0", "vllm_fused_moe")
    assert [one.name for one in found] == ["vllm-triton"]


def test_a_version_nobody_measured_may_run_the_librarys_other_kernels() -> None:
    """FP8 experts of vLLM on Hopper were measured with CUTLASS; another version may take Triton."""
    law = laws()["moe_fp8"]
    measured = {member.name for member in members(law, H100, "vllm 0.24.0", "")}
    another = members(law, H100, "vllm 0.22.0", "")
    assert measured < {member.name for member in another}
    assert "vllm-triton" in {member.name for member in another}
    weight = {member.name: member.weight for member in another}
    assert sum(weight[name] for name in measured) > 0.5 * sum(weight.values())
    pieces, low, high = member_pieces(law, moe_rows(), H100, another)
    base = duration_s(pieces, np.full((3, 1), H100.clock_boost_mhz * 1e6))[:, 0]
    triton = next(member for member in another if member.name == "vllm-triton")
    time = duration_s(
        law.pieces(moe_rows(), H100, triton.coefficients), np.full((3, 1), H100.clock_boost_mhz * 1e6)
    )[:, 0]
    assert ((np.log(time / base) > low) & (np.log(time / base) < high)).all()


def test_a_version_that_names_what_it_ran_runs_that() -> None:
    law = laws()["moe_fp8"]
    named = members(law, H100, "vllm 0.22.0", "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts")
    assert [member.name for member in named] == ["vllm-flashinfer-cutlass"]


def test_a_kernel_named_in_a_format_measured_elsewhere_is_that_kernel() -> None:
    """vLLM's Triton experts ran in FP8 on Ada and in 16 bits on Hopper: halfway, not another kernel's FP8."""
    law = laws()["moe_fp8"]
    [told] = members(law, H100, "vllm 0.22.0", "vllm_fused_moe")
    assert told.name == "vllm-triton"
    assert told.basis.startswith("transferred")
    ada, hopper = triton_on("moe_fp8", "ada"), triton_on("moe", "hopper")
    name = "outer_factor"
    assert told.coefficients[name] == pytest.approx((ada[name] * hopper[name]) ** 0.5)
    assert told.coefficients["tile_table"] == ada["tile_table"]


def test_a_kernel_named_in_a_format_nobody_measured_takes_the_parents_coefficients() -> None:
    """Without the L40S vLLM's FP8 is CUTLASS's, which Ada cannot run: Triton's of 16 bits stands in."""
    law, ada = laws()["moe_fp8"], load_gpu("l40s")
    cutlass = next(one for one in implementations("moe_fp8") if one.name == "vllm-flashinfer-cutlass")
    triton = next(one for one in implementations("moe") if one.name == "vllm-triton")
    every = (cutlass, replace(triton, laws={"moe": triton.laws["moe"]}))
    [told] = members(law, ada, "vllm 0.24.0", "vllm_modeloptfp8moe_triton_tritonexperts", every)
    assert told.name == "vllm-triton"
    assert told.basis.startswith("transferred from moe, l40s")
    assert told.coefficients["outer_factor"] == triton_on("moe", "ada")["outer_factor"]
    [measured] = members(law, H100, "vllm 0.24.0", "vllm_modeloptfp8moe_flashinfer_cutlass_x", every)
    assert measured.name == "vllm-flashinfer-cutlass"


def triton_on(law: str, architecture: str) -> dict[str, float]:
    one = next(one for one in implementations(law) if one.name == "vllm-triton")
    return one.laws[law].on(architecture)


def test_flashinfers_cutlass_experts_are_not_for_ada() -> None:
    ran = {one.name for one in candidates("moe_fp8_block", "ada", "lmdeploy")}
    assert "vllm-flashinfer-cutlass" not in ran
    assert "vllm-flashinfer-cutlass" in {
        one.name for one in candidates("moe_fp8_block", "hopper", "lmdeploy")
    }


@pytest.mark.parametrize(("version", "table"), [("0.14.0", 7.0), ("0.16.0", 3.0), ("0.24", 3.0)])
def test_the_source_of_a_version_tells_its_tiles(version: str, table: float) -> None:
    """vLLM's default tiles of Triton's experts went by experts before 0.16, and go by tokens since."""
    law = laws()["moe"]
    for gpu in ("a100-sxm", "h100-sxm", "a10"):  # the last of an architecture nobody measured
        [told] = members(law, load_gpu(gpu), f"vllm {version}", "vllm_fused_moe")
        assert told.coefficients["tile_table"] == table


@pytest.mark.parametrize(
    ("stack", "gpu", "cleared"),
    [
        ("trtllm 1.3.0rc15", "b200-sxm", 0.0),
        ("trtllm 1.2", "b200-sxm", 0.0),
        ("trtllm 1.3.0rc20", "b200-sxm", 1.0),
        ("trtllm", "gb200", 1.0),
        ("trtllm 1.3.0rc20", "h100-sxm", 0.0),
        ("trtllm 1.3.0rc20", "rtx-5090", 0.0),
    ],
)
def test_the_source_of_a_version_tells_whether_counters_are_cleared(
    stack: str, gpu: str, cleared: float
) -> None:
    """TensorRT-LLM runs its generated kernels by FlashInfer since, and clears the counters of parts first."""
    law = laws()["decode"]
    [told] = members(law, load_gpu(gpu), stack, "torch_flow")
    assert told.coefficients.get("clears", 0.0) == cleared
    # also where none of its kernels was measured there
    (one,) = (i for i in implementations("decode") if i.name == "trtllm-torch-flow")
    fitted = one.laws["decode"]
    elsewhere = {name: rows for name, rows in fitted.gpus.items() if name != "b200-sxm"}
    others = {name: v for name, v in fitted.by_architecture.items() if name != "blackwell"}
    kept = replace(fitted, gpus=elsewhere, by_architecture=others, by_version={})
    [member] = members(law, load_gpu(gpu), stack, "torch_flow", (replace(one, laws={"decode": kept}),))
    assert member.coefficients.get("clears", 0.0) == cleared


def test_gddr_brings_a_smaller_share_of_its_peak() -> None:
    """Where only memory on the package was measured; programs by a table keep the clocks of their steps."""
    law, l40s, b200 = laws()["moe"], load_gpu("l40s"), load_gpu("b200-sxm")
    hbm = [load_gpu(name) for name in ("h100-sxm", "h200-sxm")]
    values = {"dram_efficiency": 0.9, "k_step_cycles": 700.0}
    told = paced(law, values, l40s, hbm, hbm)
    assert told["dram_efficiency"] == pytest.approx(0.9 * prior_number("implementations.gddr_share"))
    assert paced(law, values, l40s, [*hbm, l40s], hbm)["dram_efficiency"] == 0.9
    assert paced(law, values, load_gpu("a100-sxm"), [l40s], [l40s])["dram_efficiency"] == 1.0
    assert paced(law, values, b200, hbm, hbm)["k_step_cycles"] < 700.0
    assert paced(law, {**values, "tile_table": 3.0}, b200, hbm, hbm)["k_step_cycles"] == 700.0


def test_what_fills_a_tile_is_worth_half_as_much_again_where_pairs_of_sms_multiply_it() -> None:
    law, b200 = laws()["gemm_fp8"], load_gpu("b200-sxm")
    hopper = [load_gpu(name) for name in ("h100-sxm", "h200-sxm")]
    values = {
        "shared_efficiency": 0.6,
        "l2_efficiency": 1.2,
        "port_efficiency": 0.8,
        "tensor_efficiency": 0.9,
        "dram_efficiency": 0.8,
    }
    told = paced(law, values, b200, hopper, hopper)
    assert [told[name] / values[name] for name in values] == pytest.approx([1.5, 1.5, 1.5, 1.0, 1.0])
    assert paced(law, values, b200, [*hopper, b200], hopper) == values
    assert paced(law, values, load_gpu("rtx-5090"), hopper, hopper)["port_efficiency"] == 0.8


def test_a_library_nobody_measured_may_run_a_kernel_by_the_laws_habits() -> None:
    """Short convolutions are run by a Triton and a CUDA kernel, which differ by factors."""
    law = laws()["conv1d"]
    every = tuple(one for one in implementations("conv1d") if one.stack != "trtllm")
    known, unknown = (members(law, H100, stack, "", every) for stack in ("vllm", "ollama"))
    added = [member for member in unknown if member.basis == "prior"]
    assert not [member for member in known if member.basis == "prior"]
    assert len(added) == 1 + len(law.habits)
    assert all(member.bounds_only for member in added)


def test_a_library_nobody_measured_runs_what_its_source_tells() -> None:
    """TensorRT-LLM's short convolution is written in CUDA: blocks of 1024 tokens, not of 8."""
    law = laws()["conv1d"]
    every = tuple(one for one in implementations("conv1d") if one.stack != "trtllm")
    stated = [m for m in members(law, H100, "trtllm 1.3.0", "", every) if not m.bounds_only]
    assert [m.coefficients["block_tokens"] for m in stated] == [1024.0]
    assert stated[0].basis == "prior"
    # where it was measured, that counts
    assert all(m.basis != "prior" for m in members(law, H100, "trtllm 1.3.0rc20", ""))


@pytest.mark.parametrize("law", ["prefill", "decode"])
def test_a_version_has_coefficients_of_its_own_where_it_was_measured(law: str) -> None:
    (one,) = (i for i in implementations(law) if i.name == "vllm-flash-attn-fa3")
    fitted = one.laws[law]
    newest, older = fitted.on("hopper", "vllm 0.24.0"), fitted.on("hopper", "vllm 0.22.0")
    assert older["pass_factor"] != newest["pass_factor"]
    # that its tables leave the write of the cache out is told by their rows, not by the version
    assert older["launch_us"] == newest["launch_us"]
    assert fitted.on("hopper") == fitted.on("hopper", "vllm") == newest
    # a version between, or before, has those of the nearest
    assert fitted.on("hopper", "vllm 0.21.1") == older
    assert fitted.band_on("hopper", "vllm 0.21.1") != fitted.band_on("hopper")
    assert not other_version(fitted, "vllm 0.22.0", "hopper")
    assert not other_version(fitted, "vLLM v0.22+cu128", "hopper")
    assert other_version(fitted, "vllm 0.21.1", "hopper")
    assert other_version(fitted, "vllm 0.22.0", "ampere-ga100")


def test_rows_of_a_version_are_those_of_an_implementation_measured_in_it() -> None:
    b200, decode = load_gpu("b200-sxm"), laws()["decode"]
    assert [m.name for m in members(decode, b200, "trtllm 1.3.0rc15", "")] == ["trtllm-torch-flow"]
    assert len(members(decode, b200, "trtllm 1.3.0rc20", "")) > 1


def test_a_library_nobody_measured_lies_between_those_measured() -> None:
    """Neither library ran it: the time stated is the geometric mean of theirs."""
    rows, law = prefill_rows(), laws()["prefill"]
    every = tuple(
        one for one in implementations("prefill") if one.name in {"sglang-fa3", "vllm-flash-attn-fa3"}
    )
    chosen = members(law, H100, "another 1.0", "", every)
    clocks = np.full((len(rows), 1), H100.clock_boost_mhz * 1e6)
    alone = [duration_s(law.pieces(rows, H100, one.coefficients), clocks) for one in chosen]
    assert len(alone) == 2
    stated = duration_s(member_pieces(law, rows, H100, chosen, one_ran=False)[0], clocks)
    assert stated == pytest.approx(np.sqrt(alone[0] * alone[1]), rel=1e-9)


def test_pieces_made_longer_are_longer_at_any_clock() -> None:
    law = laws()["prefill"]
    pieces = law.pieces(prefill_rows(), H100, {})
    clocks = np.tile([[5e8, 1.2e9, H100.clock_boost_mhz * 1e6]], (6, 1))
    assert duration_s(pieces.times(1.7), clocks) == pytest.approx(1.7 * duration_s(pieces, clocks), rel=1e-12)


def test_attention_of_torch_has_no_cache_to_write() -> None:
    """Where its source tells what stands around a kernel, that takes the place of what was measured."""
    times = {}
    for stack in ("torch 2.9", "another 1.0"):
        places = prefill_rows(stack=stack)
        times[stack] = time_rows(places, H100, np.array([H100.clock_boost_mhz])).duration_s[:, 0]
    assert (times["torch 2.9"] < times["another 1.0"]).all()


@pytest.mark.parametrize(
    ("law", "called", "names"),
    [
        ("mla_decode", "triton_mla", ["vllm-triton-mla"]),  # measured on other architectures alone
        ("gemm_fp8_block", "deep_gemm", ["vllm-deepgemmfp8blockscaledmmkernel"]),
        ("decode", "FLASHINFER", ["vllm-flashinfer-trtllmdecode"]),  # of the nearer architecture
        ("decode", "vllm_flash_attn_fa3", ["vllm-flash-attn-fa3"]),
    ],
)
def test_a_library_knows_its_kernels_by_part_of_their_name(law: str, called: str, names: list[str]) -> None:
    """Another library's kernel of exactly that name is none of its own."""
    assert [one.name for one in candidates(law, "hopper", "vllm 0.24.0", called)] == names


def test_a_library_nobody_measured_widens_bounds_by_what_it_adds_not_by_a_power_of_them() -> None:
    narrow, wide = np.array([-0.1, 0.1]), np.array([-1.5, 1.5])
    assert in_other_library(narrow, 5.0) == pytest.approx(5.0 * narrow)
    assert in_other_library(narrow, 1.0) == pytest.approx(narrow)
    assert 1.0 < np.abs(in_other_library(wide, 5.0) / wide).max() < 2.0
    # what it adds where the kernel was measured, whose bounds are narrower than on another chip
    assert in_other_library(wide, 5.0, 0.2) == pytest.approx(
        np.sign(wide) * np.hypot(1.5, np.sqrt(24.0) * 0.2)
    )
    assert in_other_library(narrow, 5.0, 0.2) == pytest.approx(in_other_library(narrow, 5.0))


def test_another_librarys_call_on_a_new_chip_adds_what_it_adds_where_the_kernel_was_measured() -> None:
    law, bands = laws()["prefill"], transfer_bands("prefill")
    assert bands is not None
    [one] = (one for one in implementations("prefill") if one.name == "trtllm-torch-flow")
    hopper = replace(one.laws["prefill"], gpus={"h100-sxm": 100}, by_architecture={}, band_by_architecture={})
    vllms = replace(one, name="vllm-fa3", stack="vllm", names=frozenset({"vllm_fa3"}), words=("fa3",))
    every = (replace(one, laws={"prefill": hopper}), replace(vllms, laws={"prefill": hopper}))
    [there] = members(law, load_gpu("b200-sxm"), "vllm", "vllm_flashinfer_trtllmprefill", every)
    [own] = members(law, load_gpu("b200-sxm"), "trtllm", "torch_flow", every)
    more = np.sqrt(bands.other_library**2 - 1.0)
    for side, away, measured in zip(there.band, own.band, hopper.band, strict=True):
        assert abs(side) == pytest.approx(np.hypot(away, more * measured))
        assert abs(side) < abs(in_other_library(np.array(away), bands.other_library))


@pytest.mark.parametrize("gpu", ["a100-sxm", "l40s", "b200-sxm"])
def test_no_bound_of_attention_under_an_unknown_library_is_beyond_a_factor_of_thirty(gpu: str) -> None:
    frame = pl.DataFrame(
        {"op": ["attention"], "dtype": ["bf16"], "phase": ["prefill"], "batch": [1], "q_len": [4352],
         "kv_len": [4352], "heads": [24], "kv_heads": [24], "head_dim": [128], "causal": [False],
         "stack": ["diffusers"]}
    )  # fmt: skip
    made = predict_rows(read_table(frame).rows, load_gpu(gpu), np.array([load_gpu(gpu).clock_max_mhz]))
    assert made.timing.high.max() < 30.0
    assert made.timing.low.min() > 1.0 / 30.0


def test_a_name_tells_habits_of_a_kernel_that_another_stands_for() -> None:
    """Heads of a group share a window's keys in FlashInfer, not in FlashAttention 2."""
    law, gpu = laws()["decode"], load_gpu("l40s")
    every = tuple(one for one in implementations("decode") if one.name == "vllm-flash-attn")

    def packs(name: str) -> list[float]:
        return [one.coefficients["pack_windowed"] for one in members(law, gpu, "vllm", name, every)]

    assert packs("vllm_flash_attn") == packs("vllm_flash_attn_fa2") == [0.0]
    assert packs("vllm_flashinfer_fidecode") == [1.0]


def prefill_without_ada() -> tuple[Implementation, ...]:
    """Return the implementations of prefill as if none had run on an L40S."""
    kept = []
    for one in implementations("prefill"):
        law = one.laws["prefill"]
        gpus = {name: rows for name, rows in law.gpus.items() if load_gpu(name).architecture != "ada"}
        others = {name: values for name, values in law.by_architecture.items() if name != "ada"}
        if gpus:
            kept.append(replace(one, laws={"prefill": replace(law, gpus=gpus, by_architecture=others)}))
    return tuple(kept)


@pytest.mark.parametrize(
    ("stack", "called", "names", "never"),
    [
        # FlashInfer was measured on the B200 alone, in tensor memory: no kernel of it for Ada is known
        ("sglang 0.5.14", "flashinfer", set(), "sglang-flashinfer"),
        # Triton compiles one source for any chip, so that where it ran last does not count
        ("sglang 0.5.14", "triton", {"sglang-triton"}, ""),
        ("vllm 0.24.0", "vllm_triton_attn", {"vllm-triton-attn"}, ""),
    ],
)
def test_a_kernel_of_another_generation_stands_for_none_but_a_compilers(
    stack: str, called: str, names: set[str], never: str
) -> None:
    every = prefill_without_ada()
    ran = {one.name for one in candidates("prefill", "ada", stack, called, every)}
    assert ran
    assert never not in ran
    assert ran == names or not names


def test_the_longest_word_of_a_name_tells_its_habits() -> None:
    """FlashInfer's own kernels hold 128 queries a tile; those that TensorRT-LLM made for it do not."""
    law = laws()["prefill"]
    [one] = (one for one in implementations("prefill") if one.name == "vllm-flash-attn")

    def coefficients(name: str) -> dict[str, float]:
        [member] = members(law, load_gpu("l40s"), "vllm", name, (one,))
        return dict(member.coefficients)

    own = coefficients("vllm_flash_attn")
    habits = law.name_habits["flashinfer"]
    assert coefficients("vllm_flashinfer") == {**own, **habits} != own
    assert coefficients("vllm_flashinfer_trtllm") == own


@pytest.mark.parametrize(
    ("law", "gpu", "stack", "called", "stands"),
    [
        # FlashAttention 3 stands for FlashAttention 4, of which nobody measured enough rows
        ("decode", "h100-sxm", "vllm 0.24.0", "vllm_flash_attn_fa4", True),
        ("prefill", "l40s", "vllm 0.24.0", "vllm_xformers", True),
        ("gemm_fp8", "h100-sxm", "vllm 0.24.0", "MarlinFP8ScaledMMLinearKernel", True),
        ("moe_fp4", "b200-sxm", "sglang 0.5.14", "sglang_flashinfer_cutedsl_moe", True),
        # measured since, in few rows
        ("prefill", "h200-sxm", "vllm 0.24.0", "vllm_flash_attn_fa4", False),
        ("decode", "h100-sxm", "vllm 0.24.0", "vllm_flash_attn_fa3", False),
        # a name that tells no kernel is the library's own
        ("decode", "h100-sxm", "vllm 0.24.0", "vllm_flash_attn", False),
        # one kernel by two ways to call it
        ("moe_fp8", "b200-sxm", "vllm 0.24.0", "vllm_fp8moe_flashinfer_trtllm_other", False),
    ],
)
def test_a_kernel_that_another_stands_for_says_so_and_is_as_wide_as_those_left_out(
    law: str, gpu: str, stack: str, called: str, stands: bool
) -> None:
    every, bands = members(laws()[law], load_gpu(gpu), stack, called), transfer_bands(law)
    assert bands is not None
    for one in every:
        assert (ANOTHER_KERNEL in one.basis) is stands
        assert ("calibrated" in one.basis) is not stands
        inside = one.band[0] <= bands.stand_in[0] and one.band[1] >= bands.stand_in[1]
        assert inside is stands


def test_the_same_kernel_in_another_library_goes_before_another_kernel_of_the_same() -> None:
    """Without SGLang's own, FlashAttention 3 of vLLM answers for it, not SGLang's Triton kernel."""
    law, gpu, bands = laws()["prefill"], load_gpu("h100-sxm"), transfer_bands("prefill")
    every = tuple(one for one in implementations("prefill") if one.name != "sglang-fa3")
    [one] = members(law, gpu, "sglang 0.5.14", "fa3", every)
    assert one.name == "vllm-flash-attn-fa3"
    # of another library, so wider than where it was measured
    [own] = members(law, gpu, "vllm 0.24.0", "vllm_flash_attn_fa3", every)
    assert bands is not None
    assert one.band[0] < 1.5 * own.band[0] < 0.0 < 1.5 * own.band[1] < one.band[1]
    assert one.basis == "transferred from vllm-flash-attn-fa3"


def test_a_functions_whole_name_is_that_function_whichever_library_calls_it() -> None:
    """SGLang's recurrent delta rule without packing is TensorRT-LLM's, not its own with packing."""
    called = "fused_recurrent_gated_delta_rule"
    own = "sglang-fused-recurrent-gated-delta-rule"
    every = tuple(one for one in implementations("gdn_update") if one.name != own)
    [one] = candidates("gdn_update", "ampere-ga100", "sglang 0.5.10", called, every)
    assert one.name == "trtllm-fused-recurrent-gated-delta-rule"
    # a backend's name in one word or two is what the library means by it
    [one] = candidates("decode", "ada", "vllm 0.24.0", "triton")
    assert one.name == "vllm-triton-attn"
