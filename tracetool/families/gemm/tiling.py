"""How matrix products lie on the chip: tiles, split K, waves, and the bytes each level moves.

A library holds a list of tiles and picks the one its own model calls fastest. So does this: every
tile and split of K is timed by the same few rates and the least time is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families.gemm.layout import Products, TilePlan, TileRates
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
#: Registers an accumulator takes for each of its own: operands and addresses stand beside it [1], a prior;
#: and 32-bit registers of an SM [registers], by definition of the architecture (hardware/references.toml,
#: cuda-occupancy-table).
REGISTERS_EACH, SM_REGISTERS = 2.0, 65536.0
#: Bytes of K one pipeline stage holds per row of a tile [B], and stages in flight [stages]. Both a prior.
K_STEP_BYTES, STAGES = 128.0, 4.0
#: Elements of K a step of the main loop takes, on tensor cores and on the FP32 pipe; the least a part of a
#: split K holds [elements]; the most parts [parts]. Each a prior.
DEPTH, VECTOR_DEPTH, LEAST_DEPTH, MOST_PARTS = 64.0, 8.0, 128.0, 32
#: The step before Hopper. [elements] A prior.
OLD_DEPTH = 32.0
#: Time of an SM for a thread's load of less than 16 bytes. [clk] Set on 28 TF32 kernels measured in a run on
#: an A100, which it brings from 40 to 16 % off (docs/families/gemm.md).
LOAD_CLK = 0.4
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
#: Rows timed together, so that the work stays in the processor's cache. [rows] By definition without effect
#: on results.
_CHUNK = 8192


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


def _plan(p: Products, gpu: Gpu, rates: TileRates, hertz: float) -> dict[str, Floats]:
    count = len(p.m)
    resident = p.input_bytes + p.batch * p.m * p.n * p.out_bytes
    fits = 1.0 / (1.0 + (resident / (0.8 * gpu.l2_bytes)) ** 4)
    held = np.maximum(rates.l2_hit * fits, rates.weights_hit * _again(p, gpu, rates))
    read = p.input_bytes * (1.0 - held)
    dram = read + p.batch * p.m * p.n * p.out_bytes
    memory_s = dram / (gpu.dram_bytes_per_s * rates.dram_efficiency)
    best = np.full(count, np.inf)
    kept = {name: np.zeros(count) for name in _KEPT}
    stated = np.isfinite(p.tile_m * p.tile_n) & (p.tile_m > 0) & (p.tile_n > 0)
    # a tile of one row states a matrix times a vector
    vector = (np.minimum(p.m, p.n) <= 1.0) & (~stated | (np.minimum(p.tile_m, p.tile_n) <= 1.0))
    if (stated & ~vector).any():
        places = np.flatnonzero(stated & ~vector)
        part = p.take(places)
        for rows, found in _tried(part, gpu, rates, part.tile_m, part.tile_n, dram[places]):
            here = places[rows]
            time = found["serial_cycles"] / hertz + _meet(found["judged_cycles"] / hertz, memory_s[here])
            _keep(best, kept, here, time, found)
    for tensor, tiles in ((True, TENSOR_TILES), (False, VECTOR_TILES)):
        mask = (p.tensor == tensor) & ~stated
        if not mask.any():
            continue
        part = p if mask.all() else p.take(np.flatnonzero(mask))
        some = dram if mask.all() else dram[mask]
        places = np.flatnonzero(mask)
        for tile_m, tile_n in tiles:
            if min(tile_m, tile_n) < min(rates.least_tile, 64.0):
                continue
            if rates.odd_tiles <= 0.0 and {tile_m, tile_n} & ODD_SIDES:
                continue
            for rows, found in _tried(part, gpu, rates, tile_m, tile_n, some):
                here = places[rows]
                core, serial = found["judged_cycles"], found["serial_cycles"]
                time = serial / hertz + _meet(core / hertz, memory_s[here])
                _keep(best, kept, here, time, found)
    if vector.any():
        _vector(p, gpu, rates, hertz, dram, memory_s, vector, best, kept)
    l2_bytes = kept["fill_bytes"] / max(1.0, rates.l2_efficiency)
    return {**kept, "memory_s": memory_s, "read_bytes": read, "l2_bytes": l2_bytes}


def _again(p: Products, gpu: Gpu, rates: TileRates) -> Floats:
    """Return how far operands stay in L2 until they are used again, with other weights used in between. (n,)

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


