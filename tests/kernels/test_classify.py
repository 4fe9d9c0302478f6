# ruff: noqa: E501 - kernel names are long
from __future__ import annotations

import json
import random
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES, SPELLINGS
from tracetool.kernels.classify import COLUMNS, NAMES, classify_names, read_symbol
from tracetool.kernels.grammar import FLAGS, MEANINGS, NUMBERS, TEXTS
from tracetool.kernels.symbols import Symbol

DATA = Path(__file__).parents[3] / "shared/data/names"
#: Corpus classes each family may carry: the corpus knows fewer words than the taxonomy.
COARSE = {
    "gemm": "gemm", "gemv": "gemm", "splitk_reduce": "gemm reduction", "moe": "gemm routing", "norm": "norm reduction",
    "softmax": "softmax reduction", "elementwise": "streaming layout", "copy": "streaming layout", "rope": "streaming",
    "quantize": "streaming", "optimizer": "optimizer streaming", "rng": "rng streaming",
    "other": "loss linalg runtime fused_unknown",
}  # fmt: skip


@pytest.mark.parametrize("family", CASES)
def test_names_fall_into_their_family(family):
    names = CASES[family]
    got = dict(zip(names, classify_names(names)["family"], strict=True))
    assert {n: f for n, f in got.items() if f != family} == {}


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda s: s[-1][:30])
def test_every_spelling_of_a_kernel_gives_one_answer(spellings):
    read = classify_names(spellings).drop("name")
    assert all(row == read.row(0) for row in read.iter_rows())


@pytest.mark.parametrize(
    ("name", "states"),
    [
        (
            "ampere_fp16_s16816gemm_fp16_128x64_sliced1x2_ldg8_f2f_stages_64x4_tn",
            {"dtype": "fp16", "acc_dtype": "fp32", "tile_m": 128, "tile_n": 64, "tile_k": 64, "stages": 4}
            | {"mma": "16x8x16", "k_sharing": "slice_k", "layout": "tn", "split_k": None},
        ),
        (
            "nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_bias_TNT",
            {"dtype": "fp8", "out_dtype": "bf16", "acc_dtype": "fp32", "tile_k": 128, "stages": 6, "cluster": "2x1"}
            | {"ctas_per_mma": 2, "epilogue": "bias", "beta": "zero", "layout": "TNT"},
        ),
        (
            "sm80_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize64x128x32_stage5_warpsize2x2x1_tensor16x8x8_kernel",
            {"dtype": "tf32", "out_dtype": "fp32", "tile_m": 64, "tile_n": 128, "warps": 4, "layout": "nt"},
        ),
        (
            "Cijk_Alik_Bljk_HSS_BH_MT96x64x32_MI16x16x16x1_SN_GSU4_GSUAMB_ISA942_PGR2_VW4_WG64_4_1",
            {"dtype": "fp16", "out_dtype": "fp32", "tile_m": 96, "tile_k": 32, "split_k": 4, "threads": 256}
            | {"arch": "gfx942", "layout": "tn", "k_sharing": "split_k", "stages": 2},
        ),
        (
            "cutlass3x_sm90_tensorop_s64x128x32gemm_e4m3_e4m3_f32_bf16_bf16_128x128x128_2x1x1_0_tnt_align16_warpspecialized_cooperative_epi_tma",
            {"dtype": "fp8", "out_dtype": "bf16", "tile_m": 128, "tile_k": 128, "cluster": "2x1", "align": 16},
        ),
        (
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<96, 64, 128, 4, false, false, cutlass::half_t, Flash_kernel_traits<96, 64, 128, 4, cutlass::half_t> >, true, true, false, false, true, true, false, false>(Flash_fwd_params)",
            {"head_dim": 96, "tile_m": 64, "tile_n": 128, "causal": True, "dropout": True, "dtype": "fp16"},
        ),
        (
            "ncclKernel_AllReduce_TREE_LL128_Sum_half(ncclDevComm*)",
            {"op": "all_reduce", "algo": "tree", "proto": "ll128", "redop": "sum", "dtype": "fp16"},
        ),
        (
            "igemm_bwd_gtcx2_nhwc_fp32_bx0_ex1_bt64x32x16_wt16x16x4_ws1x1_wr2x1_ta1x4x1x1_tb1x2x1x1_gkgs",
            {"direction": "bwd_data", "tile_m": 64, "tile_n": 32, "tile_k": 16, "k_sharing": "split_k", "dtype": "fp32"},
        ),
    ],
)  # fmt: skip
def test_attributes_are_those_the_name_states(name, states):
    read = classify_names([name]).row(0, named=True)
    assert {k: read[k] for k in states} == states


def test_output_is_one_row_per_name_in_order():
    names = ["vectorAdd", None, "ampere_sgemm_32x32_nn", "vectorAdd"]
    read = classify_names(names)
    assert read["name"].to_list() == ["vectorAdd", "", "ampere_sgemm_32x32_nn", "vectorAdd"]
    assert read["family"].to_list() == ["elementwise", "unknown", "gemm", "elementwise"]
    assert classify_names([]).columns == ["name", *COLUMNS]


def test_every_column_has_a_meaning():
    assert set(COLUMNS) == set(MEANINGS) == {*TEXTS, *NUMBERS, *FLAGS}


