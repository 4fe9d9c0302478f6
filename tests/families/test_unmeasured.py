"""GPUs and libraries nobody measured: what of others' coefficients holds there, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import bands_elsewhere, implementations
from tracetool.families.loops import NEXT_US
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.candidates import candidates
from tracetool.model.chip_scaling import memory_bytes_per_clock_sm, paced, unhidden, widening
from tracetool.model.eligible_implementations import coefficients_on, members
from tracetool.model.timing import time_rows
from tracetool.model.unmeasured_libraries import host_of, known_by_source

H100 = load_gpu("h100-sxm")


def latent_floor_us(**columns: str) -> float:
    """Return the time of one query of one head: nothing but launches, and the host's floor."""
    numbers = {"batch": 1.0, "heads": 1.0, "q_len": 1.0, "kv_len": 2.0, "kv_lora_rank": 512.0}
    texts = {"phase": "decode", "dtype": "bf16", "shape_source": "operator", **columns}
    rows = OperatorColumns(
        np.array(["attention"], dtype=object),
        {k: np.array([v]) for k, v in numbers.items()}
        | {k: np.array([v], dtype=object) for k, v in texts.items()},
    )
    return float(time_rows(rows, H100, np.array([H100.clock_boost_mhz])).duration_s[0, 0]) * 1e6


def test_a_library_nobody_measured_does_not_wait_for_anothers_host() -> None:
    # vLLM 0.14 was measured through its module, which issues kernel after kernel (docs/families/mla.md)
    assert latent_floor_us(stack="vllm 0.14.0") > 150.0
    assert latent_floor_us(stack="lmdeploy") < 50.0


def test_a_library_nobody_measured_meets_latents_as_its_source_says() -> None:
    law = laws()["mla_prefill"]
    every = tuple(one for one in implementations(law.name) if one.stack != "sglang")
    by_source = members(law, H100, "sglang", "flash_attention", every)
    assert {one.coefficients["absorbed_queries"] for one in by_source} == {1e9}
    # TensorRT-LLM's kernels do what they do whoever calls them
    borrowed = members(law, load_gpu("b200-sxm"), "sglang", "trtllm_mla", every)
    assert all(one.coefficients.get("absorbed_queries", 0.0) == 0.0 for one in borrowed)


def test_a_library_whose_source_shows_its_kernel_runs_no_other() -> None:
    # TensorRT-LLM's short convolution is a CUDA kernel of its own; whose kernels LMDeploy runs is not stated
    law = laws()["conv1d"]
    every = tuple(one for one in implementations(law.name) if one.stack != "trtllm")
    stated = members(law, H100, "trtllm", "", every)
    assert len(stated) == 1 and known_by_source(stated)
    open_to_any = members(law, H100, "lmdeploy", "", every)
    assert len(open_to_any) > 1 and any("priors" in one.name for one in open_to_any)


def test_what_source_tells_of_a_name_or_an_architecture_goes_before_what_it_tells_of_a_library() -> None:
    law = laws()["mla_prefill"]
    by_name = {
        name: host_of(law, "vllm", f"vllm_{name}", "hopper") for name in ("flash_attn_mla", "flashmla")
    }
    assert {name: told["absorbed_queries"][1] for name, told in by_name.items()} == {
        "flash_attn_mla": 512.0,
        "flashmla": 128.0,
    }
    assert host_of(law, "vllm", "", "hopper")["absorbed_queries"] == (0.0, 1.0)
    # kernels of 8 bits are those of Hopper and Blackwell
    on = {name: host_of(law, "trtllm", "default", name)["expanded_in_8"][1] for name in ("ada", "hopper")}
    assert on == {"ada": 0.0, "hopper": 1.0}
    assert host_of(law, "lmdeploy", "flashmla", "hopper") == {}


