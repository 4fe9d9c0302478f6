"""Tiling of matrix products on the FP32 pipe: tiles in registers, K read row by row.

Both operands of a framework's linear layer are stored along K. A tile reads a few neighboring words of each
of its rows, goes on to the next few, and so on: memory opens a new page for every row, and rows far apart
need more address translations than the chip keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families.coefficients import rates_of, read_coefficients, values_of
from tracetool.families.gemm.layout import Products, TilePlan
from tracetool.hardware.gpu import Gpu

#: Tiles (m, n) of the FP32 pipe: registers hold no more. [elements] A prior.
TILES = ((32, 32), (64, 32), (32, 64), (64, 64), (128, 32), (32, 128), (128, 64), (64, 128), (128, 128))
#: Elements of K a step takes; least in a part of a split K [elements]; most parts [parts]; most blocks an SM
#: holds [blocks]. Each a prior.
DEPTH, LEAST_DEPTH, MOST_PARTS, MOST_RESIDENT = 8.0, 48.0, 32, 16.0
#: Bytes of a row beyond which its neighbor lies in another page of device memory. [B] A prior.
ROW_BYTES = 1024.0
#: Rows this many bytes apart, or a multiple, fall on the same channels of memory. [B] A prior.
ALIAS_BYTES = 4096.0
#: SMs that share kept translations of addresses. [SMs] A prior.
PAGE_SMS = 4.0
#: Elements of a tile whose block is two warps, and its least side: libraries give a thread 64 sums, and
#: slender tiles fewer. [elements] By definition: 64 sums of 64 threads; the side is a prior.
PAIR_AREA, PAIR_SIDE = 4096.0, 64.0
#: Threads of such a block [threads], by definition two warps of 32; and the schedulers of an SM it fills half
#: of [schedulers] (NVIDIA, CUDA C++ Programming Guide, compute capabilities).
PAIR_THREADS, _SCHEDULERS = 64, 4
#: Rows timed together, so that the work stays in the processor's cache. [rows] By definition without effect
#: on results.
_CHUNK = 8192


@dataclass(frozen=True)
class VectorRates:
    """Coefficients of products on the FP32 pipe, each documented in ``vector_law.toml``.

    Rates are shares of the hardware's peak, times are in clocks of the core.
    """

    pipe_efficiency: float
    shared_efficiency: float
    port_efficiency: float
    dram_efficiency: float
    strided_efficiency: float
    latency_clk: float
    block_clk: float
    k_step_cycles: float
    split_clk: float
    reduce_efficiency: float
    store_efficiency: float
    transpose_cycles: float
    page_clk: float
    page_share: float
    page_odd: float
    fill_norm: float
    vector_efficiency: float
    vector_clk: float
    batch_area: float
    most_area: float

    @classmethod
    def of(cls, coefficients: Mapping[str, float]) -> VectorRates:
        """Return the rates given; one that is not is its prior."""
        return rates_of(cls, coefficients, _PRIORS)


_DATA = read_coefficients(__package__, "vector_law")
_PRIORS = {**values_of(_DATA["gemm_vector"]), **values_of(_DATA["one_column"])}


def plan_vectors(products: Products, gpu: Gpu, rates: VectorRates, hertz: float) -> TilePlan:
    r"""Return for each product the tile and split of K of least time, or those its kernel's name states.

    Parameters
    ----------
    products : Products
        n products on the FP32 pipe.
    gpu : Gpu
        The GPU they run on.
    rates : VectorRates
        Coefficients.
    hertz : float
        Core clock at which the library chooses. [Hz]

    Returns
    -------
    TilePlan
        Arrays of shape (n,).

    Notes
    -----
    Registers hold a tile's sums: an SM of R of them holds O = R / (2 m n) blocks [1]_. Its Q = ceil(T s / S)
    blocks come in ceil(Q / O) rounds; each step of a round takes no less than the latency of one:

    .. math:: t_{core} = \left\| d \left\| Q c_k, \lceil Q / O \rceil \frac{c_{step}}{8} \right\|_4,
       \frac{Q_{fill}}{B_{L2}}, \frac{Q d (m + n) b}{B_{port}} \right\|
       + Q d (m + n) (c_{turn} + c_{page} \mu)

    with :math:`\mu` the share of rows whose address translation is no longer kept: half where the rows in
    flight, K apart, span a share of the bytes whose translations the chip keeps ([2]_, section 3.9).
    A block of two warps runs on two of an SM's four schedulers: alone it takes the time of two, and Q counts
    so. Memory opens a page for every row where rows are longer than a page, so that the rate of operands
    stored along K falls with K.

    References
    ----------
    .. [1] NVIDIA, "CUTLASS: Fast Linear Algebra in CUDA C++", 2017.
    .. [2] Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018.
    """
    count = len(products.m)
    columns = {f.name: np.zeros(count) for f in fields(TilePlan)}
    for start in range(0, max(count, 1), _CHUNK):
        rows = slice(start, start + _CHUNK)
        for name, values in _plan(products.take(rows), gpu, rates, hertz).items():
            columns[name][rows] = values
    return TilePlan(**columns)


def pipe_rate(p: Products, gpu: Gpu) -> Floats:
    """Return the rate of the pipes that products of each row run on. Shape (n,). [FLOP/clk/SM]"""
    return np.where(p.in_bytes == 4.0, np.maximum(p.rate, gpu.matrix_fp32), p.rate)


def _plan(p: Products, gpu: Gpu, rates: VectorRates, hertz: float) -> dict[str, Floats]:
    p = replace(p, rate=pipe_rate(p, gpu))
    memory_s = _memory_s(p, gpu, rates)
    best, plan_columns = np.full(len(p.m), np.inf), {f.name: np.zeros(len(p.m)) for f in fields(TilePlan)}

    def keep(places: Ints, costs: dict[str, Floats]) -> None:
        core, serial = costs["core_cycles"] / hertz, costs["serial_cycles"] / hertz
        time = serial + (core**4 + costs["memory_s"] ** 4) ** 0.25
        faster = np.flatnonzero(time < best[places])
        best[places[faster]] = time[faster]
        for name, values in costs.items():
            plan_columns[name][places[faster]] = values[faster]

    stated = np.isfinite(p.tile_m * p.tile_n) & (p.tile_m > 0) & (p.tile_n > 0)
    if (places := np.flatnonzero(stated)).size:
        products = p.take(places)
        for rows, costs in _tried(products, gpu, rates, (products.tile_m, products.tile_n), memory_s[places]):
            keep(places[rows], costs)
    if (places := np.flatnonzero(~stated)).size:
        products = p.take(places)
        for tile in TILES:
            able = _has_tile(products, rates, tile)
            if not able.any():
                continue
            usable = np.flatnonzero(able)
            sizes = (np.full(usable.size, float(tile[0])), np.full(usable.size, float(tile[1])))
            for rows, costs in _tried(products.take(usable), gpu, rates, sizes, memory_s[places][usable]):
                keep(places[usable[rows]], costs)
    if (single := np.flatnonzero(p.vectors & ~stated)).size:
        keep(single, _vector(p.take(single), gpu, rates, hertz))
    return plan_columns


def _has_tile(p: Products, rates: VectorRates, tile: tuple[int, int]) -> Bools:
    """Return the products a library has this tile for."""
    area = float(tile[0] * tile[1])
    batched = (p.batch > 1.0) & (rates.batch_area > 0)
    return np.asarray(np.where(batched, area == rates.batch_area, area <= rates.most_area))


def _memory_s(p: Products, gpu: Gpu, rates: VectorRates) -> Floats:
    """Return the time of distinct bytes: operands stored along K at a rate that falls with K. [s]"""
    # batches come row by row on one side: their other operand is stored along n
    strided = p.batch * (p.m + np.where(p.batch > 1.0, 0.0, p.n)) * p.k * p.in_bytes
    strided = np.minimum(strided, p.input_bytes)
    other_bytes = p.input_bytes - strided + p.batch * p.m * p.n * p.out_bytes
    near = 1.0 / (1.0 + (p.k * p.in_bytes / ROW_BYTES) ** 2)
    efficiency = rates.strided_efficiency + near * (rates.dram_efficiency - rates.strided_efficiency)
    return np.asarray((strided / efficiency + other_bytes / rates.dram_efficiency) / gpu.dram_bytes_per_s)


def _tried(
    p: Products, gpu: Gpu, rates: VectorRates, tile: tuple[Floats, Floats], memory_s: Floats
) -> Iterator[tuple[Ints, dict[str, Floats]]]:
    """Yield rows and what a tile costs them, without and with every split of K worth trying."""
    tiles = p.batch * np.ceil(p.m / tile[0]) * np.ceil(p.n / tile[1])
    stated = np.isfinite(p.split)
    stated_splits = np.where(stated, np.maximum(p.split, 1.0), 1.0)
    yield np.arange(len(tiles)), _cost(p, gpu, rates, tile, tiles, stated_splits, memory_s)
    most = np.clip(np.floor(p.k / LEAST_DEPTH), 1.0, float(MOST_PARTS))
    filling = np.clip(np.floor(gpu.sm_count * _resident(p, tile, gpu) / tiles), 1.0, most)
    tried: list[Floats] = []
    for splits in (filling, np.floor(filling / 2.0), np.floor(filling / 4.0), np.minimum(most, 2.0)):
        worth = ~stated & (p.batch <= 1.0) & (splits > 1.0)
        for tried_splits in tried:
            worth &= splits != tried_splits
        tried.append(splits)
        if (rows := np.flatnonzero(worth)).size:
            sizes = (tile[0][rows], tile[1][rows])
            yield rows, _cost(p.take(rows), gpu, rates, sizes, tiles[rows], splits[rows], memory_s[rows])


def _resident(p: Products, tile: tuple[Floats, Floats], gpu: Gpu) -> Floats:
    """Return the blocks an SM's registers hold: two of 4 bytes for each sum."""
    registers = 2.0 * tile[0] * tile[1] * np.maximum(p.out_bytes / 4.0, 1.0)
    return np.asarray(np.clip(np.floor(gpu.registers_per_sm / registers), 1.0, MOST_RESIDENT))


