"""Latent attention of one query a sequence: all heads read one cache, in as many parts as fill the GPU.

Equations and sources: docs/families/mla.md; counts are those of ``latent.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.latent import (
    Latents,
    latent_work,
    latents,
    multiplied_in_8,
    projections,
)
from tracetool.families.attention.latent_hosts import DECODE_ELSEWHERE, DECODE_HOST
from tracetool.families.attention.tiling import split_keys
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import sustained_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.loops import graph_steps_s, launch_pace
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: Keys of a step. [tokens] By definition of deepseek-ai/FlashMLA, whose page holds 64.
KEY_TILE = 64.0
#: From the launch to the first product. [clk] A prior: data at one clock do not separate it from the launch.
LATENCY_CLK = 2300.0
#: p-norms: products with drawing, cores with memory. [1] Both a prior, as of other attention.
DRAW_NORM, MEMORY_NORM = 6.0, 4.0
#: Blackwell's generated kernels: heads of a tile where keys are rows, at least and else, and where heads are;
#: keys of a step, and of a part up to which many heads take the first kind. [heads], [tokens] By definition
#: of flashinfer-ai/flashinfer, include/flashinfer/trtllm/fmha/fmhaKernels.cuh (``selectMlaGenerationKernel``,
#: ``useSwapsMmaAbMlaGenKernel``, ``computeCtaAndClusterConfig``).
LEAST_HEADS, TURNED_HEADS, KEPT_HEADS, STEP_KEYS, TURNED_KEYS = 8.0, 16.0, 64.0, 256.0, 1024.0
#: Bytes of a number of a part's result. [B] By definition of FP32.
PART_BYTES = 4.0
#: SMs of a cluster that meets the keys of a sequence together, each with a quarter of the products. [1] By
#: definition of NVIDIA/TensorRT-LLM, cpp/kernels/xqa/mla_sm120.cu (``nbProducerCtasPerCga``, ``nbVSplit``).
CLUSTER = 4.0
#: p-norm: products with reads of shared memory. [1] A prior: with products at 0.9 of their peak the steps of
#: A100 and L40S together give 2.8.
SHARED_NORM = 3.0


@dataclass(frozen=True)
class _Tiles:
    """Tiles of a block, all of shape (n,)."""

    heads: Floats  # of a tile
    keys: float  # of a step, whole whatever is left of a part
    least: Floats  # keys of a part
    turned: Bools  # keys lie where matrix instructions take rows, few heads where they take columns
    together: Bools  # two SMs multiply one tile, with half of the keys each
    cluster: Bools  # four SMs take all heads of a sequence


def _tiles(s: Latents, gpu: Gpu, c: Coefficients) -> _Tiles:
    """Return the tiles of a block: of one size, or as Blackwell's generated kernels are chosen."""
    n, heads = len(s.batch), s.heads * s.q_len
    none = np.zeros(n, dtype=np.bool_)
    if c["head_tile"] > 0:
        cluster = in_cluster(s, c)
        tile = np.where(cluster, c["cluster_heads"] / CLUSTER, c["head_tile"])
        return _Tiles(tile, KEY_TILE, np.full(n, c["least_keys"]), none, none, cluster)
    few = s.batch * np.ceil(heads / TURNED_HEADS)
    kv_splits = np.minimum(np.ceil(s.kv_len / STEP_KEYS), np.maximum(np.floor(gpu.sm_count / few), 1.0))
    short = (s.kv_len / kv_splits <= TURNED_KEYS) & (few <= gpu.sm_count)
    turned = (heads <= 2.0 * TURNED_HEADS) | short
    tile = np.where(turned, np.where(heads <= LEAST_HEADS, LEAST_HEADS, TURNED_HEADS), KEPT_HEADS)
    together = ~turned & (heads >= 2.0 * KEPT_HEADS)
    return _Tiles(tile, STEP_KEYS, np.full(n, 2.0 * STEP_KEYS), turned, together, none)


def in_cluster(s: Latents, c: Coefficients) -> Bools:
    """Return which rows four SMs take together. Shape (n,)."""
    return np.asarray((s.kv_size < s.size) & (s.heads == c["cluster_heads"]))