def test_a_host_that_source_tells_is_waited_for_and_anothers_is_not() -> None:
    """vLLM's layer issues five kernels about FlashAttention's, SGLang's are recorded once."""
    law = laws()["mla_decode"]
    without = {
        name: tuple(one for one in implementations(law.name) if one.stack != name)
        for name in ("vllm", "sglang")
    }
    [told] = members(law, H100, "vllm 0.14.0", "vllm_flash_attn_mla", without["vllm"])
    assert told.coefficients["floor_us"] == pytest.approx(5 * 32.0)
    assert told.coefficients["projected"] == 1.0
    [borrowed] = members(law, H100, "sglang 0.5.14", "flash_attention", without["sglang"])
    assert borrowed.name == "vllm-flash-attn-mla"
    assert borrowed.coefficients["floor_us"] < 20.0
    assert borrowed.coefficients["projected"] == 0.0
    # what rows of a waiting host do not tell is the law's
    for name in ("launch_us", "block_clk", "combine_clk"):
        assert borrowed.coefficients[name] <= law.priors[name].value


def test_coefficients_of_an_architecture_nobody_measured_lie_halfway() -> None:
    law, fitted = laws()["gemm"], implementations("gemm")[0].laws["gemm"]
    halfway, ada = coefficients_on(law, fitted, "blackwell-gb20x"), fitted.on("blackwell-gb20x")
    changed = fitted.by_architecture["ada"]
    assert {**fitted.values, **changed} == ada
    for name, near in changed.items():
        prior = law.priors[name]
        center = fitted.values.get(name, prior.value)
        expected = np.sqrt(near * center) if prior.fitted else near
        assert halfway[name] == pytest.approx(expected)
    assert coefficients_on(law, fitted, "ada") == fitted.on("ada")


def test_a_kernel_of_several_matrix_instructions_keeps_its_name_anywhere() -> None:
    """CUTLASS products of vLLM ran on Hopper and Blackwell, FlashAttention 3 on Hopper alone."""
    products = candidates("gemm_fp8_block", "blackwell-gb20x", "vllm 0.24.0", "CutlassFp8BlockScaledMMKernel")
    assert [one.name for one in products] == ["vllm-cutlassfp8blockscaledmmkernel"]
    attention = candidates("decode", "blackwell-gb20x", "vllm 0.24.0", "vllm_flash_attn_fa3")
    assert "vllm-flash-attn-fa3" not in {one.name for one in attention}


def test_steps_of_a_kernel_keep_pace_with_a_faster_memory() -> None:
    """On an Ada GPU steps hide behind memory: an A100 brings an SM six times the bytes a clock."""
    law, a100, ada = laws()["decode"], load_gpu("a100-sxm"), load_gpu("l40s")
    values = {"step_clk": 600.0, "sm_bytes_clk": 40.0, "block_clk": 3000.0}
    faster = paced(law, values, a100, [ada], [ada])
    ratio = memory_bytes_per_clock_sm(ada) / memory_bytes_per_clock_sm(a100)
    assert 0.1 < ratio < 0.3
    assert faster["step_clk"] == pytest.approx(600.0 * ratio)
    assert faster["sm_bytes_clk"] == pytest.approx(40.0 / ratio)
    assert faster["block_clk"] == 3000.0
    # on Ada steps stay, and its GDDR brings a smaller share of its peak
    slower = paced(law, values, ada, [a100], [a100])
    share = law.priors["dram_efficiency"].value * prior_number("implementations.gddr_share")
    assert slower == {**values, "dram_efficiency": pytest.approx(share)}


def test_bounds_widen_with_the_distance_of_a_chip_s_memory_from_the_nearest_measured() -> None:
    """One variance between any two architectures, and a share of it for each square of ln of the ratio."""
    h100, h200, ada = (load_gpu(name) for name in ("h100-sxm", "h200-sxm", "l40s"))
    apart = prior_number("implementations.memory_apart")
    assert widening(h100, [h100, ada]) == 1.0
    ratio = memory_bytes_per_clock_sm(h100) / memory_bytes_per_clock_sm(ada)
    assert widening(ada, [h100, h200]) == pytest.approx(np.sqrt(1.0 + apart * np.log(ratio) ** 2))
    assert widening(h100, [ada]) == pytest.approx(widening(ada, [h100]))
    assert 1.0 < widening(h200, [ada, h100]) < widening(h200, [ada])


