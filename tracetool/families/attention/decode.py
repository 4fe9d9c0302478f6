"""Decode attention: the KV cache passes through once, in as many parts as fill the GPU.

Equation and sources: docs/families/decode.md.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.attention.decode_hosts import (
    ELSEWHERE,
    HABITS,
    HOST,
    LIBRARY_HABITS,
    NAME_HABITS,
    SEGMENTS,
    XQA,
)
from tracetool.families.attention.prefill import launches_us
from tracetool.families.attention.problem import (
    EXPONENTIALS,
    KV8_CAST_US,
    SOFTMAX_OPS,
    Scores,
    attention_scores,
    cache_share,
    is_odd,
    least_cycles,
    scores_work,
)
from tracetool.families.attention.tile_sizes import capability, split_keys_of_tile
from tracetool.families.attention.tiling import (
    efficient_split,
    even_split,
    growing_split,
    rooted_split,
    split_keys,
)
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficients, Law
from tracetool.families.loops import graph_steps_s
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: Query rows a tile of tensor cores holds, and takes at once. [rows] Both a prior.
ROWS, UNIT_ROWS = 64.0, 8.0
#: Keys a step of the kernel without tensor cores takes, a prior; and keys its host code splits by, the parts
#: of NVIDIA/TensorRT-LLM's XQA (docs/families/decode.md). [tokens]
VECTOR_KEYS, DISPATCH_KEYS = 32.0, 128.0
#: The choice of ``split_fill`` that is FlashAttention 3's [1], and key tiles up to which that does not split
#: [tiles]. By definition of Dao-AILab/flash-attention, ``hopper/heuristics.h``; tiles by ``tile_size.h``.
EVEN, FEW_TILES = 2, 4.0
#: Lanes up to which vLLM's Triton kernels split keys, and into how many parts. [1] By definition of it:
#: ``decode_hosts.py``.
MOST_SPLIT, SPLIT_PARTS = 128.0, 16.0
#: The compute capabilities whose XQA splits keys in 8 bits, the first of which has such a kernel of its own.
#: [1] By definition of NVIDIA/TensorRT-LLM, ``attentionOp.cpp`` and ``decoderXQAImplPrecompiled.cpp``.
XQA_SPLIT_8 = (9, 12)
#: How sharply a step's other work hides the conversion of its keys: exponent of the norm in which they meet.
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
    """Return what a loop over a cache reads from L2, and how far the cache fits in it. Both (n,). [1]"""
    if gpu.l2_near_bytes < gpu.l2_bytes:
        fits = 1.0 / (1.0 + (cache / (L2_SHARE * gpu.l2_bytes)) ** L2_SHARPNESS)
        return np.asarray(c["l2_hit"] * fits), np.asarray(fits)
    fits = 1.0 / (1.0 + (cache / (ONE_L2_SHARE * gpu.l2_bytes)) ** ONE_L2_SHARPNESS)
    return np.asarray(ONE_L2_HIT * fits), np.asarray(fits)


def _without_units(
    group: Floats, kv8: Bools, lanes: Floats, keys: Floats, gpu: Gpu, c: Coefficients
) -> Bools:
    """Return the rows that run without tensor cores.

    A library that has such a kernel uses it for heads that share no keys, for groups too large for
    its tiles, and, in 16 bits, while parts of 128 keys would fill less than a quarter of the SMs.
    """
    if c["vector_heads"] == 0:
        return np.zeros(len(group), dtype=np.bool_)
    if c["vector_heads"] < 0:  # the negative of the heads, where those that share none have tensor cores
        return np.asarray(group >= -c["vector_heads"])
    few = lanes * np.maximum(1.0, np.floor(keys / DISPATCH_KEYS)) * 4.0 < gpu.sm_count
    return np.asarray((group <= 1.0) | (group >= c["vector_heads"]) | (~kv8 & few & (c["dispatch"] > 0)))


def _own_kernel(kv8: Bools, dim: Floats, gpu: Gpu, c: Coefficients) -> Bools:
    """Return the rows of 8 bits with a kernel of their own: others take the one for 16 bits. Shape (n,)."""
    if c["split_fill"] == XQA and capability(gpu) != XQA_SPLIT_8[0]:
        return np.zeros(len(kv8), dtype=np.bool_)
    return np.asarray(kv8 & (dim * 128.0 >= c["kv8_least_dim"]))


def _launches(s: Scores, vector: Bools, own8: Bools, c: Coefficients) -> Floats:
    """Return the time of all launches of an operator. Shape (n,). [us]"""
    shared = s.heads > s.kv_heads
    of_kv8 = c["launch_kv8_us"]
    if c["kv8_casts"]:
        of_kv8 = c["launch_us"] + (c["kv8_casts"] * KV8_CAST_US if c["kv8_casts"] > 0 else of_kv8)
    launch = np.where(vector, c["vector_launch_us"], np.where(own8, of_kv8, c["launch_us"]))
    launch = launch * np.where(shared, 1.0, c["single_launch"])
    launch = launch + np.where(shared & (s.batch > 1.0) & (s.kv_heads > 1.0), c["pack_us"], 0.0)
    return np.asarray(launch + np.where(is_odd(s.head_dim), c["odd_dim_us"], 0.0))


def _scans(batch: Floats, c: Coefficients) -> Floats:
    """Return how long blocks look for their tiles among the sequences of a batch. Shape (n,). [clk]"""
    if c["scan_sequences"] <= 0:
        return np.zeros(len(batch))
    each = c["scan_clk"] * np.where(batch > PLANNED_SEQUENCES, UNPLANNED_SCAN, 1.0)
    return np.asarray(np.ceil(batch / c["scan_sequences"]) * each)


def _split(
    lanes: Floats,
    of_one: Floats,
    slots: Floats,
    keys: Floats,
    tile: Floats,
    least: Floats,
    vector: Bools,
    c: Coefficients,
) -> Floats:
    """Return into how many parts a library splits the keys of each lane. Shape (n,).

    ``of_one`` are the lanes of one sequence, ``tile`` the keys of a step, ``least`` those of a part, and
    ``vector`` the rows without tensor cores.
    """
    if c["split_fill"] == XQA:
        rooted = rooted_split(lanes, slots / c["resident"], keys, lanes / of_one)
        return np.where(vector, split_keys(lanes, slots * c["split_waves"], keys, least), rooted)
    if c["split_fill"] == SEGMENTS:
        return np.where(lanes <= MOST_SPLIT, SPLIT_PARTS, 1.0)
    if c["split_fill"] > EVEN:
        return growing_split(lanes, slots / c["resident"], keys)
    if c["split_fill"] == EVEN:
        tiles = np.ceil(keys / tile)
        parts = np.minimum(even_split(lanes, slots, tiles), efficient_split(of_one, slots, tiles))
        return np.where(tiles <= FEW_TILES, 1.0, parts)
    if c["split_fill"] > 0:
        return efficient_split(lanes, slots * c["split_waves"], np.ceil(keys / least))
    return split_keys(lanes, slots * c["split_waves"], keys, least)


def _starts(waves: Floats, filled: Floats, block: Floats, vector: Bools, c: Coefficients) -> Floats:
    """Return the starts and ends of the blocks of all waves, of which ``filled`` are full. Shape (n,). [clk]

    A block that takes tile after tile begins once: for those after the first it loads queries and stores
    results, beside the keys of the next.
    """
    begun = waves * (1.0 - c["block_overlap"]) + c["block_overlap"] * np.minimum(waves, filled)
    hidden = np.where(vector, 0.0, c["persistent"]) * np.minimum(c["block_clk"], block)
    return np.asarray(begun * block - np.maximum(begun - 1.0, 0.0) * hidden)


def _key_tile(s: Scores, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the keys of a tile of tensor cores, as a library sizes them. Shape (n,). [tokens]"""
    if 0 < c["tile_rows"] <= ROWS:
        return split_keys_of_tile(s, gpu, c["tile_rows"])
    if c["split_fill"] == EVEN:
        return np.where(s.head_dim > 192, 80.0, np.where(s.head_dim > 128, 96.0, 128.0))
    return np.full(len(s.batch), c["key_tile"])


