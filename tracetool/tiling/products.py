"""How matrix products lie on the chip: tiles, split-K, waves and the bytes each level moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Floats

#: Tiles (m, n) libraries have on every architecture.
TILES = (
    (256, 128),
    (128, 256),
    (128, 128),
    (128, 64),
    (64, 128),
    (64, 64),
    (128, 32),
    (32, 128),
    (32, 64),
    (64, 32),
    (16, 64),
    (16, 128),
)
#: Parts K may be split into.
SPLITS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class TilePlan:
    """The tiles chosen for each product, all of shape (n,)."""

    tile_m: Floats
    tile_n: Floats
    split: Floats
    blocks: Floats
    waves: Floats  # whole fills of the GPU
    core_cycles: Floats  # steady state on the matrix units [clk]
    issued_flops: Floats
    fill_bytes: Floats  # L2 to SMs [B]
    partial_bytes: Floats  # partial results of split K [B]
    read_bytes: Floats  # from memory [B]


def plan_products(
    batch: Floats,
    m: Floats,
    n: Floats,
    k: Floats,
    in_bytes: Floats,
    rate: Floats,
    input_bytes: Floats,
    gpu: Gpu,
) -> TilePlan:
    """Return for each product the tile and split-K of least time.

    Parameters
    ----------
    batch, m, n, k : array, shape (n,)
        Sizes.
    in_bytes : array, shape (n,)
        Bytes per element of the operands. [B]
    rate : array, shape (n,)
        Products per clock and SM. [FLOP/clk/SM]
    input_bytes : array, shape (n,)
        Distinct bytes of the operands. [B]
    """
    count = len(m)
    best = np.full(count, np.inf)
    kept = np.zeros((8, count))
    for tile_m, tile_n in TILES:
        tiles = batch * np.ceil(m / tile_m) * np.ceil(n / tile_n)
        fill = tiles * (np.minimum(tile_m, m) + np.minimum(tile_n, n)) * k * in_bytes
        # a small tile cannot feed the matrix units: its loads cost as much as its products
        reach = tile_m * tile_n / (tile_m * tile_n + 1024.0)
        for split in SPLITS:
            if split == 1:
                parts = np.ones(count)
            else:
                parts = np.minimum(float(split), np.maximum(1.0, np.floor(k / 256.0)))
            blocks = tiles * parts
            waves = np.ceil(blocks / gpu.sm_count)
            cycles = waves * 2.0 * tile_m * tile_n * np.ceil(k / parts / 16.0) * 16.0 / (rate * reach)
            partial = np.where(parts > 1, 2.0 * batch * m * n * 4.0 * parts, 0.0)
            moved = (fill + partial) / gpu.l2_bytes_per_clock
            cost = (
                np.maximum(cycles, moved)
                + 0.2 * np.minimum(cycles, moved)
                + 600.0 * (parts > 1)
                + 400.0 * waves
            )
            better = cost < best
            best = np.where(better, cost, best)
            issued = 2.0 * tiles * tile_m * tile_n * k
            for slot, value in enumerate((tile_m, tile_n, parts, blocks, cycles, issued, fill, partial)):
                kept[slot] = np.where(better, value, kept[slot])
    tile_m_, tile_n_, parts, blocks, cycles, issued, fill, partial = kept
    return TilePlan(
        tile_m_, tile_n_, parts, blocks, np.ceil(blocks / gpu.sm_count), cycles, issued, fill, partial,
        reread_bytes(batch, m, n, k, in_bytes, input_bytes, gpu),
    )  # fmt: skip


def reread_bytes(
    batch: Floats, m: Floats, n: Floats, k: Floats, in_bytes: Floats, input_bytes: Floats, gpu: Gpu
) -> Floats:
    """Return operand bytes read from memory: each once, more where L2 cannot hold them. Shape (n,). [B]

    The smaller operand stays in L2 while the larger passes; what does not fit is read once more for
    every slab of the larger operand.
    """
    del batch
    small = np.minimum(m, n) * k * in_bytes
    room = 0.6 * gpu.l2_bytes
    over = np.clip(small / room - 1.0, 0.0, None)
    return np.asarray(input_bytes * (1.0 + np.minimum(over, 4.0) * 0.25))