@pytest.mark.parametrize("gpu", ["b200-sxm", "l40s"])
def test_a_kernel_on_an_architecture_without_it_has_the_bounds_of_architectures_left_out(gpu: str) -> None:
    """FlashAttention 3 fitted on an H100 alone: the same of every law, wider by the memory."""
    law, target, h100 = laws()["prefill"], load_gpu(gpu), load_gpu("h100-sxm")
    [one] = (one for one in implementations("prefill") if one.name == "trtllm-torch-flow")
    fitted = replace(one.laws["prefill"], gpus={"h100-sxm": 100}, band=(-0.01, 0.01), band_by_architecture={})
    [there] = members(law, target, "trtllm", "torch_flow", (replace(one, laws={"prefill": fitted}),))
    factor = widening(target, [h100])
    expected = tuple(factor * side for side in bands_elsewhere()[1])
    assert there.band == pytest.approx(expected)


def test_products_that_a_host_issues_one_by_one_wait_for_it() -> None:
    """vLLM quantizes, lays out scales and multiplies by three kernels, by two of FlashInfer: 32 us each."""
    law = laws()["gemm_fp8_block"]
    every = tuple(one for one in implementations(law.name) if one.stack != "vllm")
    for name, floor_us in (
        ("DeepGemmFp8BlockScaledMMKernel", 96.0),
        ("FlashInferFp8BlockScaledMMKernel", 64.0),
    ):
        told = members(law, H100, "vllm 0.24.0", name, every)
        # a kernel that nobody measured waits as well
        assert "by its priors" in " ".join(one.name for one in told)
        assert {one.coefficients["floor_us"] for one in told} == {floor_us}
    other = members(law, H100, "lmdeploy", "DeepGemmFp8BlockScaledMMKernel", every)
    assert all(one.coefficients.get("floor_us", 0.0) < 20.0 for one in other)


def test_experts_whose_library_times_no_tiles_run_the_first_of_the_list() -> None:
    """vLLM's loop times no tile of FlashInfer's CUTLASS experts, TensorRT-LLM's times all."""
    name = "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts"
    for law in (laws()["moe"], laws()["moe_fp8"]):
        every = tuple(one for one in implementations(law.name) if one.stack != "vllm")
        untimed = members(law, H100, "vllm 0.24.0", name, every)
        assert {one.coefficients["tile_table"] for one in untimed} == {2.0}
        assert {one.coefficients["l2_efficiency"] for one in untimed} == {0.7}
        timed = members(law, load_gpu("b200-sxm"), "vllm 0.24.0", name, every)
        assert 2.0 not in {one.coefficients.get("tile_table", 0.0) for one in timed}
        others = tuple(one for one in implementations(law.name) if one.stack != "trtllm")
        for one in members(law, H100, "trtllm 1.3.0rc20", "moe_torch_flow_cutlass", others):
            assert one.coefficients["tile_table"] == 0.0
            assert one.coefficients["remote_passes"] == one.coefficients["remote_products"] == 0.001
    # scales by blocks have no tiles to time
    law = laws()["moe_fp8_block"]
    every = tuple(one for one in implementations(law.name) if one.stack != "vllm")
    blocks = members(law, H100, "vllm 0.24.0", name, every)
    assert 2.0 not in {one.coefficients.get("tile_table", 0.0) for one in blocks}


@pytest.mark.parametrize("law", ["moe", "moe_fp8"])
def test_experts_of_warps_are_the_kernels_of_ada(law: str) -> None:
    """FlashInfer's of Hopper and of the B200 stand for none where matrix instructions are of warps."""
    called = {"moe": "vllm_unquantizedfusedmoe", "moe_fp8": "vllm_modeloptfp8moe"}[law]
    name = f"{called}_flashinfer_cutlass_flashinferexperts"
    rtx = load_gpu("rtx-pro-6000-bw-server")
    for stack, kernel in (("vllm 0.24.0", name), ("sglang 0.5.14", "sglang_flashinfer_cutlass_moe")):
        first = members(laws()[law], rtx, stack, kernel)[0]
        assert first.name == "trtllm-moe-torch-flow-cutlass"
        assert first.basis.startswith("transferred from l40s")
        assert first.coefficients["tile_table"] == 10.0
    # as wide as a library left out, and never narrower than under the library that measured them
    told, own = (members(laws()[law], rtx, *which)[0].band for which in (
        ("vllm 0.24.0", name), ("trtllm 1.3.0rc20", "moe_torch_flow_cutlass"),
    ))  # fmt: skip
    assert told[0] <= own[0]
    assert told[1] >= own[1]
    for gpu in ("h200-sxm", "gb300"):  # with warpgroups and with tensor memory they keep their own
        assert [one.name for one in members(laws()[law], load_gpu(gpu), "vllm 0.24.0", name)] == [
            "vllm-flashinfer-cutlass"
        ]