def _value_share(s: Latents, tiles: _Tiles, blocks: Floats, sms: float) -> Floats:
    """Return the share of the values that a block takes where SMs are to spare. Shape (n,). [1]"""
    spare = np.where(tiles.turned, sms / blocks, 1.0)
    return np.where(spare >= 4.0, 0.25, np.where(spare >= 2.0, 0.5, 1.0)) * np.ones(len(s.batch))


def _drawing(
    s: Latents, tiles: _Tiles, value_dim: Floats, blocks: Floats, gpu: Gpu, c: Coefficients
) -> Floats:
    """Return how long a block draws :data:`KEY_TILE` keys. Shape (n,). [clk]

    Generated kernels keep no keys in shared memory for the values in them, which come from L2 again
    (``mReuseSmemKForV``, which the source of :data:`LEAST_HEADS` never sets): twice the bytes, at what L2
    brings the SMs that work.
    """
    if c["head_tile"] > 0:
        width = np.where(s.kv_size < s.size, 1.0 + c["kv8_width"], 2.0)
        return np.asarray(KEY_TILE * s.key_dim * width / c["sm_bytes_clk"])
    working = np.minimum(blocks * s.out_dim / value_dim, float(gpu.sm_count))
    brought = np.minimum(gpu.l2_bytes_per_clock / working, gpu.l2_port_bytes_per_clock_sm)
    width = np.where(tiles.together, 0.5, 1.0) * (s.key_dim + value_dim) * s.kv_size
    return np.asarray(KEY_TILE * width / brought)


