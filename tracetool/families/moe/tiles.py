"""Tiles of the grouped products, and which of them a library takes: by measurement, or by its source's table.

Sources: docs/families/moe.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.families.moe.problem import Experts
from tracetool.hardware.gpu import Gpu


@dataclass(frozen=True)
class Tile:
    """What a block computes, and how deep each of its steps is."""

    tokens: float
    columns: float
    depth: float = 64.0
    warps: float = 0.0  # 0: of a kernel that keeps one block on an SM, with as many steps as that holds
    alone: bool = False  # whether a block keeps few steps, and an SM one block


#: Threads of a warp. [1] By definition of CUDA.
THREADS_PER_WARP = 32.0
#: Registers of a thread beside those of the sums. [1] A prior.
OTHER_REGISTERS = 64.0
#: Steps whose inputs a block of Triton's kernels keeps in shared memory. [1] By definition of triton: its
#: default.
STAGES = 3.0
#: Ways to choose a tile. [1] By definition: their numbers in ``tile_table``.
FASTEST, BY_EXPERTS, UNTIMED, BY_TOKENS, BLOCK, BLOCK_BY_TOKENS, BY_PAIRS = range(7)
#: Tiles of which the library picks the fastest. [elements] A prior.
TILES = (
    Tile(16.0, 64.0),
    Tile(16.0, 128.0),
    Tile(32.0, 128.0),
    Tile(64.0, 64.0),
    Tile(64.0, 128.0),
    Tile(128.0, 128.0),
    Tile(128.0, 256.0),
)
#: Tile of CUTLASS experts on Hopper that nobody timed: the first of the list. [elements] By
#: NVIDIA/TensorRT-LLM, ``get_candidate_tiles_sm90`` and, in FlashInfer too, ``mAllProfiles.front()``.
FIRST = Tile(128.0, 16.0)
#: Tiles of Triton's kernels without a measured table, up to a number of tokens for each expert of the GPU.
#: [tokens; elements] By ``get_default_config`` of sglang, and of vllm before version 0.16.
EXPERTS_TABLE = ((1.0, Tile(16.0, 32.0, 64.0, 4.0)), (np.inf, Tile(64.0, 64.0, 32.0, 4.0)))
#: The same of vllm since (vllm-project/vllm, pull request 34846), up to a number of tokens.
#: [tokens; elements]
TOKENS_TABLE = (
    (32.0, Tile(16.0, 64.0, 128.0, 4.0)),
    (64.0, Tile(32.0, 64.0, 128.0, 4.0)),
    (96.0, Tile(32.0, 128.0, 64.0, 4.0)),
    (512.0, Tile(64.0, 128.0, 64.0, 8.0)),
    (np.inf, Tile(128.0, 128.0, 64.0, 8.0)),
)
#: The same where each block of 128 by 128 weights has a scale: of sglang, and of vllm since that version.
#: [tokens; elements]
BLOCK_TABLE = ((np.inf, Tile(64.0, 128.0, 128.0, 4.0)),)
BLOCK_TOKENS_TABLE = ((64.0, Tile(16.0, 128.0, 128.0, 4.0)), (np.inf, Tile(64.0, 128.0, 128.0, 4.0)))
#: Tiles of Marlin's kernels up to a number of pairs for each expert of the GPU. [pairs; elements] By
#: ``fused_marlin_moe`` of vllm and sglang: the first tile that is not filled to 0.9.
PAIRS_TABLE = (
    (0.9 * 8.0, Tile(8.0, 128.0, 128.0, alone=True)),
    (0.9 * 16.0, Tile(16.0, 128.0, 128.0, alone=True)),
    (0.9 * 32.0, Tile(32.0, 256.0, 64.0, alone=True)),
    (0.9 * 48.0, Tile(48.0, 256.0, 64.0, alone=True)),
    (np.inf, Tile(64.0, 256.0, 64.0, alone=True)),
)
_TABLES = {
    BY_EXPERTS: EXPERTS_TABLE,
    BY_TOKENS: TOKENS_TABLE,
    BLOCK: BLOCK_TABLE,
    BLOCK_BY_TOKENS: BLOCK_TOKENS_TABLE,
    BY_PAIRS: PAIRS_TABLE,
}


def resident(tile: Tile, gpu: Gpu, size: Floats) -> Floats:
    """Return how many blocks of :data:`STAGES` steps an SM holds at most. Shape (n,)."""
    if tile.alone:
        return np.ones(len(size))
    held = gpu.shared_bytes_per_sm / (STAGES * (tile.tokens + tile.columns) * tile.depth * size)
    threads = THREADS_PER_WARP * tile.warps
    if tile.warps:
        held = np.minimum(
            held, gpu.registers_per_sm / (tile.tokens * tile.columns + OTHER_REGISTERS * threads)
        )
    return np.maximum(held, 1.0)


def offered(way: float, e: Experts) -> list[tuple[Tile, Bools | None]]:
    """Return the tiles of one way to choose, and which rows take each: None where the fastest is taken."""
    if way == FASTEST:
        return [(tile, None) for tile in TILES]
    if way == UNTIMED:
        return [(FIRST, None)]
    rows_of = _count(way, e)
    found: list[tuple[Tile, Bools | None]] = []
    below = np.full(len(e.tokens), -np.inf)
    for most, tile in _TABLES[int(way)]:
        chosen = (rows_of > below) & (rows_of <= most)
        if chosen.any():
            found.append((tile, chosen))
        below = np.full(len(e.tokens), most)
    return found


def _count(way: float, e: Experts) -> Floats:
    """Return what a library's table of tiles goes by."""
    if way == BY_EXPERTS:
        return e.tokens / e.local
    return e.tokens * e.top_k / e.local if way == BY_PAIRS else e.tokens