def test_the_first_tile_computes_128_tokens_for_one_and_reads_them_for_16_columns() -> None:
    """As slow with one token as with 128, and slower than the fastest tile by the padding it computes."""
    law = laws()["moe"]
    columns = {
        "tokens": np.array([1.0, 128.0, 4096.0]), "top_k": np.ones(3), "experts": np.ones(3),
        "hidden": np.full(3, 4096.0), "intermediate": np.full(3, 4096.0),
    }  # fmt: skip
    rows = OperatorColumns(np.full(3, "moe", dtype=object), columns)
    fastest, first = (
        law.pieces(rows, H100, {"tile_table": way, "l2_efficiency": 1.0}).core_cycles for way in (0.0, 2.0)
    )
    assert first[0] == pytest.approx(first[1], rel=0.05)
    assert (first > 1.5 * fastest).all()


def test_attention_writes_its_cache_and_packs_heads_as_its_library_does() -> None:
    """vLLM writes a token by a block of 512 threads, SGLang by a warp: 4 and 64 at once on an SM."""
    law, a100 = laws()["prefill"], load_gpu("a100-sxm")

    def told(gpu: Gpu, stack: str, name: str) -> list[Mapping[str, float]]:
        every = tuple(one for one in implementations(law.name) if not stack.startswith(one.stack or "-"))
        return [one.coefficients for one in members(law, gpu, stack, name, every) if one.library]

    for gpu, stack, name, expected in (
        (H100, "vllm 0.24.0", "vllm_flash_attn_fa3", (300.0, 2.0)),
        (H100, "sglang 0.5.14", "fa3", (18.75, 2.0)),
        (a100, "vllm 0.14.0", "vllm_flash_attn", (300.0, 1.0)),
        (a100, "sglang 0.5.10", "flash_attention", (18.75, 2.0)),
    ):
        for values in told(gpu, stack, name):
            assert (values["token_clk"], values["pack_heads"]) == expected
            assert values["cache_passes"] == pytest.approx(2.0 / 0.85)
    assert {one["query_tile"] for one in told(a100, "vllm 0.14.0", "vllm_flash_attn")} == {64.0}
    assert {one["query_tile"] for one in told(a100, "sglang 0.5.10", "flash_attention")} == {128.0}
    assert {one["pack_heads"] for one in told(H100, "trtllm 1.3.0rc20", "torch_flow")} == {0.0}


def test_sglang_quantizes_queries_before_it_calls_a_kernel_of_tensorrt_llm() -> None:
    """Three kernels more than vLLM's loop times, with a cache of 8 bits: 7 us, whoever is left out."""
    law, b200 = laws()["decode"], load_gpu("b200-sxm")
    every = implementations(law.name)
    names = {"vllm": "vllm_flashinfer_trtllmdecode", "sglang": "trtllm_mha"}
    for caller, maker, more in (("sglang", "vllm", 7.0), ("vllm", "sglang", -7.0)):
        [at_home] = members(law, b200, maker, names[maker], every)
        others = tuple(one for one in every if one.stack != caller)
        [borrowed] = [
            one for one in members(law, b200, caller, names[caller], others) if one.name == at_home.name
        ]
        difference = borrowed.coefficients["launch_kv8_us"] - at_home.coefficients["launch_kv8_us"]
        assert difference == pytest.approx(more)
        assert borrowed.coefficients["launch_us"] == at_home.coefficients["launch_us"]
        # 5 us pass before a loop's first kernel: of 6 operators under vLLM, of 20 under SGLang
        loop_us = (5.0 / 20.0 - 5.0 / 6.0) * np.sign(more)
        assert borrowed.coefficients["loop_us"] == pytest.approx(loop_us)