def _step(s: Latents, tiles: _Tiles, value_dim: Floats, drawing: Floats, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the time of a tile of heads for :data:`KEY_TILE` keys. Shape (n,). [clk]"""
    narrow = s.kv_size < s.size
    rate = s.rate * sustained_share(c["tensor_efficiency"], s.left) * np.where(narrow, c["kv8_rate"], 1.0)
    products = 2.0 * tiles.heads * KEY_TILE * (s.key_dim + value_dim) / rate
    step = combined(products, drawing, DRAW_NORM)
    # before Hopper each warp of 16 rows draws all keys and values of a step from shared memory
    drawn = c["shared_reads"] * KEY_TILE * (s.key_dim + s.out_dim) * np.where(narrow, 1.0, 2.0)
    drawn = np.where(tiles.cluster, drawn / CLUSTER, drawn)
    reading = drawn / (gpu.shared_bytes_per_clock_sm * c["shared_efficiency"])
    # where keys are rows each is read for the few heads beside it
    read = np.where(tiles.turned, KEY_TILE * (s.key_dim + value_dim) * np.where(narrow, 1.0, 2.0), 0.0)
    step = combined(step, reading + read / gpu.shared_bytes_per_clock_sm, SHARED_NORM)
    return np.asarray(step * np.where(s.heads * s.q_len <= 1.0, c["single_step"], 1.0))


def _latent_decode_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = latents(rows, gpu)
    if c["kv8_in_16"] > 0.5:
        s = replace(s, kv_size=np.maximum(s.kv_size, s.size))
    sms, n = float(gpu.sm_count), len(rows)
    narrow = s.kv_size < s.size
    tiles = _tiles(s, gpu, c)
    query_tiles = s.batch * np.ceil(s.heads * s.q_len / tiles.heads)
    kv_splits = np.minimum(split_keys(query_tiles, np.full(n, sms), s.kv_len, tiles.least), c["most_parts"])
    kv_splits = np.where(tiles.cluster, 1.0, kv_splits)
    blocks = query_tiles * kv_splits
    waves = blocks / sms
    value_dim = s.out_dim * _value_share(s, tiles, blocks, sms)
    drawing = _drawing(s, tiles, value_dim, blocks, gpu, c)
    step = _step(s, tiles, value_dim, drawing, gpu, c)
    steps = np.ceil(s.kv_len / kv_splits / tiles.keys) * (tiles.keys / KEY_TILE)
    # blocks of a partly filled last wave are waited for, as far as they cannot share what others draw
    busiest = np.maximum(waves + c["tail_share"] * (np.ceil(waves) - waves), 1.0)
    # as if the two SMs of a pair shared their way to L2: each is slower where both work
    full_waves, last_wave = np.floor(waves), waves - np.floor(waves)
    paired = c["paired_step"] if c["head_tile"] > 0 else 1.0
    last = np.where(last_wave > 0.5, paired, 1.0)
    unfilled = np.where(last_wave > 0.0, last_wave + c["tail_share"] * (1.0 - last_wave), 0.0)
    core = np.where(waves < 1.0, last, full_waves * paired + unfilled * last) * steps * step
    starts = busiest * c["block_clk"]
    if c["head_tile"] <= 0:  # a block that takes tile after tile loads the next beside
        core = core + (busiest - 1.0) * np.maximum(c["block_clk"] - LATENCY_CLK, 0.0)
        starts = np.full(n, c["block_clk"])
    split = kv_splits > 1.0
    partial = np.where(split, s.batch * s.heads * s.q_len * kv_splits * s.out_dim * 8.0, 0.0)
    serial = LATENCY_CLK + starts + np.where(split, c["combine_clk"], 0.0) + partial / gpu.l2_bytes_per_clock
    # the last block of such a tile sums its parts, as fast as one SM draws them
    summed_bytes = kv_splits * np.minimum(tiles.heads, s.heads * s.q_len) * s.out_dim * PART_BYTES
    serial = serial + np.where(split & tiles.turned, summed_bytes, 0.0) / gpu.l2_port_bytes_per_clock_sm
    elements = s.batch * s.kv_len * s.key_dim
    converting = np.where(narrow, c["kv8_convert_ops"], 0.0) * elements / (gpu.lanes_per_clock_sm * sms)
    products, moved = projections(s, rows)
    projecting = c["projected"] * products / (s.rate * sms * c["projection_efficiency"])
    passed = c["pass_factor"] * s.passing_bytes + c["projected"] * moved
    reached = np.minimum(c["dram_efficiency"] * np.where(narrow, c["kv8_memory"], 1.0), 1.0)
    # half of a cluster draws the keys, half the values
    draws = np.where(tiles.cluster | tiles.together, query_tiles / 2.0, query_tiles)
    dims = s.key_dim if c["head_tile"] > 0 else s.key_dim + s.out_dim
    work = latent_work(s, draws * s.kv_len * dims * s.kv_size, multiplied_in_8(s, narrow, gpu, c))
    launch = (c["launch_us"] + np.where(narrow, c["kv8_launch_us"], 0.0)) * launch_pace(gpu)
    return Pieces(
        fixed_s=launch * 1e-6,
        serial_cycles=serial + converting + projecting,
        stream_s=passed / gpu.dram_bytes_per_s,
        core_cycles=core,
        memory_s=s.cache_bytes / (gpu.dram_bytes_per_s * reached),
        norm=np.full(n, MEMORY_NORM),
        floor_s=np.full(n, c["floor_us"] * 1e-6),
        **graph_steps_s(rows, gpu),
        active=np.clip(waves / np.ceil(waves), 0.0, 1.0),
        work=work,
    )


def _unmeasured(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Bools:
    """Return which rows run 8-bit kernels known from source alone, unmeasured. Shape (n,)."""
    s = latents(rows, gpu)
    return np.asarray((s.kv_size < s.size) & (c["cluster_heads"] > 0.0))


MLA_DECODE = Law(
    "mla_decode",
    _latent_decode_pieces,
    read_coefficients(__package__, "latent")["mla_decode"],
    spread=(-0.7, 2.9),
    habits=(
        {"head_tile": 64.0, "most_parts": 1.0, "floor_us": 1.0},
        {"head_tile": 16.0, "most_parts": 4.0, "floor_us": 300.0, "projected": 1.0},
        {"head_tile": 128.0, "floor_us": 160.0, "projected": 1.0},
        {"head_tile": 128.0},
        {"head_tile": 0.0, "most_parts": 1024.0},
    ),
    library_host=DECODE_HOST,
    source_tells=frozenset({"kv8_products"}),
    elsewhere=DECODE_ELSEWHERE,
    by_row=True,
    unmeasured=_unmeasured,
)
LAWS = (MLA_DECODE,)
