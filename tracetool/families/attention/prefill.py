"""Prefill attention: query tiles over key tiles, bound by tensor cores and exponentials.

Equation and sources: docs/families/prefill.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.attention.prefill_hosts import (
    ALONE_US,
    ELSEWHERE,
    ENCODER_ELSEWHERE,
    ENCODER_HOST,
    HOST,
    NAME_HABITS,
)
from tracetool.families.attention.prefill_passes import (
    BACKWARD,
    MEMORY_NORM,
    RATE_OF_8,
    RESIDENT_SHARE,
    multiplied_in_8,
    narrow_keys,
    passes_of,
)
from tracetool.families.attention.problem import (
    EXPONENTIALS,
    SMALL_KERNEL_US,
    Scores,
    attention_scores,
    cache_written,
    is_odd,
    least_cycles,
    scores_work,
)
from tracetool.families.attention.tile_sizes import (
    FLASHINFER,
    HEAD_STEP,
    SGLANG_ENCODER,
    SGLANG_TRITON,
    TENSOR_ROWS,
    TENSOR_TILES,
    TRTLLM_WARPS,
    VLLM_TRITON,
    computed_dims,
    padded,
    tile_sizes,
    value_parts,
)
from tracetool.families.attention.tiling import QueryTiles, chosen, in_pairs, seen_tiles, with_skipped
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.formats import product_rate, sustained_share
from tracetool.families.instructions import older_kernels, rate_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.loops import LAUNCH_MHZ, graph_steps_s, launch_pace, loop_more_us
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: Queries one group of four warps holds. [rows] By definition of Hopper's ``wgmma`` instructions, which take
#: 64 rows; a prior for other GPUs.
WARPGROUP_ROWS = 64.0
#: Operations of a score beside its exponential where instructions take pairs of numbers: the maximum, and
#: halves of a difference with its scale, a sum and a conversion. [op] By definition of
#: flashinfer-ai/flashinfer, ``include/flashinfer/attention/blackwell/collective`` (``softmax_step``).
PAIRED_OPS = 2.5
#: Rate of tiles of 16 rows, whose products wait for one another: four warps of each of two blocks, 4096 FLOP
#: in the 33 clk that an ``mma`` instruction is taken to need on any of them. [FLOP/clk/SM] A prior, as are
#: the two blocks.
CHAINED_RATE = 4.0 * 2.0 * 4096.0 / 33.0
#: From the launch to the first product. Free fits give 1750 to 1960: data at one clock do not separate it
#: from ``launch_us``. [clk]
LATENCY_CLK = 1900.0
#: A kernel of its own that writes keys and values to the cache; in 8 bits it waits for their scales too. [us]
WRITE_US, WRITE_KV8_US = ALONE_US, ALONE_US + LATENCY_CLK / LAUNCH_MHZ
#: p-norm of a core's time with its draw from L2: nearly the longer alone. [1] A prior.
L2_NORM = 6.0

#: Of kernels that run the blocks of all heads together: heads below this leave an SM space for more blocks
#: [elements]; blocks of one head that read a key from L2 before it is evicted [1]; share of the memory's
#: peak that keys are read again at [1]. A fit of SGLang's encoder on an L40S, half of its shapes.
TOGETHER_DIM, TOGETHER, AGAIN_EFFICIENCY = 128.0, 2.5, 0.72

_DATA = read_coefficients(__package__, "prefill")


def launches_us(launch: Floats, rows: OperatorColumns, gpu: Gpu, kv8: Bools, loop_us: float) -> Floats:
    """Return the launches of an operator, stated at 1980 MHz, as a row has them. Shape (n,). [us]

    In a trace what packs, plans, writes and combines are kernels of their own; where no row of the cache is
    written, one kernel less runs. What the start of a loop adds to each operator is no GPU's.
    """
    launch = launch * launch_pace(gpu)
    alone = np.minimum(launch, ALONE_US)
    write = np.where(kv8, WRITE_KV8_US, WRITE_US) * launch_pace(gpu)
    unwritten = np.maximum(launch - write, alone)
    waited = np.where(cache_written(rows), launch, unwritten) + loop_us + loop_more_us(rows)
    waited = np.maximum(waited, alone)
    return np.where(of_a_trace(rows), alone, waited)


def _by_dim(dim: Floats, c: Coefficients) -> Floats:
    step = np.where(dim <= 64, c["dim64"], 1.0)
    step = np.where((dim > 128) & (dim <= 192), c["dim192"], step)
    step = np.where(dim > 192, c["dim256"], step)
    return np.asarray(np.where(dim > 256, c["dim512"], step))


def _read_again(s: Scores, fills: Floats, batch_heads: Floats, gpu: Gpu, c: Coefficients) -> Floats:
    """Return bytes of keys and values read from memory beyond once. Shape (n,). [B]

    Where blocks of one head follow one another, its keys stay in L2. Where blocks of all heads do, and only
    then the next queries of each, every wave passes over the keys of all of them.
    """
    if c.get("heads_first", 0.0) <= 0:
        return np.zeros(len(batch_heads))
    slots = gpu.sm_count * np.maximum(TOGETHER_DIM / padded(s.head_dim, c), 1.0)
    keys = s.batch * s.kv_len * s.kv_heads * (s.head_dim + s.value_dim) * s.kv_size
    sharing = slots / batch_heads  # blocks of one head that run at once
    distinct = fills * (s.kv_size / 2.0) / (s.heads / s.kv_heads * np.clip(sharing, 1.0, TOGETHER))
    working = keys * np.minimum(sharing, 1.0)
    lost = 1.0 - 1.0 / (1.0 + (working / (RESIDENT_SHARE * gpu.l2_near_bytes)) ** 4)
    return np.asarray(np.maximum(distinct - keys, 0.0) * lost / AGAIN_EFFICIENCY)


def _rate_of_8(gpu: Gpu) -> Floats:
    """Return the rate of products in FP8. Shape (1,). [FLOP/clk/SM]"""
    return product_rate(np.array(["fp8"], dtype=object), gpu)


def _rate(rows: OperatorColumns, s: Scores, in_8_bits: Bools, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the peak that a kernel's steps are stated relative to. Shape (n,). [FLOP/clk/SM]"""
    if c["by_head"] == VLLM_TRITON:
        return np.minimum(s.rate, CHAINED_RATE)
    if c["kv8_products"] == RATE_OF_8:
        return np.asarray(np.where(in_8_bits, _rate_of_8(gpu), s.rate))
    # FlashInfer's own has no form for tensor memory
    own = c["by_head"] == FLASHINFER and gpu.tensor_memory_bytes_per_sm > 0.0
    older = older_kernels(rows, gpu) | (own or c["by_head"] in {SGLANG_TRITON, SGLANG_ENCODER})
    return np.asarray(s.rate * np.where(older, rate_share(gpu), 1.0))