def test_a_limit_that_memory_may_have_hidden_keeps_step_with_a_faster_one() -> None:
    """An H200 brings an SM 18 bytes a clock, an H100 13: what drew 12 may draw 17, what drew 6 may not."""
    law, h100, h200 = laws()["moe"], load_gpu("h100-sxm"), load_gpu("h200-sxm")
    ratio = memory_bytes_per_clock_sm(h200) / memory_bytes_per_clock_sm(h100)
    assert ratio > 1.3
    near, below = {"sm_bytes_clk": 12.0, "k_step_cycles": 90.0}, {"sm_bytes_clk": 6.0, "k_step_cycles": 90.0}
    faster = unhidden(law, near, h200, [h100])
    assert faster == {"sm_bytes_clk": pytest.approx(12.0 * ratio), "k_step_cycles": 90.0}
    assert unhidden(law, below, h200, [h100]) == below
    assert unhidden(law, near, h100, [h200]) == near


def test_a_limit_of_the_sm_is_a_larger_share_of_less_l2() -> None:
    law, h100, ada = laws()["prefill"], load_gpu("h100-sxm"), load_gpu("l40s")
    share = paced(law, {"l2_efficiency": 0.2}, ada, [h100], [h100])["l2_efficiency"]
    per_sm = {gpu.name: gpu.l2_bytes_per_clock / gpu.sm_count for gpu in (h100, ada)}
    assert share * per_sm["l40s"] == pytest.approx(0.2 * per_sm["h100-sxm"])
    assert paced(law, {"l2_efficiency": 0.2}, h100, [ada], [ada])["l2_efficiency"] == 0.2


def test_an_l2_that_all_sms_share_holds_what_fits() -> None:
    """Half of what an H100's L2 holds lies on the far side; on an L40S nothing does."""
    law, h100, a100, ada = laws()["prefill"], load_gpu("h100-sxm"), load_gpu("a100-sxm"), load_gpu("l40s")
    told = {"l2_hit": 0.45, "pass_factor": 2.0}
    assert paced(law, told, ada, [h100, a100], [a100])["l2_hit"] == 0.95
    assert paced(law, told, ada, [h100, a100], [a100])["pass_factor"] == 2.0
    # another of its kind was measured, or the GPU has partitions, too
    assert paced(law, told, ada, [h100, load_gpu("l4")], [a100])["l2_hit"] == 0.45
    assert paced(law, told, a100, [h100], [h100])["l2_hit"] == 0.45


def test_how_decode_splits_is_no_habit_of_a_neighboring_architecture() -> None:
    law = laws()["decode"]
    fitted = next(one for one in implementations("decode") if one.name == "trtllm-torch-flow").laws["decode"]
    assert fitted.by_architecture
    assert coefficients_on(law, fitted, "blackwell-gb20x") == fitted.values


def test_a_librarys_splits_are_those_of_the_project_its_kernel_is_from() -> None:
    """SGLang calls FlashAttention on an A100, too, and FlashInfer only on GPUs nobody left out here."""
    every = tuple(one for one in implementations("decode") if one.name != "sglang-flash-attention")
    told = candidates("decode", "ampere-ga100", "sglang 0.5.10", "flash_attention", every)
    assert [one.name for one in told] == ["sglang-fa3"]
    # prefill hangs on matrix instructions: those of warpgroups are none of an A100's
    every = tuple(one for one in implementations("prefill") if one.name != "sglang-flash-attention")
    near = candidates("prefill", "ampere-ga100", "sglang 0.5.10", "flash_attention", every)
    assert "sglang-fa3" not in {one.name for one in near}


