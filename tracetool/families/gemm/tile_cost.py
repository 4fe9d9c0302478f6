"""Cost of matrix products in one tile with K split in parts, and the least cost over splits of a tile."""

from __future__ import annotations

from functools import cache

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.families.formats import sustained_share
from tracetool.families.gemm.layout import Products, TileRates
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu

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


def resident(tile_m: Floats | float, tile_n: Floats | float, gpu: Gpu) -> Floats:
    """Return the blocks an SM holds: its shared memory over the stages of one."""
    stages = (np.asarray(tile_m) + np.asarray(tile_n)) * K_STEP_BYTES * STAGES
    return np.asarray(np.clip(np.floor(gpu.shared_bytes_per_sm / stages), 1.0, 4.0))


def _register_blocks(tile_m: Floats | float, tile_n: Floats | float) -> Floats:
    """Return the blocks whose accumulators an SM's registers hold."""
    area = REGISTERS_EACH * np.asarray(tile_m) * np.asarray(tile_n)
    return np.asarray(np.clip(np.floor(SM_REGISTERS / area), 1.0, 4.0))


def _full_wave_blocks(blocks: Floats, sms: float, tile_m: Floats | float, tile_n: Floats | float) -> Floats:
    """Return the blocks of the busiest SM where the last of several waves is charged in full."""
    resident_blocks = _register_blocks(tile_m, tile_n)
    waves = np.ceil(blocks / (sms * resident_blocks))
    return np.asarray(np.where(waves > 1.0, waves * resident_blocks, np.ceil(blocks / sms)))


def cost(
    p: Products,
    gpu: Gpu,
    rates: TileRates,
    tile: tuple[Floats | float, Floats | float],
    tiles: Floats,
    dram: Floats,
    splits: Floats,
) -> dict[str, Floats]:
    """Return the cost of products in tiles with K split into ``splits``; see ``plan_products``."""
    sms, (m, n) = float(gpu.sm_count), tile
    per_k, width, store = _per_k(p, gpu, rates, m, n), _width(p, m, n), _store(p, gpu, rates, m, n)
    blocks = tiles * splits
    step = np.where(p.tensor, DEPTH if rates.odd_tiles > 0.0 else OLD_DEPTH, VECTOR_DEPTH)
    depth = np.ceil(p.k / splits / step) * step
    busiest, waves = np.ceil(blocks / sms), np.ceil(blocks / (sms * resident(m, n, gpu)))
    fill = blocks * depth * width
    step_latency, computing = waves * depth * (rates.k_step_cycles / DEPTH), busiest * depth * per_k
    # tensor cores work while the next K step loads; FP32 pipe' own loads stand in their way
    products = overlap_norm(computing, step_latency) if p.tensor.all() else computing + step_latency
    if p.tensor.any() and not p.tensor.all():
        products = np.where(p.tensor, overlap_norm(computing, step_latency), products)
    hidden = stores_hidden(gpu.architecture)
    if hidden:
        products = overlap_norm(products, (busiest - 1.0) * store)
    filling = fill / _fill_rate(gpu, rates)
    entering = busiest * depth * width / _port_rate(gpu, rates)
    if p.loads is not None:
        loads = p.k / splits * width / p.in_bytes * p.loads
        entering = np.maximum(entering, busiest * loads * LOAD_CLK)
    drawn = dram / (np.minimum(blocks, sms) * rates.sm_bytes_clk)
    split = splits > 1.0
    partial = np.where(split, _partial(p, splits), 0.0)
    growth = np.concatenate([[0.0, 0.0], np.arange(2.0, MOST_PARTS + 1.0) ** rates.split_power])
    later, serial = _starts(rates, waves, np.ones_like(busiest) if hidden else busiest, store)
    serial = serial + rates.split_clk * growth[splits.astype(np.int64)]
    serial = serial + partial / _reduce_rate(gpu, rates)
    core = np.maximum(_sharp(products, filling, entering, rates.fill_norm), drawn) + later
    judged = core
    if rates.whole_waves > 0.0:
        products = products * _full_wave_blocks(blocks, sms, m, n) / busiest
        judged = np.maximum(_sharp(products, filling, entering, rates.fill_norm), drawn) + later
    return {
        "blocks": blocks, "waves": waves, "serial_cycles": serial, "core_cycles": core,
        "judged_cycles": judged, "fill_bytes": fill, "partial_bytes": partial,
    }  # fmt: skip


def _fourth(a: Floats) -> Floats:
    square = a * a
    return np.asarray(square * square)


def overlap_norm(a: Floats, b: Floats) -> Floats:
    """Return the 4-norm of two times that overlap in part, as a choice between tiles needs it. Shape (n,)."""
    return np.asarray(np.sqrt(np.sqrt(_fourth(a) + _fourth(b))))


def _sharp(a: Floats, b: Floats, c: Floats, norm: float) -> Floats:
    """Return the 4- or 8-norm of three arrays; roots of roots, for they cost less than powers."""
    if norm <= 6.0:
        return np.asarray(np.sqrt(np.sqrt(_fourth(a) + _fourth(b) + _fourth(c))))
    large = np.maximum(np.maximum(a, b), c)
    first, second, third = (_fourth(term / large) ** 2 for term in (a, b, c))
    return np.asarray(large * np.sqrt(np.sqrt(np.sqrt(first + second + third))))