def _in_turn(c: Coefficients) -> bool:
    """Return whether a block loads, multiplies and waits in turn: SGLang's Triton kernel has one stage."""
    return c["by_head"] == SGLANG_TRITON


def _lone_step(
    s: Scores, gpu: Gpu, c: Coefficients, products: Floats, exponentials: Floats, area: Floats
) -> Floats:
    """Return the time of a tile of queries that is alone on an SM with tensor memory. Shape (n,). [clk]

    One group of warps takes its scores: nothing fills what they do beside exponentials. The product for the
    next scores runs meanwhile, that with the values follows.
    """
    values = s.value_dim / value_parts(s, c)
    scores = products * s.head_dim / (s.head_dim + s.value_dim)
    weighed = products * values / (s.head_dim + s.value_dim)
    softmax = exponentials + PAIRED_OPS * area / gpu.lanes_per_clock_sm
    return np.asarray(combined(scores, softmax, c["mix_norm"]) + weighed)


def _step(s: Scores, gpu: Gpu, c: Coefficients, rate: Floats, queries: Floats, area: Floats) -> Floats:
    """Return the time of a tile of queries for a tile of keys, ``area`` scores. Shape (n,). [clk]"""
    kv8, fp8 = narrow_keys(s, c), s.size <= 1.0
    dim = computed_dims(s, c)
    products = 4.0 * area * dim / (rate * sustained_share(c["tensor_efficiency"], s.left))
    exponentials = EXPONENTIALS * area / gpu.sfu_per_clock_sm
    step = combined(products, exponentials, c["mix_norm"])
    if c["by_head"] == TENSOR_TILES:
        step = np.where(queries > TENSOR_ROWS, step, _lone_step(s, gpu, c, products, exponentials, area))
    step = step * _by_dim(dim, c)
    step = step * np.where(kv8, c["kv8_step"] * (dim / 128.0) ** np.log(c["kv8_dim"]), 1.0)
    step = step * np.where(s.heads > s.kv_heads, c["group_step"], 1.0)
    step = step * np.where(s.head_dim % HEAD_STEP > 0, c["uneven_dim"], 1.0)
    small, large = s.head_dim <= 64, s.head_dim > 192
    of_fp8 = np.where(small, c["fp8_dim64"], np.where(large, c["fp8_dim256"], 1.0))
    step = step * np.where(fp8, of_fp8, 1.0)
    if c["by_head"] in {TRTLLM_WARPS, FLASHINFER, SGLANG_TRITON}:
        # results are rescaled at each step, however few its keys
        step = step + queries * s.value_dim / gpu.lanes_per_clock_sm
    if _in_turn(c):
        step = step + c["wait_clk"]
    return np.asarray(step)