def test_a_borrowed_kernel_runs_under_the_host_code_of_the_library_that_calls_it() -> None:
    """TensorRT-LLM rotates queries in a launch and a pass of its own; vLLM hands its kernel rotated ones.

    Another launch lays out TensorRT-LLM's sequences.
    """
    law, b200 = laws()["prefill"], load_gpu("b200-sxm")
    every = tuple(one for one in implementations("prefill") if b200.name not in one.laws["prefill"].gpus)
    made = next(one for one in implementations("prefill") if one.name == "trtllm-torch-flow")
    [borrowed] = members(law, b200, "vllm 0.24.0", "vllm_flashinfer_trtllmprefill", (*every, made))
    at_home = coefficients_on(law, made.laws["prefill"], b200.architecture)
    assert borrowed.name == made.name
    assert borrowed.coefficients["launch_us"] == pytest.approx(at_home["launch_us"] - 4.0)
    assert borrowed.coefficients["pass_factor"] == pytest.approx(at_home["pass_factor"] - 1.0)


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("library_known", [False, True])
def test_what_a_librarys_own_host_adds_is_no_other_librarys(measured: bool, library_known: bool) -> None:
    """SGLang packs DeepGEMM's scales in four kernels of each call; TensorRT-LLM as it quantizes and loads.

    It is in times that were measured, too.
    """
    law, b200 = laws()["gemm_fp8_block"], load_gpu("b200-sxm")
    by_name = {one.name: one for one in implementations(law.name)}
    packing, other = by_name["sglang-deepgemm-gemm-nt-f8f8bf16"], by_name["trtllm-torch-flow"]
    if not measured:
        fitted = packing.laws[law.name]
        gpus = {name: rows for name, rows in fitted.gpus.items() if name != b200.name}
        by_architecture = {"hopper": fitted.by_architecture["hopper"]}
        hopper = replace(fitted, gpus=gpus, by_architecture=by_architecture)
        packing = replace(packing, laws={law.name: hopper})
    known = (packing, other) if library_known else (packing,)
    [own] = members(law, b200, "sglang 0.5.14", "sglang_deepgemm_gemm_nt_f8f8bf16", known)
    candidates_there = members(law, b200, "trtllm 1.3.0rc20", "deepgemm", known)
    [borrowed] = (one for one in candidates_there if one.name == own.name == packing.name)
    packed, alone = own.coefficients["launch_us"], borrowed.coefficients["launch_us"]
    assert packed == pytest.approx(alone + 4.0 * NEXT_US)


def test_what_a_library_runs_untuned_serves_no_other() -> None:
    """FlashInfer's CUTLASS experts are TensorRT-LLM's; SGLang runs them by their default tile."""
    name = "vllm_unquantizedfusedmoe_flashinfer_cutlass_flashinferexperts"
    without = tuple(one for one in implementations("moe") if one.name != "vllm-flashinfer-cutlass")
    tuned = candidates("moe", "blackwell", "vllm 0.24.0", name, without)
    assert [one.name for one in tuned] == ["trtllm-moe-torch-flow-cutlass"]
    # vLLM's were measured in a loop that times no tiles; scales by blocks run kernels without tiles to time
    every = tuple(one for one in implementations("moe_fp8") if one.stack != "trtllm")
    others = candidates("moe_fp8", "hopper", "trtllm 1.3.0rc20", "moe_torch_flow_cutlass", every)
    assert "vllm-flashinfer-cutlass" not in {one.name for one in others}
    every = tuple(one for one in implementations("moe_fp8_block") if one.stack != "trtllm")
    others = candidates("moe_fp8_block", "hopper", "trtllm 1.3.0rc20", "moe_torch_flow_cutlass", every)
    assert "vllm-flashinfer-cutlass" in {one.name for one in others}
    untuned = candidates("moe", "hopper", "sglang 0.5.14", "sglang_flashinfer_cutlass_moe")
    assert [one.name for one in untuned] == ["sglang-flashinfer-cutlass-moe"]
    elsewhere = candidates("moe", "hopper", "lmdeploy", "flashinfer_cutlass")
    assert elsewhere and "sglang-flashinfer-cutlass-moe" not in {one.name for one in elsewhere}


def test_a_librarys_own_kernels_are_told_for_the_architectures_no_other_runs_them_on() -> None:
    """TensorRT-LLM decodes by XQA; on a B200 vLLM and SGLang call its kernels too, which were measured."""
    law = laws()["decode"]
    every = tuple(one for one in implementations(law.name) if one.stack != "trtllm")
    [own] = members(law, H100, "trtllm 1.3.0rc20", "torch_flow", every)
    assert own.coefficients["vector_heads"] == 33.0
    assert known_by_source([own])
    borrowed = members(law, load_gpu("b200-sxm"), "trtllm 1.3.0rc20", "torch_flow", every)
    assert {one.library for one in borrowed} <= {"vllm", "sglang"}
    assert not known_by_source(borrowed)
    # where a fit of its own tables led is none of what source tells
    assert "block_clk" not in own.coefficients
    # and what only TensorRT-LLM runs there tells nothing of others
    every = tuple(one for one in implementations(law.name) if one.stack != "vllm")
    left = members(law, load_gpu("a100-sxm"), "vllm 0.14.0", "vllm_flash_attn", every)
    assert {one.library for one in left if not one.bounds_only} == {"sglang"}
    # FlashAttention 2 packs heads by two copies and holds two blocks on an SM of an A100
    assert {(one.coefficients["pack_us"], one.coefficients["resident"]) for one in left} == {(4.0, 2.0)}