def _cost(
    p: Products,
    gpu: Gpu,
    rates: VectorRates,
    tile: tuple[Floats, Floats],
    tiles: Floats,
    splits: Floats,
    memory_s: Floats,
) -> dict[str, Floats]:
    """Return the cost of products in one tile with K split into ``splits``; see :func:`plan_vectors`."""
    m, n = tile
    sms, resident = float(gpu.sm_count), _resident(p, tile, gpu)
    blocks = tiles * splits
    busiest = np.ceil(blocks / sms)
    rounds = np.ceil(busiest / resident)
    depth = np.ceil(p.k / splits / DEPTH) * DEPTH
    pipes = 2.0 * m * n / (p.rate * rates.pipe_efficiency)
    feeding = (m + n) * p.in_bytes / (gpu.shared_bytes_per_clock_sm * rates.shared_efficiency)
    per_k = (pipes**4 + feeding**4) ** 0.25
    step = ((_crowded(busiest, m, n, gpu) * per_k) ** 4 + (rounds * rates.k_step_cycles / DEPTH) ** 4) ** 0.25
    lines = np.minimum(m, p.m) + np.minimum(n, p.n)
    fill = blocks * depth * lines * p.in_bytes
    filling = fill / gpu.l2_bytes_per_clock
    port = gpu.l2_port_bytes_per_clock_sm
    entering = busiest * depth * lines * p.in_bytes / (port * rates.port_efficiency)
    core = _norm(depth * step, filling, entering, rates.fill_norm)
    lost = _untranslated(p, gpu, rates, tile, np.minimum(resident, busiest))
    along = np.minimum(m, p.m) + np.where(p.batch > 1.0, 0.0, np.minimum(n, p.n))
    core = core + busiest * depth * (along * rates.transpose_cycles + lines * rates.page_clk * lost)
    split = splits > 1.0
    partial = np.where(split, 8.0 * p.batch * p.m * p.n * splits, 0.0)
    serial = rates.latency_clk + rounds * rates.block_clk
    serial = serial + busiest * m * n * p.out_bytes / (port * rates.store_efficiency)
    serial = serial + np.where(split, rates.split_clk, 0.0)
    serial = serial + partial / (gpu.l2_bytes_per_clock * rates.reduce_efficiency)
    return {
        "tile_m": m, "tile_n": n, "split": splits, "blocks": blocks, "waves": rounds,
        "serial_cycles": serial, "core_cycles": core, "memory_s": memory_s, "fill_bytes": fill,
        "l2_bytes": fill, "partial_bytes": partial, "read_bytes": p.input_bytes,
    }  # fmt: skip