@dataclass(frozen=True)
class _Tiling:
    """Tiles of queries over tiles of keys: arrays of shape (n,)."""

    query_tile: Floats  # [rows]
    key_tile: Floats  # [tokens]
    batch_heads: Floats  # sequences times heads, or groups of heads that share a query tile [1]
    kv8: Bools  # keys alone are computed in 8 bits
    uneven: Bools  # heads that matrix instructions do not divide
    grouped: Bools  # heads that share keys
    step_clk: Floats  # a query tile for one key tile [clk]
    filled: Floats  # share of a query tile's warps that hold queries [1]
    computed: QueryTiles  # key tiles whose scores are computed
    visited: QueryTiles  # those and, as shares of a step, the ones outside of a window


def _tiling(s: Scores, gpu: Gpu, c: Coefficients, rate: Floats) -> _Tiling:
    """Return the tiles of a kernel with such coefficients."""
    group = s.heads / s.kv_heads
    packed = np.ones_like(group)
    if c["pack_heads"] >= 1.0:
        packed = group if c["pack_heads"] >= 2.0 else np.where(s.q_len <= 1.0, group, 1.0)
    query_tile, key_tile = tile_sizes(s, gpu, c)
    # heads that matrix instructions do not divide may run on another, slower kernel
    uneven = s.head_dim % HEAD_STEP > 0
    query_tile = np.where(uneven, np.minimum(query_tile, c.get("uneven_queries", np.inf)), query_tile)
    step_clk = _step(s, gpu, c, rate, query_tile, query_tile * key_tile)
    computed = visited = seen_tiles(s, np.minimum(s.window, s.kv_len), query_tile / packed, key_tile)
    if c["by_head"] == TENSOR_TILES:
        halves = in_pairs(visited, seen_tiles(s, s.kv_len, np.full_like(query_tile, TENSOR_ROWS), key_tile))
        apart = (query_tile > TENSOR_ROWS) & s.causal & (s.window >= s.kv_len)
        computed = visited = chosen(apart, halves, visited)
    if (s.window < s.kv_len).any():
        unwindowed = seen_tiles(s, s.kv_len, query_tile / packed, key_tile)
        visited = with_skipped(computed, unwindowed, c["skip_clk"] / step_clk)
    # warps of 64 queries that have none leave early
    filled = np.minimum(np.ceil(s.q_len * packed / WARPGROUP_ROWS) * WARPGROUP_ROWS / query_tile, 1.0)
    batch_heads = s.batch * s.heads / packed * value_parts(s, c)
    return _Tiling(
        query_tile,
        key_tile,
        batch_heads,
        narrow_keys(s, c),
        uneven,
        group > 1,
        step_clk,
        filled,
        computed,
        visited,
    )


def _tile_clk(s: Scores, tiling: _Tiling, c: Coefficients) -> Floats:
    """Return the start and end of a tile of queries: what it takes beside its steps. Shape (n,). [clk]"""
    in_8_bits = np.where(s.size <= 1.0, c["fp8_tile"], np.where(tiling.kv8, c["kv8_tile"], 1.0))
    tile = c["tile_clk"] * in_8_bits
    tile = tile * np.where(s.window < s.kv_len, c["window_tile"], 1.0)
    tile = tile * np.where(tiling.grouped, 1.0, c["single_tile"])
    tile = tile * np.where(tiling.uneven, c.get("uneven_tile", 1.0), 1.0)
    return np.asarray(tile * (c["spare_share"] + (1.0 - c["spare_share"]) * tiling.filled))


