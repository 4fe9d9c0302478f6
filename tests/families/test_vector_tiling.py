from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.core.arrays import Floats
from tracetool.families.gemm.layout import Products, TilePlan
from tracetool.families.gemm.vector_tiling import TILES, VectorRates, plan_vectors
from tracetool.hardware.load import load_gpu

GPU = load_gpu("v100-pcie")
HERTZ = GPU.clock_boost_mhz * 1e6
SIZES = st.integers(1, 20_000)


def _plan(
    m: float,
    n: float,
    k: float,
    batch: float = 1.0,
    *,
    tile: tuple[float, float] = (np.nan, np.nan),
    rates: VectorRates | None = None,
) -> TilePlan:
    def one(value: float) -> Floats:
        return np.array([float(value)])

    products = Products(
        batch=one(batch), m=one(m), n=one(n), k=one(k), in_bytes=one(4), out_bytes=one(4),
        rate=one(GPU.rate("fp32")), tensor=np.array([False]), input_bytes=one(batch * (m + n) * k * 4),
        tile_m=one(tile[0]), tile_n=one(tile[1]), split=one(np.nan if np.isnan(tile[0]) else 1.0),
    )  # fmt: skip
    return plan_vectors(products, GPU, rates or VectorRates.of({}), HERTZ)


def _seconds(plan: TilePlan) -> float:
    return float(plan.serial_cycles[0] / HERTZ + max(plan.core_cycles[0] / HERTZ, plan.memory_s[0]))


@settings(deadline=None, max_examples=60)
@given(SIZES, SIZES, SIZES, st.integers(1, 64))
def test_blocks_cover_the_product_and_pipes_are_not_beaten(m: int, n: int, k: int, batch: int) -> None:
    plan = _plan(m, n, k, batch)
    if min(m, n) > 1:
        tiles = batch * np.ceil(m / plan.tile_m[0]) * np.ceil(n / plan.tile_n[0])
        assert plan.blocks[0] == tiles * plan.split[0]
        assert plan.core_cycles[0] >= 2.0 * batch * m * n * k / (GPU.rate("fp32") * GPU.sm_count)
    assert np.isfinite(_seconds(plan))
    assert plan.memory_s[0] >= batch * ((m + n) * k + m * n) * 4.0 / GPU.dram_bytes_per_s * 0.99


def test_a_free_choice_is_near_the_fastest_stated_tile() -> None:
    free = _seconds(_plan(3000.0, 700.0, 1500.0))
    stated = [_seconds(_plan(3000.0, 700.0, 1500.0, tile=tile)) for tile in TILES]
    assert free <= 1.05 * min(stated)


def test_a_library_with_one_tile_for_batches_takes_it() -> None:
    rates = replace(VectorRates.of({}), batch_area=16384.0)
    assert _plan(40.0, 40.0, 64.0, 32.0, rates=rates).tile_m[0] == 128.0
    assert _plan(40.0, 40.0, 64.0, 32.0).tile_m[0] < 128.0


def test_long_rows_cost_pages_and_translations() -> None:
    """The same elements cost more where each row is a page, then a translation, away from the next."""
    tile = (64.0, 64.0)
    near, far = (_plan(4096.0, 4096.0, k, tile=tile) for k in (64.0, 4096.0))
    moved_near = (2 * 4096 * 64 + 4096**2) * 4.0
    moved_far = (2 * 4096 * 4096 + 4096**2) * 4.0
    assert far.memory_s[0] / moved_far > 1.2 * near.memory_s[0] / moved_near
    rates = replace(VectorRates.of({}), page_clk=1.0)
    plans = [(k, _plan(4096.0, 4096.0, k, tile=tile, rates=rates)) for k in (1000.0, 60000.0)]
    per_k = [plan.core_cycles[0] / k for k, plan in plans]
    assert per_k[1] > 1.3 * per_k[0]


def test_a_product_with_a_vector_streams_its_matrix() -> None:
    plan = _plan(1.0, 16384.0, 4096.0)
    moved = (16384.0 * 4096.0 + 4096.0 + 16384.0) * 4.0
    assert plan.memory_s[0] == pytest.approx(moved / GPU.dram_bytes_per_s / 0.75, rel=0.01)


def test_a_block_of_two_warps_fills_half_of_four_schedulers() -> None:
    def core(blocks_per_sm: int, tile: tuple[float, float] = (64.0, 64.0)) -> float:
        batch = float(blocks_per_sm * GPU.sm_count)
        rates = VectorRates.of(
            {"port_efficiency": 2.0, "shared_efficiency": 2.0, "transpose_cycles": 0.0, "page_clk": 0.0}
        )
        return float(_plan(tile[0], tile[1], 4096.0, batch, tile=tile, rates=rates).core_cycles[0])

    assert core(2) == pytest.approx(2.0 * core(1), rel=0.02)  # the second lands on the same half
    assert core(3) == pytest.approx(core(2), rel=0.02)
    assert core(4) == pytest.approx(core(2), rel=0.02)
    assert core(5) == pytest.approx(1.5 * core(4), rel=0.02)
    assert core(1, (128.0, 64.0)) == pytest.approx(core(1), rel=0.02)  # four warps of twice the tile