def _crowded(blocks: Floats, m: Floats, n: Floats, gpu: Gpu) -> Floats:
    """Return an SM's blocks, each of two warps counted by the half of four schedulers it fills.

    One such block leaves half of the SM idle, and a second lands on the same half as the first.
    """
    four = gpu.schedulers_per_sm == _SCHEDULERS and 2 * gpu.warp_size == PAIR_THREADS
    pair = (m * n <= PAIR_AREA) & (np.minimum(m, n) >= PAIR_SIDE)
    remainder = np.mod(blocks, 4.0)
    halves = blocks - remainder + np.minimum(2.0 * remainder, 4.0)
    return np.asarray(np.where(pair & four, halves, blocks))


def _untranslated(
    p: Products, gpu: Gpu, rates: VectorRates, tile: tuple[Floats, Floats], blocks: Floats
) -> Floats:
    """Return the share of rows read whose address translation is no longer kept; ``blocks`` an SM."""
    m, n = tile
    wide = np.minimum(blocks * PAGE_SMS, np.ceil(p.n / n))  # blocks go along n first
    high = np.minimum(np.ceil(blocks * PAGE_SMS / wide), np.ceil(p.m / m))
    lines = np.minimum(high * m, p.m) + np.minimum(wide * n, p.n)
    row_bytes = p.k * p.in_bytes
    translated_bytes = rates.page_share * gpu.translated_bytes
    lost = 1.0 / (1.0 + (translated_bytes / np.maximum(lines * row_bytes, 1.0)) ** 3)
    return np.asarray(lost * np.where(np.mod(row_bytes, ALIAS_BYTES) == 0, 1.0, rates.page_odd))


