"""Tiling of matrix products: tiles, split K, waves, and the bytes each level moves.

A library holds a list of tiles and picks the one its own model calls fastest. So does this: every
tile and split of K is timed by the same few rates and the least time is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families.gemm.layout import Products, TilePlan, TileRates
from tracetool.families.gemm.tile_cost import (
    LEAST_DEPTH,
    MOST_PARTS,
    cost,
    least_split_s,
    overlap_norm,
    resident,
)
from tracetool.hardware.gpu import Gpu

__all__ = ["Products", "TilePlan", "TileRates", "plan_products"]

#: Tiles (m, n) tensor cores are driven with, one way round. [elements] A prior.
_HALF = (
    (64, 8), (64, 16), (64, 32), (64, 64), (64, 96), (64, 128), (64, 192), (64, 256), (128, 8), (128, 16),
    (128, 32), (128, 64), (128, 96), (128, 128), (128, 192), (128, 256), (256, 64), (256, 128),
)  # fmt: skip
#: Tiles (m, n) tensor cores are driven with, either way round.
TENSOR_TILES = tuple(sorted({*_HALF, *((n, m) for m, n in _HALF)}))
#: Tiles (m, n) of the FP32 pipe: registers hold no more. [elements] A prior.
VECTOR_TILES = (
    (32, 32),
    (64, 32),
    (32, 64),
    (64, 64),
    (128, 32),
    (32, 128),
    (128, 64),
    (64, 128),
    (128, 128),
)
#: Sides of tiles only libraries of Hopper and later have. [elements] A prior.
ODD_SIDES = frozenset({96, 192})
#: How sharply what goes round in L2 is lost once it does not fit. [1] A prior.
AGAIN_SHARPNESS = 8.0
#: Most weights a loop goes through that takes as many as overflow L2. [1] By definition of
#: ai-dynamo/aiconfigurator, collector/trtllm/collect_gemm.py.
MOST_SETS = 5.0
#: What is kept of the plan chosen.
_KEPT = (
    "tile_m", "tile_n", "split", "blocks", "waves", "serial_cycles", "core_cycles", "fill_bytes",
    "partial_bytes",
)  # fmt: skip
#: Rows timed together: few enough for the processor's cache, enough that threads seldom wait for one another.
#: [rows] By definition without effect on results.
_CHUNK = 4096
#: Relative error of rounding that a bound of a time may have. [1] By definition of the numbers: far above it.
_ROUNDING = 1e-9


def plan_products(products: Products, gpu: Gpu, rates: TileRates, hertz: float) -> TilePlan:
    r"""Return for each product the tile and split of K of least time.

    Parameters
    ----------
    products : Products
        n products.
    gpu : Gpu
        The GPU they run on.
    rates : TileRates
        Coefficients.
    hertz : float
        Core clock at which the library chooses: the plan does not depend on the clock it runs at. [Hz]

    Returns
    -------
    TilePlan
        Arrays of shape (n,).

    Notes
    -----
    With T tiles in s parts on S SMs of O resident blocks, the busiest SM works through
    ceil(T s / S) blocks, in ceil(T s / (S O)) waves:

    .. math:: t_{core} = \left\| \lceil T s / S \rceil \frac{k}{s} c_{mma}, \;
       \frac{Q_{fill}}{B_{L2}}, \; \lceil T s / S \rceil \frac{q_{fill}}{B_{port}} \right\|_p

    (tile and wave quantization as in [1]_). On tensor cores the products of a K step, its reads of
    shared memory and the latency of the next overlap; on the FP32 pipe the latency adds. Starts and
    stores of waves but the first overlap memory as far as ``drained`` says.

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide", sections "Tile Quantization" and
       "Wave Quantization".
    """
    count = len(products.m)
    columns = {f.name: np.empty(count) for f in fields(TilePlan)}
    for start in range(0, max(count, 1), _CHUNK):
        rows = slice(start, start + _CHUNK)
        plan = _plan(products.take(rows), gpu, rates, hertz)
        for name, values in plan.items():
            columns[name][rows] = values
    return TilePlan(**columns)


#: Share of L2 that what a kernel holds can fill before it overflows. [1] A prior.
RESIDENT_SHARE = 0.8


def in_l2(held_bytes: Floats, gpu: Gpu) -> Floats:
    """Return the share of ``held_bytes`` that stays in L2: little once they overflow. Shape (n,). [1]"""
    return np.asarray(1.0 / (1.0 + (held_bytes / (RESIDENT_SHARE * gpu.l2_bytes)) ** 4))


def _plan(p: Products, gpu: Gpu, rates: TileRates, hertz: float) -> dict[str, Floats]:
    count = len(p.m)
    resident = p.input_bytes + p.batch * p.m * p.n * p.out_bytes
    l2_share = np.maximum(rates.l2_hit * in_l2(resident, gpu), rates.weights_hit * _again(p, gpu, rates))
    read = p.input_bytes * (1.0 - l2_share)
    dram = read + p.batch * p.m * p.n * p.out_bytes
    memory_s = dram / (gpu.dram_bytes_per_s * rates.dram_efficiency)
    best = np.full(count, np.inf)
    plan_columns = {name: np.zeros(count) for name in _KEPT}
    stated = np.isfinite(p.tile_m * p.tile_n) & (p.tile_m > 0) & (p.tile_n > 0)
    # a tile of one row states a matrix times a vector
    vector = p.vectors & (~stated | (np.minimum(p.tile_m, p.tile_n) <= 1.0))

    def choice(places: Ints) -> _Choice:
        chosen = p if places.size == count else p.take(places)
        return _Choice(gpu, rates, hertz, chosen, dram[places], memory_s[places])

    if (places := np.flatnonzero(stated & ~vector)).size:
        time, plan = choice(places).fastest(p.tile_m[None, places], p.tile_n[None, places])
        _keep(best, plan_columns, places, time, plan)
    for tensor, tiles in ((True, TENSOR_TILES), (False, VECTOR_TILES)):
        usable, places = _usable(tiles, rates), np.flatnonzero((p.tensor == tensor) & ~stated)
        if usable and places.size:
            tile_m, tile_n = np.array(usable, np.float64).T[:, :, None]
            time, plan = choice(places).fastest(tile_m, tile_n)
            _keep(best, plan_columns, places, time, plan)
    if vector.any():
        _vector(p, gpu, rates, hertz, dram, memory_s, vector, best, plan_columns)
    l2_bytes = plan_columns["fill_bytes"] / max(1.0, rates.l2_efficiency)
    return {**plan_columns, "memory_s": memory_s, "read_bytes": read, "l2_bytes": l2_bytes}


def _again(p: Products, gpu: Gpu, rates: TileRates) -> Floats:
    """Return the share of operands still in L2 when used again, other weights in between. Shape (n,). [1]

    A measuring loop takes the same A with one B after another; what all of them hold must fit in the L2 near
    an SM, a cache that keeps no more of what goes round in it once it overflows.
    """
    if p.weight_sets is None or rates.weights_hit <= 0.0:
        return np.zeros(len(p.m))
    weights = p.batch * p.n * p.k * (p.in_bytes if p.weight_bytes is None else p.weight_bytes)
    overflowing = np.clip(np.ceil(gpu.l2_bytes / weights), 1.0, MOST_SETS)
    usual = rates.weight_sets if rates.weight_sets > 0.0 else overflowing
    sets = np.where(np.isnan(p.weight_sets), usual, p.weight_sets)
    round_bytes = p.input_bytes + (sets - 1.0) * weights + p.batch * p.m * p.n * p.out_bytes
    return np.asarray(1.0 / (1.0 + np.minimum(round_bytes / gpu.l2_near_bytes, 1e9) ** AGAIN_SHARPNESS))


@dataclass(frozen=True)
class _Choice:
    """A library's own model of time, by which it picks among tiles and splits of K.

    ``dram`` and ``memory_s`` are the bytes memory moves for each product and the time it takes. [B], [s]
    """

    gpu: Gpu
    rates: TileRates
    hertz: float
    products: Products
    dram: Floats
    memory_s: Floats

    def fastest(self, m: Floats, n: Floats) -> tuple[Floats, dict[str, Floats]]:
        """Return the least time over tiles and splits of K, and its plan; the first of equal ones. (r,)

        Sides of the t tiles are of shape (t, 1), or (1, r) where each product has its own. All are tried
        with K whole, and split only where that can be faster than the fastest whole one.
        """
        p, all_rows = self.products, slice(None)
        tiles = p.batch * np.ceil(p.m / m) * np.ceil(p.n / n)
        splits = np.where(np.isfinite(p.split), np.clip(p.split, 1.0, MOST_PARTS), 1.0)
        time = self._time_s(self._cost(all_rows, m, n, tiles, splits), all_rows)
        splits = np.broadcast_to(splits, time.shape).copy()
        sides = np.broadcast_to(m, time.shape), np.broadcast_to(n, time.shape)
        most = np.where(
            np.isfinite(p.split), 1.0, np.clip(np.floor(p.k / LEAST_DEPTH), 1.0, float(MOST_PARTS))
        )
        if (most > 1.0).any():
            least = least_split_s(p, self.gpu, self.rates, (m, n), self.hertz, most, self.dram, self.memory_s)
            # the most promising tile of each product first: it often leaves few others worth trying
            first = np.zeros(time.shape, np.bool_)
            first[np.argmin(least, axis=0), np.arange(len(p.m))] = True
            for candidates in (first, ~first):
                worth = ~(least > time.min(axis=0) * (1.0 + _ROUNDING)) & (most > 1.0) & candidates
                tile, row = np.nonzero(worth)
                split = self._split(row, sides[0][worth], sides[1][worth], tiles[worth], most[row])
                better = split[0] < time[worth]
                tile, row = tile[better], row[better]
                time[tile, row], splits[tile, row] = (values[better] for values in split)
        time = np.where(np.isnan(time), np.inf, time)
        chosen = np.argmin(time, axis=0), np.arange(len(p.m))
        tile_m, tile_n = (side[chosen] for side in sides)
        plan = self._cost(all_rows, tile_m, tile_n, tiles[chosen], splits[chosen])
        return time[chosen], {**plan, "tile_m": tile_m, "tile_n": tile_n, "split": splits[chosen]}

    def _split(self, row: Ints, m: Floats, n: Floats, tiles: Floats, most: Floats) -> tuple[Floats, Floats]:
        """Return the least time over the splits worth trying of products in tiles, and its parts."""
        at_once = self.gpu.sm_count * resident(m, n, self.gpu)
        filling = np.clip(np.floor(at_once / tiles), 1.0, most)
        few = np.minimum(most, 2.0), np.minimum(most, 3.0)
        tried = np.array([filling, np.floor(filling / 2.0), np.floor(filling / 4.0), *few])
        worth = tried > 1.0
        for later in range(1, len(tried)):
            worth[later] &= (tried[:later] != tried[later]).all(axis=0)
        place = np.nonzero(worth)[1]
        costs = self._cost(row[place], m[place], n[place], tiles[place], tried[worth])
        time = np.full(tried.shape, np.inf)
        time[worth] = self._time_s(costs, row[place])
        first = np.argmin(time, axis=0), np.arange(len(row))
        return time[first], tried[first]

    def _cost(
        self, rows: Ints | slice, m: Floats, n: Floats, tiles: Floats, splits: Floats
    ) -> dict[str, Floats]:
        takes_all = isinstance(rows, slice)
        products = self.products if takes_all else self.products.take(rows)
        return cost(products, self.gpu, self.rates, (m, n), tiles, self.dram[rows], splits)

    def _time_s(self, costs: dict[str, Floats], rows: Ints | slice) -> Floats:
        judged_s = costs["judged_cycles"] / self.hertz
        return np.asarray(costs["serial_cycles"] / self.hertz + overlap_norm(judged_s, self.memory_s[rows]))


def _usable(tiles: Sequence[tuple[int, int]], rates: TileRates) -> list[tuple[int, int]]:
    """Return the tiles that a library of such habits has."""
    return [
        tile
        for tile in tiles
        if min(tile) >= min(rates.least_tile, 64.0) and (rates.odd_tiles > 0.0 or not {*tile} & ODD_SIDES)
    ]


def _vector(
    p: Products, gpu: Gpu, rates: TileRates, hertz: float, dram: Floats, memory_s: Floats, single: Bools,
    best: Floats, plan_columns: dict[str, Floats],
) -> None:  # fmt: skip
    """Try a product with a vector: one warp a row, nothing padded."""
    rows = np.maximum(p.m, p.n)[single] * p.batch[single]
    blocks = np.ceil(rows / 8.0)
    core = dram[single] / (gpu.dram_bytes_per_s * rates.vector_efficiency) * hertz
    n = len(rows)
    candidate = {
        "tile_m": np.where(p.m[single] > 1, 8.0, 1.0), "tile_n": np.where(p.m[single] > 1, 1.0, 8.0),
        "split": np.ones(n), "blocks": blocks, "waves": np.ceil(blocks / (8.0 * gpu.sm_count)),
        "serial_cycles": np.full(n, rates.vector_clk), "core_cycles": core,
        "fill_bytes": dram[single], "partial_bytes": np.zeros(n),
    }  # fmt: skip
    time = rates.vector_clk / hertz + overlap_norm(core / hertz, memory_s[single])
    _keep(best, plan_columns, np.flatnonzero(single), time, candidate)


def _keep(
    best: Floats, plan_columns: dict[str, Floats], places: Ints, time: Floats, candidate: dict[str, Floats]
) -> None:
    """Keep a candidate where it is faster than the best so far."""
    faster = np.flatnonzero(time < best[places])
    if not faster.size:
        return
    chosen = places[faster]
    best[chosen] = time[faster]
    for name, values in plan_columns.items():
        values[chosen] = candidate[name][faster]