def _compute_clk(s: Scores, tiling: _Tiling, waves: Floats, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the time of all tiles on the SMs, bytes aside. Shape (n,). [clk]"""
    sms, tiles = float(gpu.sm_count), tiling.visited
    tile = _tile_clk(s, tiling, c)
    waiting = 1.0 + np.where(waves > 1.0, c["tail_share"] * (np.ceil(waves) / waves - 1.0), 0.0)
    # where tiles follow one another, others' products hide part of a tile's start and end
    share = c.get("exposed_tile", 1.0)
    exposed = np.where(waves > 1.0, share + (1.0 - share) / waves, 1.0)
    blocks = tiling.batch_heads * tiles.tiles
    total = (blocks * tile * exposed + tiling.batch_heads * tiles.visits * tiling.step_clk) / sms * waiting
    longest = tile + tiles.longest * tiling.step_clk
    return np.where(waves > 1.0, combined(total, longest, c["tail_norm"]), longest)


def _launch_us(rows: OperatorColumns, s: Scores, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the launches of an operator with the conversions it needs. Shape (n,). [us]"""
    launch = c["launch_us"] * np.where(s.q_len <= 1.0, c["one_launch"], 1.0)
    launch = launch + np.where(is_odd(s.head_dim), c["odd_dim_us"], 0.0)
    launch = launch + np.where(
        (s.kv_size <= 1.0) & (s.size > 1.0) & cache_written(rows),
        SMALL_KERNEL_US * (c["kv8_casts"] + c["q_casts"]),
        0.0,
    )
    launch = launch + np.where(s.size <= 1.0, c["fp8_launch_us"], 0.0)
    return launches_us(launch, rows, gpu, s.kv_size <= 1.0, c["loop_us"])


def _prefill_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of the time of n rows, the same at every clock."""
    s, n = attention_scores(rows, gpu), len(rows)
    in_8_bits = multiplied_in_8(s, gpu, c)
    rate = _rate(rows, s, in_8_bits, gpu, c)
    peak = np.maximum(rate, np.where(in_8_bits, _rate_of_8(gpu), 0.0))
    tiling = _tiling(s, gpu, c, rate)
    waves = tiling.batch_heads * tiling.visited.tiles / float(gpu.sm_count)
    drawn = s.head_dim + s.value_dim / value_parts(s, c)  # of each key, by a block [elements]
    fills = tiling.batch_heads * tiling.computed.visits * tiling.key_tile * drawn * 2.0
    filling = fills * s.kv_size / 2.0
    core = combined(
        _compute_clk(s, tiling, waves, gpu, c),
        filling / (gpu.l2_bytes_per_clock * c["l2_efficiency"]),
        1.0 if _in_turn(c) else L2_NORM,
    )
    factor = np.where(s.backward, BACKWARD, 1.0)
    passes = passes_of(rows, s, gpu, c, tiling.kv8)
    again = _read_again(s, fills, tiling.batch_heads, gpu, c)
    return Pieces(
        fixed_s=_launch_us(rows, s, gpu, c) * 1e-6,
        serial_cycles=LATENCY_CLK + passes.serial_clk,
        stream_s=passes.stream_s,
        core_cycles=np.maximum(factor * core, least_cycles(s, peak, gpu)),
        memory_s=factor * (passes.touched * (1.0 - passes.resident) + again) / gpu.dram_bytes_per_s,
        norm=np.full(n, MEMORY_NORM),
        floor_s=np.zeros(n),
        **graph_steps_s(rows, gpu),
        active=np.clip(waves / np.ceil(waves), 0.0, 1.0),
        work=scores_work(s, factor * fills, in_8_bits=in_8_bits),
    )


PREFILL = Law(
    "prefill",
    _prefill_pieces,
    _DATA["prefill"],
    habits=(
        {"query_tile": 128.0, "pack_heads": 0.0, "pass_clk": 140.0},  # TensorRT-LLM
        {"by_head": 1.0, "pack_heads": 2.0, "tile_clk": 4800.0},  # FlashAttention 3
    ),
    library_host=HOST,
    host_tells=frozenset({"cache_passes", "cache_clk", "token_clk", "kv8_pass"}),
    source_tells=frozenset({"kv8_products"}),
    elsewhere=ELSEWHERE,
    by_vendor={"amd": values_of(_DATA["amd"])},
    name_habits=NAME_HABITS,
    by_row=True,
)
#: Attention without a causal mask, as vision and text encoders run it: the same kernels, other host code.
ENCODER = replace(
    PREFILL,
    name="encoder",
    called_as="without a causal mask",
    beside="prefill",
    parent="prefill",
    # no cache is written: keys and values pass as queries do
    lent_as={"cache_passes": "pass_factor", "pass_clk": "", "cache_clk": "", "token_clk": ""},
    library_host=ENCODER_HOST,
    host_tells=frozenset(),
    source_tells=frozenset(),
    elsewhere=ENCODER_ELSEWHERE,
    priors={**_DATA["prefill"], **_DATA["encoder"]},
    habits=(
        {"query_tile": 128.0, "pack_heads": 0.0},  # TensorRT-LLM
        {"by_head": 1.0, "pack_heads": 2.0, "pad_dim": 2.0, "tile_clk": 4800.0},  # FlashAttention 3
        {"query_tile": 64.0, "pack_heads": 0.0, "pad_dim": 1.0, "heads_first": 1.0},  # Triton in SGLang
    ),
)
LAWS = (PREFILL, ENCODER)
