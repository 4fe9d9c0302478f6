from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.core.operators import OperatorColumns
from tracetool.families.gemm.tile_cost import K_STEP_BYTES, STAGES
from tracetool.families.gemm.tiling import Products, TilePlan, TileRates, plan_products
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
SIZES = st.integers(1, 20_000)


def _plan(
    m: float, n: float, k: float, batch: float = 1.0, *, tensor: bool = True, **stated: float
) -> TilePlan:
    one = {"tile_m": np.nan, "tile_n": np.nan, "split": np.nan, **stated}
    values = [batch, m, n, k, 2.0, 2.0, GPU.rate("tensor_bf16" if tensor else "fp32")]
    arrays = [np.array([float(v)]) for v in values]
    products = Products(
        *arrays,
        np.array([tensor]),
        np.array([batch * (m + n) * k * 2.0]),
        *(np.array([v]) for v in one.values()),
    )
    return plan_products(products, GPU, TileRates.of({}), GPU.clock_boost_mhz * 1e6)


def _seconds(plan: TilePlan) -> float:
    hertz = GPU.clock_boost_mhz * 1e6
    return float(plan.serial_cycles[0] / hertz + max(plan.core_cycles[0] / hertz, plan.memory_s[0]))


@settings(deadline=None)
@given(SIZES, SIZES, SIZES, st.integers(1, 64))
def test_blocks_cover_the_product_once_per_part(m: int, n: int, k: int, batch: int) -> None:
    plan = _plan(m, n, k, batch)
    tiles = batch * np.ceil(m / plan.tile_m[0]) * np.ceil(n / plan.tile_n[0])
    if min(m, n) > 1:
        assert plan.blocks[0] == tiles * plan.split[0]
    assert plan.fill_bytes[0] >= 0.99 * min(m, n)
    assert plan.core_cycles[0] > 0
    assert plan.memory_s[0] > 0


@settings(deadline=None)
@given(SIZES, SIZES, st.integers(64, 20_000))
def test_no_tile_beats_the_matrix_units(m: int, n: int, k: int) -> None:
    plan = _plan(m, n, k)
    at_peak = 2.0 * m * n * k / (GPU.rate("tensor_bf16") * GPU.sm_count)
    assert plan.core_cycles[0] >= at_peak


def test_a_wave_more_costs_a_wave() -> None:
    """One tile over a whole wave takes as long as filling the second."""
    sms = GPU.sm_count
    whole, over, full = (
        _plan(256.0 * tiles, 128.0, 8192.0, tile_m=256.0, tile_n=128.0, split=1.0)
        for tiles in (sms, sms + 1, 2 * sms)
    )
    assert whole.waves[0] == 1
    assert over.waves[0] == full.waves[0] == 2
    assert over.core_cycles[0] == pytest.approx(2 * whole.core_cycles[0], rel=0.02)


def test_long_thin_products_split_k() -> None:
    assert _plan(64.0, 256.0, 32768.0).split[0] > 4
    assert _plan(8192.0, 8192.0, 8192.0).split[0] == 1


def test_a_stated_tile_is_kept() -> None:
    plan = _plan(1000.0, 1000.0, 1000.0, tile_m=128.0, tile_n=64.0)
    assert (plan.tile_m[0], plan.tile_n[0]) == (128.0, 64.0)
    assert _plan(1000.0, 1000.0, 1000.0, tile_m=128.0, tile_n=64.0, split=3.0).split[0] == 3.0


def test_a_free_choice_is_no_slower_than_any_stated_tile() -> None:
    free = _seconds(_plan(3000.0, 700.0, 2000.0))
    for tile in ((128.0, 128.0), (256.0, 128.0), (64.0, 64.0)):
        assert free <= 1.06 * _seconds(_plan(3000.0, 700.0, 2000.0, tile_m=tile[0], tile_n=tile[1]))


def test_a_vector_streams_its_matrix() -> None:
    plan = _plan(1.0, 8192.0, 8192.0)
    matrix = 8192 * 8192 * 2.0 / GPU.dram_bytes_per_s
    assert matrix < _seconds(plan) < 2.5 * matrix


def test_stages_fit_shared_memory() -> None:
    assert GPU.shared_bytes_per_sm >= (256 + 128) * K_STEP_BYTES * STAGES


def _memory_s(mib: float, **columns: float) -> float:
    """Return the time of memory of a product of 16 rows with weights of some MiB in 16 bits, on an L40S."""
    gpu, side = load_gpu("l40s"), float(np.sqrt(mib * 2**20 / 2.0))
    sizes = {"m": 16.0, "n": side, "k": side, **columns}
    rows = OperatorColumns(np.array(["gemm"]), {k: np.array([v]) for k, v in sizes.items()})
    rows = OperatorColumns(rows.family, {**rows.columns, "dtype": np.array(["bf16"], dtype=object)})
    return float(laws()["gemm"].pieces(rows, gpu, {}).memory_s[0])


def test_weights_of_a_loop_stay_in_l2_until_they_overflow_it() -> None:
    sets, l2_mib = laws()["gemm"].priors["weight_sets"].value, load_gpu("l40s").l2_near_bytes / 2**20
    small, large = 0.7 * l2_mib / sets, 1.5 * l2_mib / sets
    per_byte = [_memory_s(mib) / mib for mib in (small, large, 4.0 * large)]
    assert per_byte[0] < 0.4 * per_byte[2]
    assert per_byte[1] == pytest.approx(per_byte[2], rel=0.15)
    # one weight again and again fits where six of its size do not
    assert _memory_s(large, weight_sets=1.0) < 0.5 * _memory_s(large)


def test_weights_used_once_come_from_memory() -> None:
    gpu = load_gpu("l40s")
    for mib in (2.0, 8.0, 64.0):
        whole = mib * 2**20 / gpu.dram_bytes_per_s
        assert _memory_s(mib, weight_sets=np.inf) > 0.9 * whole


def test_an_odd_number_of_weights_is_between_its_neighbors() -> None:
    few, many = (_memory_s(12.0, weight_sets=sets) for sets in (1.0, 12.0))
    between = _memory_s(12.0, weight_sets=7.0)
    assert few <= between <= many
