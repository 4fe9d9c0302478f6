"""Decode attention: the KV cache passes through once, in as many parts as fill the GPU.

Equation and sources: docs/families/decode.md.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.attention.decode_grid import ROWS, UNIT_ROWS, DecodeGrid, decode_grid, relative_dim
from tracetool.families.attention.decode_hosts import (
    BY_VERSION,
    ELSEWHERE,
    HABITS,
    HOST,
    LIBRARY_HABITS,
    NAME_HABITS,
)
from tracetool.families.attention.prefill import launches_us
from tracetool.families.attention.problem import (
    EXPONENTIALS,
    SMALL_KERNEL_US,
    SOFTMAX_OPS,
    Scores,
    attention_scores,
    cache_share,
    is_odd,
    least_cycles,
    scores_work,
)
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficients, Law
from tracetool.families.loops import graph_steps_s
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: How sharply drawing from L2 hides behind the steps: exponent of the norm that adds them. [1] A prior.
DRAW_NORM = 6.0
#: How sharply a step's other work hides the conversion of its keys: exponent of the norm that adds them.
#: [1] A prior.
CONVERT_NORM = 3.0
#: Share of L2 a cache may fill before loops over it read memory, and how sharply that sets in; the same of an
#: L2 that all SMs share, and what such a loop finds there. Where L2 has partitions, the next loop's block may
#: run on the far side: how often is the library's (``l2_hit``). [1] A fit of 26 tables of five GPUs.
L2_SHARE, L2_SHARPNESS, ONE_L2_SHARE, ONE_L2_SHARPNESS, ONE_L2_HIT = 0.6, 8.0, 0.95, 8.0, 0.95

#: Sequences up to which FlashAttention 3 plans the splits of each, by definition of
#: Dao-AILab/flash-attention, ``hopper/flash_api.cpp``; and how long a scan takes beyond, which reads one
#: number a sequence in place of two, relative. [1] A fit of two GPUs.
PLANNED_SEQUENCES, UNPLANNED_SCAN = 992.0, 0.6


def _l2_hits(cache: Floats, gpu: Gpu, c: Coefficients) -> tuple[Floats, Floats]:
    """Return the share of a cache that a loop reads from L2, and how far the cache fits. Both (n,). [1]"""
    if gpu.l2_near_bytes < gpu.l2_bytes:
        fits = 1.0 / (1.0 + (cache / (L2_SHARE * gpu.l2_bytes)) ** L2_SHARPNESS)
        return np.asarray(c["l2_hit"] * fits), np.asarray(fits)
    fits = 1.0 / (1.0 + (cache / (ONE_L2_SHARE * gpu.l2_bytes)) ** ONE_L2_SHARPNESS)
    return np.asarray(ONE_L2_HIT * fits), np.asarray(fits)


def _launches(s: Scores, grid: DecodeGrid, c: Coefficients) -> Floats:
    """Return the time of all launches of an operator. Shape (n,). [us]"""
    shared = s.heads > s.kv_heads
    of_kv8 = c["launch_kv8_us"]
    if c["kv8_casts"]:
        of_kv8 = c["launch_us"] + (c["kv8_casts"] * SMALL_KERNEL_US if c["kv8_casts"] > 0 else of_kv8)
    launch = np.where(grid.vector, c["vector_launch_us"], np.where(grid.own8, of_kv8, c["launch_us"]))
    launch = launch * np.where(shared, 1.0, c["single_launch"])
    launch = launch + np.where(shared & (s.batch > 1.0) & (s.kv_heads > 1.0), c["pack_us"], 0.0)
    launch = launch + np.where(grid.vector, 0.0, c["clears"] * SMALL_KERNEL_US)
    return np.asarray(launch + np.where(is_odd(s.head_dim), c["odd_dim_us"], 0.0))


def _scans(batch: Floats, c: Coefficients) -> Floats:
    """Return how long blocks search for their tiles among the sequences of a batch. Shape (n,). [clk]"""
    if c["scan_sequences"] <= 0:
        return np.zeros(len(batch))
    each = c["scan_clk"] * np.where(batch > PLANNED_SEQUENCES, UNPLANNED_SCAN, 1.0)
    return np.asarray(np.ceil(batch / c["scan_sequences"]) * each)


def _starts(grid: DecodeGrid, block: Floats, c: Coefficients) -> Floats:
    """Return the starts and ends of the blocks of all waves, each of ``block`` clocks. Shape (n,). [clk]

    A block that takes tile after tile begins once: for those after the first it loads queries and stores
    results, beside the keys of the next.
    """
    filled = grid.blocks / grid.slots
    begun = grid.waves * (1.0 - c["block_overlap"]) + c["block_overlap"] * np.minimum(grid.waves, filled)
    hidden = np.where(grid.vector, 0.0, c["persistent"]) * np.minimum(c["block_clk"], block)
    return np.asarray(begun * block - np.maximum(begun - 1.0, 0.0) * hidden)


def _filled_tile(s: Scores, key_tile: Floats, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the time of a tile of as many rows, whether queries fill them or not. Shape (n,). [clk]"""
    scores = c["tile_rows"] * key_tile
    products = 2.0 * scores * (s.head_dim + s.value_dim) / s.rate
    return c["resident"] * (
        products + scores * (EXPONENTIALS / gpu.sfu_per_clock_sm + SOFTMAX_OPS / gpu.lanes_per_clock_sm)
    )


