"""Tiles of the grouped products, and which of them a library takes: by measurement, or by its source's table.

Sources: docs/families/moe.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import tomli

from tracetool.core.arrays import Bools, Floats
from tracetool.families.moe.problem import Experts
from tracetool.hardware.gpu import Gpu


@dataclass(frozen=True)
class Tile:
    """Tile of a block, and the depth of each of its steps."""

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
FASTEST, BY_EXPERTS, UNTIMED, BY_TOKENS, BLOCK, BLOCK_BY_TOKENS, BY_PAIRS, EXPERTS_BEFORE = range(8)
#: The same of kernels made for tensor memory: the first, or the middle, of the tiles about the pairs of an
#: expert. [1] By definition, as above.
FIRST_MADE, MIDDLE_MADE = 8, 9
#: The first of a list, of kernels made for instructions of warps. [1] By definition, as above.
FIRST_OF_WARPS = 10
#: The first of a list, of kernels of CUTLASS made for tensor memory. [1] By definition, as above.
FIRST_OF_MEMORY = 11
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
#: The same where matrix instructions are of warps: of 16 bits and FP8 the kernels made for Ampere and Ada, of
#: 4 bits those that TMA fills. [elements] By NVIDIA/TensorRT-LLM, ``get_candidate_tiles`` and
#: ``get_candidate_configs_sm120``, and in FlashInfer, too (csrc/nv_internal/tensorrt_llm/kernels/
#: cutlass_kernels/cutlass_heuristic.cpp).
FIRST_WARPS, FIRST_WARPS_4 = Tile(32.0, 128.0), Tile(128.0, 128.0, 256.0)
#: The same with tensor memory, of 16, 8 and 4 bits: a depth of 128 bytes. [elements] By definition of
#: ``get_candidate_configs_sm100_dynamic_cluster_shape`` there.
FIRST_MEMORY = (Tile(128.0, 128.0), Tile(128.0, 128.0, 128.0), Tile(128.0, 64.0, 256.0))
#: Lanes of tensor memory, one for each row of an instruction, and the share of its rate that one of 64 rows
#: takes: half of the lanes. [rows], [1] By definition of NVIDIA's PTX ISA (``tcgen05.mma``, 64 or 128 rows).
MEMORY_LANES, HALF_LANES = 128.0, 0.5
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
#: Tokens of a tile of FlashInfer's generated kernels at least and at most; at most with weights of 4 bits
#: beside activations of fewer than 16, and beside those of 16. [tokens] By flashinfer-ai/flashinfer,
#: ``csrc/trtllm_fused_moe_kernel_launcher.cu`` (``getSupportedTileNums``), by definition of it.
LEAST_MADE, MOST_MADE, MOST_MADE_4, MOST_MADE_16 = 8.0, 128.0, 256.0, 64.0
#: Their columns, and depth of a step. [elements] A prior.
MADE_COLUMNS, MADE_DEPTH = 128.0, 128.0
#: Bytes of a weight up to which it counts as one of 4 bits. [B] By definition of 4 bits with their scales.
BYTES_OF_4_BITS = 0.6
#: Tiles of Triton's kernels that tuning files choose among. [elements] A prior.
TUNED = (
    Tile(16.0, 64.0, 128.0, 4.0),
    Tile(16.0, 128.0, 128.0, 4.0),
    Tile(32.0, 128.0, 64.0, 4.0),
    Tile(64.0, 128.0, 64.0, 4.0),
    Tile(128.0, 128.0, 64.0, 8.0),
    Tile(128.0, 256.0, 64.0, 8.0),
)
#: Bytes of a weight of 16 bits. [B] By definition.
BYTES_OF_16_BITS = 2.0
#: More than the intermediate size of any expert. [elements] A prior.
_MOST_INNER = 1e6
#: Ways to choose that look for files of a library first.
_WAYS = {"vllm": (BY_TOKENS, EXPERTS_BEFORE), "sglang": (BY_EXPERTS,)}
_TABLES = {
    BY_EXPERTS: EXPERTS_TABLE,
    EXPERTS_BEFORE: EXPERTS_TABLE,
    BY_TOKENS: TOKENS_TABLE,
    BLOCK: BLOCK_TABLE,
    BLOCK_BY_TOKENS: BLOCK_TOKENS_TABLE,
    BY_PAIRS: PAIRS_TABLE,
}


def resident(tile: Tile, gpu: Gpu, size: Floats) -> Floats:
    """Return how many blocks of :data:`STAGES` steps an SM holds at most. Shape (n,)."""
    if tile.alone:
        return np.ones(len(size))
    blocks = gpu.shared_bytes_per_sm / (STAGES * (tile.tokens + tile.columns) * tile.depth * size)
    threads = THREADS_PER_WARP * tile.warps
    if tile.warps:
        blocks = np.minimum(
            blocks, gpu.registers_per_sm / (tile.tokens * tile.columns + OTHER_REGISTERS * threads)
        )
    return np.maximum(blocks, 1.0)


@dataclass(frozen=True)
class Offer:
    """A tile, which rows may take it, and whether they take the fastest of those they may."""

    tile: Tile
    rows: Bools | None = None
    timed: bool = True


def lanes_share(tile: Tile, gpu: Gpu) -> float:
    """Return the share of the matrix rate that a tile's rows leave it. [1]

    Triton's are rows of the instruction as they are; others turn tiles of few tokens, which are columns then.
    """
    few = tile.warps > 0 and tile.tokens < MEMORY_LANES and gpu.tensor_memory_bytes_per_sm > 0
    return HALF_LANES if few else 1.0


def offered(table: float, e: Experts, gpu: Gpu) -> list[Offer]:
    """Return the tiles of one way to choose: a table, but for sizes whose tiles the library has measured."""
    if table == FASTEST:
        return [Offer(tile) for tile in TILES]
    if table == UNTIMED:
        return [Offer(FIRST)]
    if table == FIRST_OF_WARPS:
        few = e.size <= BYTES_OF_4_BITS
        return [Offer(FIRST_WARPS, ~few, timed=False), Offer(FIRST_WARPS_4, few, timed=False)]
    if table == FIRST_OF_MEMORY:
        wide, few = e.size >= BYTES_OF_16_BITS, e.size <= BYTES_OF_4_BITS
        return [
            Offer(tile, rows, timed=False)
            for tile, rows in zip(FIRST_MEMORY, (wide, ~wide & ~few, few), strict=True)
        ]
    if table in {FIRST_MADE, MIDDLE_MADE}:
        return _generated_tiles(table, e)
    rows_of, timed = _count(table, e), _tuned(table, e, gpu)
    offers = [Offer(tile, timed) for tile in TUNED] if timed.any() else []
    below = np.full(len(e.tokens), -np.inf)
    for most, tile in _TABLES[int(table)]:
        chosen = (rows_of > below) & (rows_of <= most) & ~timed
        if chosen.any():
            offers.append(Offer(tile, chosen, timed=False))
        below = np.full(len(e.tokens), most)
    return offers


def _generated_tiles(table: float, e: Experts) -> list[Offer]:
    """Return the tiles of generated kernels: the pairs of an expert, to a power of two, or half as many.

    Candidates are the one before to two after; a library that times none takes the first
    (``selectDefaultTileN``), one that does is taken to use the middle.
    """
    few = e.size <= BYTES_OF_4_BITS
    most = np.where(few, np.where(e.passing_size < BYTES_OF_16_BITS, MOST_MADE_4, MOST_MADE_16), MOST_MADE)
    middle = np.exp2(np.ceil(np.log2(np.maximum(_count(BY_PAIRS, e), 1.0))))
    tokens = np.clip(middle, LEAST_MADE, most)
    tokens = np.maximum(tokens / 2.0, LEAST_MADE) if table == FIRST_MADE else tokens
    return [
        Offer(Tile(float(size), MADE_COLUMNS, MADE_DEPTH), tokens == size, timed=False)
        for size in np.unique(tokens)
    ]


def launched_tiles(e: Experts, tile: Tile) -> Floats:
    """Return the tiles of tokens that generated kernels launch blocks for. Shape (n,). [1]

    As many as the most uneven choice would fill, of all pairs on the experts of this GPU: one of each expert,
    then one of every as many pairs as a tile has tokens (flashinfer-ai/flashinfer, include/flashinfer/trtllm/
    fused_moe/runner.h, ``getMaxNumCtasInBatchDim``).
    """
    pairs = e.tokens * e.top_k
    filled = np.minimum(e.local, pairs)
    return np.asarray(filled + np.floor((pairs - filled) / tile.tokens))


def _tuned(table: float, e: Experts, gpu: Gpu) -> Bools:
    """Return the rows for which the table's library has tiles measured on a GPU. Shape (n,)."""
    sizes = _tuned_sizes().get((table, gpu.name), np.zeros(0))
    if not sizes.size:
        return np.zeros(len(e.tokens), dtype=np.bool_)
    is_tuned = np.isin(e.local * _MOST_INNER + e.inner, sizes)
    return np.asarray(is_tuned & (e.size == BYTES_OF_16_BITS))


@cache
def _tuned_sizes() -> Mapping[tuple[float, str], Floats]:
    """Return the sizes by way and GPU, each one number of the experts and the intermediate size."""
    text = resources.files(__package__).joinpath("tuned.toml").read_text("utf-8")
    sizes_of: dict[tuple[float, str], Floats] = {}
    for library, by_gpu in tomli.loads(text).items():
        for gpu, sizes in by_gpu.items():
            experts, inner = np.array([size.split("x") for size in sizes], dtype=np.float64).T
            sizes_of |= {(table, gpu): experts * _MOST_INNER + inner for table in _WAYS[library]}
    return sizes_of


def _count(table: float, e: Experts) -> Floats:
    """Return the count by which a library's table of tiles chooses. Shape (n,)."""
    if table in {BY_EXPERTS, EXPERTS_BEFORE}:
        return e.tokens / e.local
    return e.tokens * e.top_k / e.local if table == BY_PAIRS else e.tokens
