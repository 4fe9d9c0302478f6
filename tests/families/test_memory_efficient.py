"""Attention kernels of CUTLASS compute whole tiles of queries, keys and heads, in passes of their format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.model.operators import rows_of
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import split_by_law
from tracetool.hardware.load import load_gpu
from tracetool.kernels.classify import classify_names
from tracetool.model.timing import time_rows

NAME = (
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel"
    "<float, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)"
)


def kernel(queries: int, keys: int, head_dim: int = 16, name: str = NAME) -> OperatorColumns:
    stated = classify_names([name]).row(0, named=True)
    rows = rows_of(
        "attention", batch=1024, q_len=queries, kv_len=keys, heads=8, kv_heads=8, head_dim=head_dim, causal=0
    )
    words = ("name", "access_pattern", "library", "dtype")
    columns = {c: np.full(len(rows), stated[c] or "", dtype=object) for c in words}
    tiles = {c: np.array([float(stated[c])]) for c in ("tile_m", "tile_n")}
    phase = {"phase": np.array(["prefill"], dtype=object)}
    return replace(rows, columns={**rows.columns, **columns, **tiles, **phase})


def seconds(rows: OperatorColumns, gpu: str = "a100-sxm") -> float:
    one = load_gpu(gpu)
    return float(time_rows(rows, one, np.array([one.clock_boost_mhz])).duration_s[0, 0])


def test_its_kernels_have_a_law_of_their_own() -> None:
    gpu = load_gpu("a100-sxm")
    assert [law.name for law, _ in split_by_law("attention", kernel(64, 64), gpu)] == ["efficient_attention"]
    others = rows_of("attention", batch=1, q_len=64, kv_len=64, heads=8, head_dim=64, phase="prefill")
    assert [law.name for law, _ in split_by_law("attention", others, gpu)] == ["prefill"]


def test_a_tile_that_is_not_full_costs_a_whole_one() -> None:
    assert seconds(kernel(8, 4096)) == pytest.approx(seconds(kernel(64, 4096)), rel=0.02)
    assert seconds(kernel(65, 4096)) > 1.9 * seconds(kernel(64, 4096))
    assert seconds(kernel(4096, 8)) > 0.8 * seconds(kernel(4096, 64))


def test_a_small_head_is_padded_to_the_tile() -> None:
    assert seconds(kernel(8, 4096, 16)) == pytest.approx(seconds(kernel(8, 4096, 32)), rel=0.02)
    assert seconds(kernel(8, 4096, 64)) < 1.5 * seconds(kernel(8, 4096, 16))


def test_fp32_takes_three_passes_of_tf32() -> None:
    half = NAME.replace("f32", "f16").replace("<float", "<cutlass::half_t")
    full, short = seconds(kernel(64, 4096)), seconds(kernel(64, 4096, name=half))
    assert (
        3.0 < full / short < 6.5
    )  # TF32 runs at half of FP16's rate, three times; exponentials cost the same