def _norm(a: Floats, b: Floats, c: Floats, norm: float) -> Floats:
    largest = np.maximum(np.maximum(a, b), c)
    total = (a / largest) ** norm + (b / largest) ** norm + (c / largest) ** norm
    return np.asarray(largest * total ** (1.0 / norm))


def _vector(p: Products, gpu: Gpu, rates: VectorRates, hertz: float) -> dict[str, Floats]:
    """Return the cost of products with a vector: one warp a row, nothing padded."""
    count = len(p.m)
    blocks = np.ceil(np.maximum(p.m, p.n) * p.batch / 8.0)
    moved = p.input_bytes + p.batch * p.m * p.n * p.out_bytes
    seconds = moved / (gpu.dram_bytes_per_s * rates.vector_efficiency)
    pipes = 2.0 * p.batch * p.m * p.n * p.k / (p.rate * rates.pipe_efficiency * gpu.sm_count)
    core = np.maximum(0.5 * seconds * hertz, pipes)
    return {
        "tile_m": np.where(p.m > 1, 8.0, 1.0), "tile_n": np.where(p.m > 1, 1.0, 8.0), "split": np.ones(count),
        "blocks": blocks, "waves": np.ceil(blocks / (8.0 * gpu.sm_count)),
        "serial_cycles": np.full(count, rates.vector_clk), "core_cycles": core,
        "memory_s": seconds, "fill_bytes": moved, "l2_bytes": moved, "partial_bytes": np.zeros(count),
        "read_bytes": p.input_bytes,
    }  # fmt: skip