def test_encoders_of_tensorrt_llm_pad_heads_on_hopper() -> None:
    law = laws()["encoder"]
    every = tuple(one for one in implementations(law.name) if one.stack != "trtllm")
    padded = {
        gpu: {
            one.coefficients.get("pad_dim", 0.0)
            for one in members(law, load_gpu(gpu), "trtllm", "torch_flow", every)
        }
        for gpu in ("h100-sxm", "l40s")
    }
    assert padded["h100-sxm"] == {1.0}
    assert 1.0 not in padded["l40s"]


def test_what_loops_over_delta_nets_do_beside_the_kernel() -> None:
    """SGLang's normalizes by two kernels; TensorRT-LLM's replays a graph for each, and keeps states short."""
    chunk, step = laws()["gdn_chunk"], laws()["gdn_update"]
    for law, name, left_out, expected in (
        (chunk, "chunk_gated_delta_rule", "sglang 0.5.14", {"normalized": 1.0}),
        (chunk, "chunk_gated_delta_rule", "trtllm 1.3.0rc20", {"normalized": -1.0}),
        (step, "fused_recurrent_gated_delta_rule", "trtllm 1.3.0rc20", {"state_share": 0.75}),
    ):
        every = tuple(one for one in implementations(law.name) if one.stack != left_out.split()[0])
        of_kernel = [
            one for one in members(law, H100, left_out, name, every) if name in one.name.replace("-", "_")
        ]
        assert of_kernel
        for one in of_kernel:
            assert {key: one.coefficients.get(key, 0.0) for key in expected} == expected


def test_kernels_made_for_few_architectures_are_told_by_source_where_nobody_measured_any() -> None:
    """FlashInfer generates experts for Blackwell: Hopper's CUTLASS experts and Marlin's are none of these."""
    b200, name = load_gpu("b200-sxm"), "vllm_modeloptfp8moe_flashinfer_trtllm_trtllmfp8expertsmonolithic"
    for law in (laws()["moe_fp8"], laws()["moe_fp8_block"]):
        every = implementations(law.name)
        others = tuple(one for one in every if not any("flashinfer_trtllm" in text for text in one.names))
        [told] = members(law, b200, "vllm 0.24.0", name, others)
        habits = law.project_habits["generated-experts"]
        assert told.coefficients == habits
        assert told.basis == "prior"
        # vLLM's modular kernels choose experts in kernels of their own, some four
        [modular] = members(law, b200, "vllm 0.24.0", "vllm_fp8moe_flashinfer_trtllm_modular", others)
        more = 8.0 if law.name == "moe_fp8_block" else 0.0
        assert modular.coefficients == {**habits, "launch_us": habits["launch_us"] + more}
        [measured] = members(law, b200, "vllm 0.24.0", name)
        assert measured.name == "vllm-flashinfer-trtllm"
        # Hopper runs none of them, whatever the name says
        assert all(one.basis != "prior" for one in members(law, H100, "vllm 0.24.0", name, others))


def test_source_tells_a_measured_librarys_choices_where_it_was_not_measured() -> None:
    """TensorRT-LLM's decode takes XQA's parts before Blackwell, generated kernels there."""
    law = laws()["decode"]
    [one] = (one for one in implementations("decode") if one.name == "trtllm-torch-flow")
    fitted = one.laws["decode"]

    def split(left_out: str, gpu: str) -> dict[str, float]:
        kept = {name: n for name, n in fitted.gpus.items() if load_gpu(name).architecture != left_out}
        others = {name: v for name, v in fitted.by_architecture.items() if name != left_out}
        without = replace(one, laws={"decode": replace(fitted, gpus=kept, by_architecture=others)})
        [member] = members(law, load_gpu(gpu), "trtllm 1.3.0rc20", "torch_flow", (without,))
        assert member.basis.startswith("transferred")
        return {name: member.coefficients[name] for name in ("split_fill", "kv8_least_dim", "dispatch")}

    assert split("ada", "l40s") == {"split_fill": 4.0, "kv8_least_dim": 128.0, "dispatch": 1.0}
    assert split("blackwell", "b200-sxm") == {"split_fill": 0.0, "kv8_least_dim": 0.0, "dispatch": 0.0}
    assert split("", "rtx-5090")["split_fill"] == 4.0