def least_split_s(
    p: Products,
    gpu: Gpu,
    rates: TileRates,
    tile: tuple[Floats, Floats],
    hertz: float,
    most: Floats,
    dram: Floats,
    memory_s: Floats,
) -> Floats:
    """Return a time that no split of K in a tile is under: :func:`cost` without what rounding up adds.

    Parts shorten what an SM works through by as much as they add blocks: they leave the products, fills and
    reads of the whole as they are, and add sums of at least two parts.

    Parameters
    ----------
    tile : (array, array)
        Sides of tiles, broadcast against the products. [elements]
    hertz : float
        Core clock. [Hz]
    most : array, shape (n,)
        Most parts. [1]
    dram, memory_s : array, shape (n,)
        Bytes that memory moves, and the time it takes. [B], [s]

    Returns
    -------
    array, tiles broadcast against products
        [s]
    """
    sms, (m, n) = float(gpu.sm_count), tile
    tiles = p.batch * np.ceil(p.m / m) * np.ceil(p.n / n)
    share = tiles * (1.0 / sms)
    depth = np.maximum(share * p.k, p.k / most)  # of all blocks of the busiest SM
    width = _width(p, m, n)
    core = np.maximum(
        depth * _per_k(p, gpu, rates, m, n), tiles * p.k * width * (1.0 / _fill_rate(gpu, rates))
    )
    core = np.maximum(core, depth * width * _entering(p, gpu, rates))
    core = np.maximum(core, dram / (np.minimum(tiles * most, sms) * rates.sm_bytes_clk))
    busiest, waves = np.maximum(share, 1.0), np.maximum(share / resident(m, n, gpu), 1.0)
    stored = 1.0 if stores_hidden(gpu.architecture) else busiest
    later, serial = _starts(rates, waves, stored, _store(p, gpu, rates, m, n))
    adding = rates.split_clk * 2.0**rates.split_power + _partial(p, 2.0) / _reduce_rate(gpu, rates)
    return np.asarray((serial + adding) / hertz + overlap_norm((core + later) / hertz, memory_s))


def _fill_rate(gpu: Gpu, rates: TileRates) -> float:
    """Return the rate at which L2 fills all tiles. [B/clk]"""
    return gpu.l2_bytes_per_clock * rates.l2_efficiency


def _port_rate(gpu: Gpu, rates: TileRates) -> float:
    """Return the rate at which an SM takes in its tiles. [B/clk]"""
    return gpu.l2_port_bytes_per_clock_sm * rates.port_efficiency


def _entering(p: Products, gpu: Gpu, rates: TileRates) -> Floats | float:
    """Return the least time of an SM to take in a byte: of its port, and of loads by themselves. [clk/B]"""
    port = 1.0 / _port_rate(gpu, rates)
    return port if p.loads is None else np.maximum(port, p.loads / p.in_bytes * LOAD_CLK)


def _reduce_rate(gpu: Gpu, rates: TileRates) -> float:
    """Return the rate at which partial sums are added. [B/clk]"""
    return gpu.l2_bytes_per_clock * rates.reduce_efficiency


def _partial(p: Products, splits: Floats | float) -> Floats:
    """Return the bytes of partial sums, written and read. [B]"""
    return np.asarray(8.0 * p.batch * p.m * p.n * splits)


@cache
def stores_hidden(architecture: str) -> bool:
    """Return whether a tile is stored while the next is multiplied: where tensor memory holds two of them."""
    return load_architecture(architecture).has_tensor_memory


def _starts(rates: TileRates, waves: Floats, busiest: Floats | float, store: Floats) -> tuple[Floats, Floats]:
    """Return the time of starts and stores that overlaps memory, and the time that does not. [clk]"""
    later = rates.drained * ((waves - 1.0) * rates.block_clk + (busiest - 1.0) * store)
    return later, rates.latency_clk + waves * rates.block_clk + busiest * store - later


def _once(values: Floats) -> Floats:
    """Return the one number that all products of a format share, shape (1,), else the array."""
    return values[:1] if values.size and (values == values[0]).all() else values


def _per_k(p: Products, gpu: Gpu, rates: TileRates, m: Floats | float, n: Floats | float) -> Floats:
    """Return the time of a block for one element of K: products, and reads of shared memory. [clk]"""
    reached = rates.tensor_efficiency
    share = reached if p.left is None else sustained_share(reached, _once(p.left))
    clocks = 2.0 * m * n / (_once(p.rate) * share)
    feeding = (m + n) * _once(p.in_bytes) / (gpu.shared_bytes_per_clock_sm * rates.shared_efficiency)
    return overlap_norm(clocks, feeding)


def _width(p: Products, m: Floats | float, n: Floats | float) -> Floats:
    """Return the bytes a block takes in for one element of K. [B]"""
    if p.weight_bytes is None:
        return np.asarray((np.minimum(m, p.m) + np.minimum(n, p.n)) * p.in_bytes)
    return np.asarray(np.minimum(m, p.m) * p.in_bytes + np.minimum(n, p.n) * p.weight_bytes)


def _store(p: Products, gpu: Gpu, rates: TileRates, m: Floats | float, n: Floats | float) -> Floats:
    """Return the time of a block to store its tile. [clk]"""
    return np.asarray(m * n * _once(p.out_bytes) / (gpu.l2_port_bytes_per_clock_sm * rates.store_efficiency))