def _tried(
    p: Products, gpu: Gpu, rates: TileRates, tile_m: Floats | float, tile_n: Floats | float, dram: Floats
) -> Iterator[tuple[Ints, dict[str, Floats]]]:
    """Yield rows and what a tile costs them, without and with every split of K worth trying."""
    tiles = p.batch * np.ceil(p.m / tile_m) * np.ceil(p.n / tile_n)
    most = np.clip(np.floor(p.k / LEAST_DEPTH), 1.0, float(MOST_PARTS))
    filling = np.clip(np.floor(gpu.sm_count * _resident(tile_m, tile_n, gpu) / tiles), 1.0, most)
    whole = np.where(np.isfinite(p.split), np.clip(p.split, 1.0, MOST_PARTS), 1.0)
    yield np.arange(len(tiles)), _cost(p, gpu, rates, (tile_m, tile_n), tiles, dram, whole)
    tried = (
        filling,
        np.floor(filling / 2.0),
        np.floor(filling / 4.0),
        np.minimum(most, 2.0),
        np.minimum(most, 3.0),
    )
    done: list[Floats] = []
    free = ~np.isfinite(p.split) & (most > 1.0)
    for parts in tried:
        worth = free & (parts > 1.0)
        for other in done:
            worth &= parts != other
        done.append(parts)
        rows = np.flatnonzero(worth)
        if rows.size:
            sizes = (_some(tile_m, rows), _some(tile_n, rows))
            yield rows, _cost(p.take(rows), gpu, rates, sizes, tiles[rows], dram[rows], parts[rows])


def _some(size: Floats | float, rows: Ints) -> Floats | float:
    return size[rows] if isinstance(size, np.ndarray) else size


def _resident(tile_m: Floats | float, tile_n: Floats | float, gpu: Gpu) -> Floats:
    """Return the blocks an SM holds: its shared memory over the stages of one."""
    stages = (np.asarray(tile_m) + np.asarray(tile_n)) * K_STEP_BYTES * STAGES
    return np.asarray(np.clip(np.floor(gpu.shared_bytes_per_sm / stages), 1.0, 4.0))


def _held(tile_m: Floats | float, tile_n: Floats | float) -> Floats:
    """Return the blocks whose accumulators an SM's registers hold."""
    area = REGISTERS_EACH * np.asarray(tile_m) * np.asarray(tile_n)
    return np.asarray(np.clip(np.floor(SM_REGISTERS / area), 1.0, 4.0))


def _whole(blocks: Floats, sms: float, tile_m: Floats | float, tile_n: Floats | float) -> Floats:
    """Return the blocks of the busiest SM where the last of several waves is charged in full."""
    held = _held(tile_m, tile_n)
    waves = np.ceil(blocks / (sms * held))
    return np.asarray(np.where(waves > 1.0, waves * held, np.ceil(blocks / sms)))