def _step_clk(s: Scores, grid: DecodeGrid, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the time of a block for a tile of keys. Shape (n,). [clk]"""
    vector, dim = grid.vector, relative_dim(s)
    step = grid.pick(c, "step_clk", "vector_step_clk")
    step = step + grid.pick(c, "step_dim_clk", "vector_step_dim_clk") * dim
    step = step + np.where(vector, 0.0, _filled_tile(s, grid.key_tile, gpu, c))
    of_format = np.where(grid.kv8 & vector, c["vector_kv8_step"], 1.0)
    of_format = np.where(grid.factors8 & ~vector, c["kv8_step"], of_format)
    step = step * of_format * np.where(grid.windowed, c["window_step"], 1.0)
    # what has no instruction for 8 bits converts each key and value
    converts = grid.kv8 & (vector | ~grid.own8)
    converted = np.where(converts, grid.pick(c, "kv8_convert", "vector_kv8_convert"), 0.0)
    converted = converted * grid.key_tile * (s.head_dim + s.value_dim)
    return combined(step, converted / gpu.conversions_per_clock_sm, CONVERT_NORM)


def _block_clk(s: Scores, grid: DecodeGrid, c: Coefficients) -> Floats:
    """Return the start and end of a block: queries it loads, results it stores. Shape (n,). [clk]"""
    dim, factors8 = relative_dim(s), grid.factors8 & ~grid.vector
    block = grid.pick(c, "block_clk", "vector_block_clk") + c["block_dim_clk"] * dim
    row = grid.pick(c, "row_clk", "vector_row_clk") * np.where(factors8, c["kv8_row"], 1.0)
    block = block * np.where(factors8, c["kv8_block"], 1.0)
    # tensor cores take query rows eight at a time
    in_units = np.ceil(np.minimum(grid.query_rows, ROWS) / UNIT_ROWS) * UNIT_ROWS
    return np.asarray(block + row * np.where(grid.vector, 1.0, in_units) * dim)


def _drawn_clk(drawn_bytes: Floats, grid: DecodeGrid, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the time of all SMs to load keys and values from L2. Shape (n,). [clk]"""
    rate = grid.pick(c, "sm_bytes_clk", "vector_sm_bytes_clk") * float(gpu.sm_count)
    return np.asarray(drawn_bytes * np.where(grid.factors8, c["kv8_bytes"], 1.0) / rate)


def _serial_clk(
    s: Scores, grid: DecodeGrid, starts: Floats, split: Bools, gpu: Gpu, c: Coefficients
) -> Floats:
    """Return the latencies that nothing hides: the first block, and joining parts. Shape (n,). [clk]"""
    partial_bytes = np.where(split, s.batch * s.heads * s.q_len * grid.parts * s.value_dim * 8.0, 0.0)
    joining = grid.pick(c, "combine_clk", "vector_combine_clk") + c["combine_part_clk"] * grid.parts
    serial = c["latency_clk"] + c["block_serial"] * starts
    serial = serial + np.where(split, joining, 0.0)
    return np.asarray(serial + c["combine_factor"] * partial_bytes / gpu.l2_bytes_per_clock)


def _decode_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = attention_scores(rows, gpu)
    grid = decode_grid(s, gpu, c)
    key_bytes = (s.head_dim + s.value_dim) * s.kv_size
    alone = of_a_trace(rows)

    drawn = grid.query_tiles * grid.tiles * grid.key_tile * key_bytes
    loop = combined(
        grid.waves * grid.steps * _step_clk(s, grid, gpu, c), _drawn_clk(drawn, grid, gpu, c), DRAW_NORM
    )
    starts = _starts(grid, _block_clk(s, grid, c), c) + _scans(s.batch, c)
    split = (grid.parts > 1.0) & ~alone

    read = np.minimum(grid.visible_keys + np.where(grid.windowed, grid.key_tile / 2.0, 0.0), s.kv_len)
    cache = s.batch * s.kv_heads * read * key_bytes * cache_share(rows)
    hits, fits = _l2_hits(cache, gpu, c)
    # pages that the sequences of a measuring loop share; those of a server have their own
    from_memory = cache * (1.0 - hits) * (1.0 - np.where(alone, 0.0, c["repeat_hit"]))
    filling_s = (1.0 - fits) * c["fill_us"] * 1e-6
    passing = s.batch * s.heads * s.q_len * (s.head_dim + s.value_dim) * 2.0
    launch = launches_us(_launches(s, grid, c), rows, gpu, grid.kv8, c["loop_us"])
    n = len(rows)
    return Pieces(
        fixed_s=launch * 1e-6,
        serial_cycles=_serial_clk(s, grid, starts, split, gpu, c),
        stream_s=c["pass_factor"] * passing / gpu.dram_bytes_per_s,
        # many query rows, or formats without tensor cores: the products themselves
        core_cycles=np.maximum(loop + (1.0 - c["block_serial"]) * starts, least_cycles(s, s.rate, gpu)),
        memory_s=from_memory / (gpu.dram_bytes_per_s * c["dram_efficiency"]) + filling_s,
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        **graph_steps_s(rows, gpu),
        active=np.clip(grid.blocks / (np.ceil(grid.blocks / gpu.sm_count) * gpu.sm_count), 0.0, 1.0),
        work=scores_work(s, drawn, read=from_memory + passing, in_8_bits=grid.in_8_bits, vector=grid.vector),
    )


DECODE = Law(
    "decode",
    _decode_pieces,
    read_coefficients(__package__, "decode")["decode"],
    habits=HABITS,
    library_host=HOST,
    elsewhere=ELSEWHERE,
    library_habits=LIBRARY_HABITS,
    name_habits=NAME_HABITS,
    by_version=BY_VERSION,
    source_tells=frozenset({"kv8_products"}),
    by_row=True,
)
LAWS = (DECODE,)