def test_encoders_that_take_the_kernels_of_prefill_write_no_cache() -> None:
    a100 = load_gpu("a100-sxm")
    every = tuple(one for one in implementations("prefill") if "encoder" not in one.laws)
    (lender,) = members(laws()["prefill"], a100, "vllm 0.14.0", "vllm_flash_attn", every)
    (encoder,) = members(laws()["encoder"], a100, "vllm 0.24.0", "vllm_vit_flash_attn_fa2", every)
    assert "transferred from prefill" in encoder.basis
    assert encoder.coefficients["pass_factor"] == lender.coefficients["pass_factor"]
    assert lender.coefficients["cache_passes"] > 3.0 * lender.coefficients["pass_factor"]
    # keys and values pass as queries do, and no kernel looks for a token's place
    assert encoder.coefficients["cache_passes"] == lender.coefficients["pass_factor"]
    assert "token_clk" not in encoder.coefficients
    sizes = {"batch": 32.0, "heads": 14.0, "kv_heads": 14.0, "head_dim": 80.0}
    sizes |= dict.fromkeys(("q_len", "kv_len"), 512.0)
    texts = {"phase": "prefill", "dtype": "bf16"}
    columns = {
        k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in {**sizes, **texts}.items()
    }
    rows = OperatorColumns(np.array(["attention"], dtype=object), {**columns, "causal": np.zeros(1)})
    law, hertz = laws()["encoder"], np.full((1, 1), a100.clock_boost_mhz * 1e6)
    as_lent, with_write = (
        duration_s(law.pieces(rows, a100, {**encoder.coefficients, **more}), hertz)[0, 0]
        for more in ({}, {k: lender.coefficients[k] for k in ("cache_passes", "token_clk")})
    )
    assert as_lent < 0.8 * with_write


def test_loops_that_begin_in_a_window_pass_the_rest_of_the_keys_by() -> None:
    """SGLang's kernels in Triton meet each tile outside of a window; vLLM's, though not measured, do not."""
    law = laws()["prefill"]
    every = tuple(one for one in implementations(law.name) if one.stack != "vllm")
    (measured,) = members(law, load_gpu("l40s"), "sglang 0.5.14", "triton", every)
    assert measured.coefficients["skip_clk"] > 1000.0
    told = members(law, load_gpu("l40s"), "vllm 0.24.0", "vllm_triton_attn", every)
    assert measured.name in {one.name for one in told}
    assert {one.coefficients["skip_clk"] for one in told} == {law.priors["skip_clk"].value}
    assert {one.coefficients["window_tile"] for one in told} == {law.priors["window_tile"].value}


def test_a_library_writes_its_cache_before_borrowed_kernels_as_before_its_own() -> None:
    """What its host code takes is told by its own kernels, and by its source where none was measured."""
    law, tells = laws()["prefill"], laws()["prefill"].host_tells
    every = {one.name: one for one in implementations("prefill")}
    borrowed, own = every["trtllm-torch-flow"], every["vllm-flash-attn-fa3"]
    hopper = replace(
        borrowed,
        laws={"prefill": replace(borrowed.laws["prefill"], by_architecture={}, gpus={"h100-sxm": 9})},
    )
    called = "vllm_flashinfer_trtllmprefill"
    told, by_source = (
        members(law, load_gpu("b200-sxm"), "vllm", called, available)[0].coefficients
        for available in ((hopper, own), (hopper, every["sglang-fa3"]))
    )
    values = law.every_value(own.laws["prefill"].on("hopper"))
    assert {name: told[name] for name in tells} == {name: values[name] for name in tells}
    assert told["cache_clk"] > 2.0 * by_source["cache_clk"]
    assert told["tensor_efficiency"] == by_source["tensor_efficiency"]
