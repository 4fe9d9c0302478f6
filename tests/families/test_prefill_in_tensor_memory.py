"""Prefill attention where results lie in tensor memory, and in 8 bits: one layer at a time, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.families.test_prefill_by_hand import C, _rows, norm
from tracetool.families.attention.prefill import PAIRED_OPS, PREFILL
from tracetool.families.attention.prefill_passes import CAST_BYTES, QUANTIZE_OPS
from tracetool.families.attention.tile_sizes import TENSOR_TILES
from tracetool.hardware.load import load_gpu

B200 = load_gpu("b200-sxm")
#: A kernel in tensor memory of which nothing but its steps takes time: one block, and no draw from L2.
STEPS = {
    **{k: c.value for k, c in PREFILL.priors.items()},
    "by_head": TENSOR_TILES, "mix_norm": 2.3, "tensor_efficiency": 0.71, "tile_clk": 0.0,
    "l2_efficiency": 1e6,
}  # fmt: skip
ONE = {"batch": 1.0, "heads": 1.0, "kv_heads": 1.0, "head_dim": 128.0}


def _core(c: dict[str, float], **changes: Any) -> float:
    return float(PREFILL.pieces(_rows(**{**ONE, **changes}), B200, c).core_cycles[0])


def _products(area: float, dims: float, dtype: str = "bf16") -> float:
    """Return the clocks of one product of a tile with heads of ``dims`` numbers."""
    return 2.0 * area * dims / (0.71 * B200.rate(f"tensor_{dtype}"))


def _exponentials(area: float) -> float:
    return 1.3 * area / B200.sfu_per_clock_sm


@pytest.mark.parametrize(("queries", "visits"), [(256.0, 1.5), (384.0, 1.5), (512.0, 3.5)])
def test_each_of_two_tiles_of_a_block_ends_at_its_own_diagonal(queries: float, visits: float) -> None:
    """The longest block of 512 queries meets three tiles of keys with one half and four with the other."""
    area = 256.0 * 128.0
    step = norm(2.3, 2.0 * _products(area, 128.0), _exponentials(area))
    assert _core(STEPS, q_len=queries) == pytest.approx(visits * step)


def test_both_tiles_of_a_block_meet_the_keys_of_a_window() -> None:
    whole, windowed = (_core(STEPS, q_len=4096.0, window=window) for window in (0.0, 128.0))
    area = 256.0 * 128.0
    step = norm(2.3, 2.0 * _products(area, 128.0), _exponentials(area))
    # blocks are as long whatever the window but for those at its start
    assert 3.0 * step < windowed < 5.0 * step < whole


@pytest.mark.parametrize(("dim", "parts"), [(128.0, 1.0), (256.0, 1.0), (512.0, 2.0)])
def test_a_tile_alone_multiplies_values_when_its_scores_are_done(dim: float, parts: float) -> None:
    """Above 256 values two blocks share a head's, each with all of its scores."""
    area = 128.0 * 128.0
    softmax = _exponentials(area) + PAIRED_OPS * area / B200.lanes_per_clock_sm
    scores, weighed = _products(area, dim), _products(area, dim / parts)
    step = norm(2.3, scores, softmax) + weighed
    assert _core(STEPS, q_len=128.0, head_dim=dim) == pytest.approx(step)
    many = {"q_len": 128.0, "head_dim": dim, "batch": 64.0}
    drawn = PREFILL.pieces(_rows(**{**ONE, **many}), B200, STEPS).work.l2_bytes[0]
    assert drawn == pytest.approx(64 * 128 * 2 * (parts * dim + dim + 2 * dim))


def test_products_with_keys_of_8_bits_are_those_of_queries_in_8_bits_where_these_are_converted() -> None:
    long = {"q_len": 8192.0, "heads": 64.0}
    narrow, eight = {"dtype": "bf16", "kv_dtype": "fp8"}, {"dtype": "fp8", "kv_dtype": "fp8"}
    in_16, in_8 = (_core({**STEPS, "kv8_products": p}, **long, **narrow) for p in (0.0, 1.0))
    assert in_8 == pytest.approx(_core(STEPS, **long, **eight)) and in_8 < in_16


@pytest.mark.parametrize("row", [{"dtype": "fp8"}, {"kv_dtype": "fp8"}])
def test_a_conversion_of_queries_takes_what_memory_or_the_lanes_take(row: dict[str, str]) -> None:
    """35 operations an element are more on a B200 than the three bytes it moves."""
    layer = {"q_len": 8192.0, "heads": 64.0, "kv_heads": 8.0, "head_dim": 128.0, **row}
    times = []
    for casts in (0.0, 1.0):
        given = {**C, "kv8_products": 1.0, "q_casts": casts, "l2_hit": 0.0}
        pieces = PREFILL.pieces(_rows(**layer), B200, given)
        times.append(pieces.stream_s[0] + pieces.serial_cycles[0] / (B200.clock_boost_mhz * 1e6))
    elements = 2.0 * 8192.0 * 64.0 * 128.0
    moved = elements * CAST_BYTES / B200.dram_bytes_per_s
    computed = (
        elements * QUANTIZE_OPS / B200.lanes_per_clock_sm / B200.sm_count / (B200.clock_boost_mhz * 1e6)
    )
    assert computed > moved
    assert times[1] - times[0] == pytest.approx(norm(6.0, moved, computed))


def test_passes_are_as_fast_as_the_slower_of_memory_and_the_sms() -> None:
    """More memory bandwidth does not shorten what SMs take: the pass of an H200 is that of an H100."""
    row = {"q_len": 16384.0, "heads": 64.0, "kv_heads": 1.0}
    given = {**C, "l2_hit": 0.0, "pass_factor": 1.0, "cache_passes": 0.02}
    given |= {"cache_clk": 1.0, "token_clk": 0.0}

    def passing(name: str, clocks: float) -> float:
        gpu = load_gpu(name)
        pieces = PREFILL.pieces(_rows(**row), gpu, {**given, "pass_clk": clocks})
        return float(pieces.stream_s[0] + pieces.serial_cycles[0] / (gpu.clock_boost_mhz * 1e6))

    by_memory = passing("h100-sxm", 1.0) / passing("h200-sxm", 1.0)
    assert by_memory == pytest.approx(
        load_gpu("h200-sxm").dram_bytes_per_s / load_gpu("h100-sxm").dram_bytes_per_s, rel=0.02
    )
    assert passing("h100-sxm", 900.0) == pytest.approx(passing("h200-sxm", 900.0), rel=0.001)
    assert np.isfinite(passing("l40s", 900.0))