def _cost(
    p: Products,
    gpu: Gpu,
    rates: TileRates,
    tile: tuple[Floats | float, Floats | float],
    tiles: Floats,
    dram: Floats,
    parts: Floats,
) -> dict[str, Floats]:
    """Return what products cost in one tile with K split into ``parts``; see :func:`plan_products`."""
    sms, (m, n) = float(gpu.sm_count), tile
    clocks = 2.0 * m * n / (p.rate * rates.tensor_efficiency)
    feeding = (m + n) * p.in_bytes / (gpu.shared_bytes_per_clock_sm * rates.shared_efficiency)
    per_k = np.sqrt(np.sqrt(_fourth(clocks) + _fourth(feeding)))
    if p.weight_bytes is None:
        width = (np.minimum(m, p.m) + np.minimum(n, p.n)) * p.in_bytes
    else:
        width = np.minimum(m, p.m) * p.in_bytes + np.minimum(n, p.n) * p.weight_bytes
    blocks = tiles * parts
    step = np.where(p.tensor, DEPTH if rates.odd_tiles > 0.0 else OLD_DEPTH, VECTOR_DEPTH)
    depth = np.ceil(p.k / parts / step) * step
    busiest, waves = np.ceil(blocks / sms), np.ceil(blocks / (sms * _resident(m, n, gpu)))
    fill = blocks * depth * width
    slabs, computing = waves * depth * (rates.k_step_cycles / DEPTH), busiest * depth * per_k
    # tensor cores work while the next K step loads; FP32 pipe' own loads stand in their way
    products = np.where(p.tensor, _meet(computing, slabs), computing + slabs)
    filling = fill / (gpu.l2_bytes_per_clock * rates.l2_efficiency)
    entering = busiest * depth * width / (gpu.l2_port_bytes_per_clock_sm * rates.port_efficiency)
    if p.loads is not None:
        loads = p.k / parts * width / p.in_bytes * p.loads
        entering = np.maximum(entering, busiest * loads * LOAD_CLK)
    core = _sharp(products, filling, entering, rates.fill_norm)
    judged = core
    if rates.whole_waves > 0.0:
        judged = _sharp(products * _whole(blocks, sms, m, n) / busiest, filling, entering, rates.fill_norm)
    drawn = dram / (np.minimum(blocks, sms) * rates.sm_bytes_clk)
    split = parts > 1.0
    partial = np.where(split, 8.0 * p.batch * p.m * p.n * parts, 0.0)
    growth = np.concatenate([[0.0, 0.0], np.arange(2.0, MOST_PARTS + 1.0) ** rates.split_power])
    store = m * n * p.out_bytes / (gpu.l2_port_bytes_per_clock_sm * rates.store_efficiency)
    later = rates.drained * ((waves - 1.0) * rates.block_clk + (busiest - 1.0) * store)
    serial = rates.latency_clk + waves * rates.block_clk + busiest * store - later
    serial = serial + rates.split_clk * growth[parts.astype(np.int64)]
    serial = serial + partial / (gpu.l2_bytes_per_clock * rates.reduce_efficiency)
    return {
        "tile_m": m + np.zeros_like(tiles), "tile_n": n + np.zeros_like(tiles), "split": parts,
        "blocks": blocks, "waves": waves, "serial_cycles": serial,
        "core_cycles": np.maximum(core, drawn) + later,
        "judged_cycles": np.maximum(judged, drawn) + later,
        "fill_bytes": fill, "partial_bytes": partial,
    }  # fmt: skip


def _vector(
    p: Products, gpu: Gpu, rates: TileRates, hertz: float, dram: Floats, memory_s: Floats, single: Bools,
    best: Floats, kept: dict[str, Floats],
) -> None:  # fmt: skip
    """Try a product with a vector: one warp a row, nothing padded."""
    rows = np.maximum(p.m, p.n)[single] * p.batch[single]
    blocks = np.ceil(rows / 8.0)
    core = dram[single] / (gpu.dram_bytes_per_s * rates.vector_efficiency) * hertz
    n = len(rows)
    found = {
        "tile_m": np.where(p.m[single] > 1, 8.0, 1.0), "tile_n": np.where(p.m[single] > 1, 1.0, 8.0),
        "split": np.ones(n), "blocks": blocks, "waves": np.ceil(blocks / (8.0 * gpu.sm_count)),
        "serial_cycles": np.full(n, rates.vector_clk), "core_cycles": core,
        "fill_bytes": dram[single], "partial_bytes": np.zeros(n),
    }  # fmt: skip
    time = rates.vector_clk / hertz + _meet(core / hertz, memory_s[single])
    _keep(best, kept, np.flatnonzero(single), time, found)


def _keep(
    best: Floats, kept: dict[str, Floats], places: Ints, time: Floats, found: dict[str, Floats]
) -> None:
    """Keep a candidate where it is faster than the best so far."""
    faster = np.flatnonzero(time < best[places])
    if not faster.size:
        return
    chosen = places[faster]
    best[chosen] = time[faster]
    for name, values in kept.items():
        values[chosen] = found[name][faster]


def _fourth(a: Floats) -> Floats:
    square = a * a
    return np.asarray(square * square)


def _meet(a: Floats, b: Floats) -> Floats:
    """Return the 4-norm: what a library's choice between tiles needs to know of overlap."""
    return np.asarray(np.sqrt(np.sqrt(_fourth(a) + _fourth(b))))


def _sharp(a: Floats, b: Floats, c: Floats, norm: float) -> Floats:
    """Return the 4- or 8-norm of three arrays; roots of roots, for they cost less than powers."""
    if norm <= 6.0:
        return np.asarray(np.sqrt(np.sqrt(_fourth(a) + _fourth(b) + _fourth(c))))
    large = np.maximum(np.maximum(a, b), c)
    total = sum((_fourth(x / large) ** 2 for x in (a, b, c)), np.zeros_like(large))
    return np.asarray(large * np.sqrt(np.sqrt(np.sqrt(total))))