def _filled_tile(s: Scores, key_tile: Floats, gpu: Gpu, c: Coefficients) -> Floats:
    """Return what a tile of as many rows takes, whether queries fill them or not. Shape (n,). [clk]"""
    scores = c["tile_rows"] * key_tile
    products = 2.0 * scores * (s.head_dim + s.value_dim) / s.rate
    return c["resident"] * (
        products + scores * (EXPONENTIALS / gpu.sfu_per_clock_sm + SOFTMAX_OPS / gpu.lanes_per_clock_sm)
    )


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = attention_scores(rows, gpu)
    sms = float(gpu.sm_count)
    group, dim, kv8 = s.heads / s.kv_heads, (s.head_dim + s.value_dim) / 256.0, s.kv_size <= 1.0
    own8 = _own_kernel(kv8, dim, gpu, c)
    factors8 = own8 if c["split_fill"] == XQA else kv8  # they are of XQA's own kernel alone
    seen = np.minimum(s.kv_len, s.window)
    windowed = seen < s.kv_len
    vector = _without_units(group, kv8, s.batch * s.kv_heads, seen, gpu, c)
    seen = seen + np.where(vector | kv8, 0.0, c["outside"]) * (s.kv_len - seen)

    def pick(units: str, without: str) -> Floats:
        return np.where(vector, c[without], c[units])

    key_tile = np.where(vector, VECTOR_KEYS, _key_tile(s, gpu, c))
    # a library that packs the heads of a group by a copy may not do so where a window is set
    apart = vector | (np.isfinite(s.window) & (c["pack_windowed"] < 1.0))
    query_rows = np.where(apart, 1.0, group) * s.q_len
    lanes = s.batch * np.where(apart, s.heads, s.kv_heads) * np.ceil(query_rows / ROWS)
    all_tiles = np.ceil(s.kv_len / key_tile)
    tiles = np.minimum(all_tiles, np.ceil(seen / key_tile) + windowed)
    least = np.maximum(pick("least_keys", "vector_least_keys"), key_tile)
    slots = sms * np.where(vector, 1.0, c["resident"])
    inside = kv8 if c["split_seen"] > 1 else np.full(len(rows), c["split_seen"] > 0)
    split_over = np.where(inside, seen, s.kv_len)
    parts = _split(lanes, lanes / s.batch, slots, split_over, key_tile, least, vector, c)
    # segments are launched whether there are tiles for them or not
    parts = np.minimum(parts, all_tiles if c["split_fill"] != SEGMENTS else np.inf)
    parts = np.minimum(parts, c["most_parts"])
    if c["split_fill"] == XQA and not XQA_SPLIT_8[0] <= capability(gpu) < XQA_SPLIT_8[1]:
        parts = np.where(kv8 & ~vector, 1.0, parts)
    if c["split_single"] <= 0:
        parts = np.where((group <= 1.0) | (apart & ~vector), 1.0, parts)
    steps = np.maximum(1.0, np.ceil(tiles / parts))
    blocks = lanes * parts
    waves = np.ceil(blocks / slots)

    step = pick("step_clk", "vector_step_clk") + pick("step_dim_clk", "vector_step_dim_clk") * dim
    step = step + np.where(vector, 0.0, _filled_tile(s, key_tile, gpu, c))
    step = (
        step
        * np.where(factors8 & ~vector, c["kv8_step"], np.where(kv8 & vector, c["vector_kv8_step"], 1.0))
        * np.where(windowed, c["window_step"], 1.0)
    )
    # what has no instruction for 8 bits converts each key and value
    converted = np.where(kv8 & (vector | ~own8), pick("kv8_convert", "vector_kv8_convert"), 0.0)
    converted = converted * key_tile * (s.head_dim + s.value_dim)
    step = combined(step, converted / gpu.conversions_per_clock_sm, CONVERT_NORM)
    block = pick("block_clk", "vector_block_clk") + c["block_dim_clk"] * dim
    row = pick("row_clk", "vector_row_clk") * np.where(factors8 & ~vector, c["kv8_row"], 1.0)
    block = block * np.where(factors8 & ~vector, c["kv8_block"], 1.0)
    # tensor cores take query rows eight at a time
    held = np.where(vector, 1.0, np.ceil(np.minimum(query_rows, ROWS) / UNIT_ROWS) * UNIT_ROWS)
    block = block + row * held * dim
    drawn = lanes * tiles * key_tile * (s.head_dim + s.value_dim) * s.kv_size
    drawing = (
        drawn * np.where(factors8, c["kv8_bytes"], 1.0) / (pick("sm_bytes_clk", "vector_sm_bytes_clk") * sms)
    )
    loop = combined(waves * steps * step, drawing, 6.0)
    starts = _starts(waves, blocks / slots, block, vector, c)
    alone = of_a_trace(rows)
    split = (parts > 1.0) & ~alone
    partial = np.where(split, s.batch * s.heads * s.q_len * parts * s.value_dim * 8.0, 0.0)
    starts = starts + _scans(s.batch, c)
    serial = c["latency_clk"] + c["block_serial"] * starts
    serial = serial + np.where(
        split, pick("combine_clk", "vector_combine_clk") + c["combine_part_clk"] * parts, 0.0
    )
    serial = serial + c["combine_factor"] * partial / gpu.l2_bytes_per_clock

    read = np.minimum(seen + np.where(windowed, key_tile / 2.0, 0.0), s.kv_len)
    cache = s.batch * s.kv_heads * read * (s.head_dim + s.value_dim) * s.kv_size * cache_share(rows)
    hits, fits = _l2_hits(cache, gpu, c)
    # pages that the sequences of a measuring loop share; those of a server have their own
    from_memory = cache * (1.0 - hits) * (1.0 - np.where(alone, 0.0, c["repeat_hit"]))
    filling = (1.0 - fits) * c["fill_us"] * 1e-6
    passing = s.batch * s.heads * s.q_len * (s.head_dim + s.value_dim) * 2.0
    launch = launches_us(_launches(s, vector, own8, c), rows, gpu, kv8, c["loop_us"])
    n = len(rows)
    return Pieces(
        fixed_s=launch * 1e-6,
        serial_cycles=serial,
        stream_s=c["pass_factor"] * passing / gpu.dram_bytes_per_s,
        # many query rows, or formats without tensor cores: the products themselves
        core_cycles=np.maximum(loop + (1.0 - c["block_serial"]) * starts, least_cycles(s, s.rate, gpu)),
        memory_s=from_memory / (gpu.dram_bytes_per_s * c["dram_efficiency"]) + filling,
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        **graph_steps_s(rows, gpu),
        active=np.clip(blocks / (np.ceil(blocks / sms) * sms), 0.0, 1.0),
        work=scores_work(s, drawn, read=from_memory + passing),
    )


DECODE = Law(
    "decode",
    _parts,
    read_coefficients(__package__, "decode")["decode"],
    habits=HABITS,
    library_host=HOST,
    elsewhere=ELSEWHERE,
    library_habits=LIBRARY_HABITS,
    name_habits=NAME_HABITS,
    by_row=True,
)
LAWS = (DECODE,)