def test_many_names_read_as_one_by_one():
    names = [n for some in CASES.values() for n in some]
    table = classify_names(names)
    for name, row in zip(names, table.iter_rows(named=True), strict=True):
        alone, _ = read_symbol(Symbol(name))
        of_grammars = [k for k in COLUMNS if k not in ("access_pattern", "mma_arch")]
        assert {k: alone.get(k) for k in of_grammars} == {k: row[k] for k in of_grammars}


PIECES = st.sampled_from([
    "at::native::", "<", ">", "(", ")", "::", "_", "gemm", "128x64", ", ", "void ", "{lambda(float)#1}", "_Z", "3foo", "Li4E",
    "cutlass", "Kernel2", "x", "Functor", "Cijk_Ailk_Bljk_", "MT64x64", "fmha_", "(int)3", "anonymous namespace", "é", "\x00", "\n",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join)))
def test_any_text_is_read_or_unknown(name):
    read, _ = read_symbol(Symbol(name))
    assert read["family"] in NAMES
    assert classify_names([name])["family"][0] == read["family"]


HOSTILE = [
    "a",
    "a_",
    "<",
    "a<",
    "a(b)::c::",
    "gemm_",
    "moe_gemm_",
    "Functor",
    "(int)1",
    "cutlass3x_sm90_tensorop_",
]
HOSTILE += [
    "cutlass_80_tensorop_",
    "xmma_",
    "_tilesize1x1x1",
    "lambda(",
    "at::Tensor(",
    "_ZN1a",
    "Li1E",
    "x1x1",
    "C<1>, ",
]


@pytest.mark.parametrize(
    "opening", ["", "at::native::f<", "cutlass::Kernel2<", "_ZN2at6native", "Cijk_Ailk_Bljk_"]
)
def test_reading_time_is_linear(opening):
    def seconds(piece: str, size: int) -> float:
        name = (opening + piece * (size // len(piece) + 1))[:size]
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            read_symbol(Symbol(name))
            best = min(best, time.process_time() - start)
        return best

    for piece in HOSTILE:
        # 8 times the text takes 8 times as long if linear, 64 times if quadratic; the floor hides fixed costs
        short = max(seconds(piece, 1_500), 2e-3)
        assert seconds(piece, 12_000) < 30 * short, piece


def test_a_name_of_100_kilobytes_is_read():
    name = "void f<" + "std::tuple<int, " * 6_000 + ">(int)"
    assert len(name) > 90_000
    assert read_symbol(Symbol(name))[0]["family"] == "unknown"


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the measured data is not beside the checkout")
def test_measured_names():
    labeled = pl.read_csv(DATA / "labelled.csv")
    same = {"elementwise": "streaming", "copy": "streaming", "gemv": "gemm", "splitk_reduce": "gemm"}
    said = classify_names(labeled["name"].to_list())["family"].replace(same)
    assert (said == labeled["family"]).mean() >= 0.98
    rows = [json.loads(line) for line in (DATA / "corpus.jsonl").read_text("utf-8").splitlines()]
    read = classify_names([r["name"] for r in rows])
    judged = [
        (r["coarse"] in COARSE.get(f, f).split())
        for r, f in zip(rows, read["family"], strict=True)
        if r["coarse"] not in ("memcpy", "memset", "unknown")
    ]
    assert sum(judged) / len(judged) >= 0.97
    tiled = [
        (r["attrs"]["tile_m"], r["attrs"]["tile_n"]) == (m, n)
        for r, m, n in zip(rows, read["tile_m"], read["tile_n"], strict=True)
        if r["coarse"] == "gemm" and (r.get("attrs") or {}).get("tile_n")
    ]
    assert sum(tiled) / len(tiled) >= 0.98


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the measured data is not beside the checkout")
def test_names_cut_short_keep_their_family():
    rows = [json.loads(line) for line in (DATA / "corpus.jsonl").read_text("utf-8").splitlines()]
    long = [r["name"] for r in rows if len(r["name"]) > 110]
    some = random.Random(4).sample(long, 400)
    whole = classify_names(some)["family"]
    cut = classify_names([n[:100] for n in some])["family"]
    assert (whole == cut).mean() >= 0.85


def test_fp8_is_read_wherever_it_stands_in_a_name():
    names = [
        "_w8a8_block_fp8_matmul",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u>(float*)",
        "_ZN5aiter30fmha_fwd_hd128_fp8_group_gfx950E",
    ]
    assert classify_names(names)["dtype"].to_list() == ["fp8"] * 3


def test_a_product_of_8_bits_states_no_4_bit_weights():
    assert classify_names(["void int8_scaled_mm_kernel<int8_t, int8_t>()"])["b_dtype"].to_list() == [None]


def test_kernels_of_the_cute_dsl_are_cutlass_s_whatever_words_they_hold():
    names = [
        "kernel_cutlass_kernel_quacksoftmaxSoftmax_object_at__tensorptrbf16gmem",
        "kernel_cutlass_kernel___main__GroupedGemmKernel_object_at__TiledMMA_ThrLayoutVMNK11110000",
    ]
    table = classify_names(names)
    assert table["library"].to_list() == ["cutlass", "cutlass"]
    assert table["family"].to_list() == ["softmax", "moe"]
