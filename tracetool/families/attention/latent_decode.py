"""Latent attention of one query a sequence: all heads meet one cache, in as many parts as fill the GPU.

Equations and sources: docs/families/mla.md; counts are those of ``latent.py``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.latent import latent_work, latents, projections
from tracetool.families.attention.latent_hosts import DECODE_HOST
from tracetool.families.attention.problem import launch_pace
from tracetool.families.attention.tiling import split_keys
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: Keys of a step. [tokens] By definition of deepseek-ai/FlashMLA, whose page holds 64.
KEY_TILE = 64.0
#: From the launch to the first product. [clk] A prior: data at one clock do not separate it from the launch.
LATENCY_CLK = 2300.0
#: p-norms: products with drawing, cores with memory. [1] Both a prior, as of other attention.
DRAW_NORM, MEMORY_NORM = 6.0, 4.0
#: p-norm: products with reads of shared memory. [1] A prior: with products at 0.9 of their peak the steps of
#: A100 and L40S together give 2.8.
SHARED_NORM = 3.0


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = latents(rows, gpu)
    if c["kv8_in_16"] > 0.5:
        s = replace(s, kv_size=np.maximum(s.kv_size, s.size))
    sms, n = float(gpu.sm_count), len(rows)
    narrow = s.kv_size < s.size
    alone = s.heads * s.q_len <= 1.0
    lanes = s.batch * np.ceil(s.heads * s.q_len / c["head_tile"])
    least = np.full(n, c["least_keys"])
    parts = np.minimum(split_keys(lanes, np.full(n, sms), s.kv_len, least), c["most_parts"])
    blocks = lanes * parts
    waves = blocks / sms
    steps = np.ceil(s.kv_len / parts / KEY_TILE)
    rate = s.rate * c["tensor_efficiency"] * np.where(narrow, c["kv8_rate"], 1.0)
    tile = 2.0 * c["head_tile"] * KEY_TILE * (s.key_dim + s.out_dim) / rate
    width = KEY_TILE * s.key_dim * np.where(narrow, 1.0 + c["kv8_width"], 2.0)
    step = combined(tile, width / c["sm_bytes_clk"], DRAW_NORM)
    # before Hopper each warp of 16 rows draws all keys and values of a step from shared memory
    drawn = c["shared_reads"] * KEY_TILE * (s.key_dim + s.out_dim) * 2.0
    drawing = drawn / (gpu.shared_bytes_per_clock_sm * c["shared_efficiency"])
    step = combined(step, drawing, SHARED_NORM)
    step = step * np.where(alone, c["single_step"], 1.0)
    # blocks of a partly filled last wave are waited for, as far as they cannot share what others draw
    busiest = waves + c["tail_share"] * (np.ceil(waves) - waves)
    # as if the two SMs of a pair shared their way to L2: each is slower where both work
    whole, rest = np.floor(waves), waves - np.floor(waves)
    last = np.where(rest > 0.5, c["paired_step"], 1.0)
    unfilled = np.where(rest > 0.0, rest + c["tail_share"] * (1.0 - rest), 0.0)
    core = np.where(waves < 1.0, last, whole * c["paired_step"] + unfilled * last) * steps * step
    starts = np.maximum(busiest, 1.0) * c["block_clk"]
    split = parts > 1.0
    partial = np.where(split, s.batch * s.heads * s.q_len * parts * s.out_dim * 8.0, 0.0)
    serial = LATENCY_CLK + starts + np.where(split, c["combine_clk"], 0.0) + partial / gpu.l2_bytes_per_clock
    elements = s.batch * s.kv_len * s.key_dim
    converting = np.where(narrow, c["kv8_convert_ops"], 0.0) * elements / (gpu.lanes_per_clock_sm * sms)
    products, moved = projections(s, rows)
    projecting = c["projected"] * products / (s.rate * sms * c["projection_efficiency"])
    passed = c["pass_factor"] * s.passing_bytes + c["projected"] * moved
    work = latent_work(s, lanes * s.kv_len * s.key_dim * s.kv_size)
    launch = (c["launch_us"] + np.where(narrow, c["kv8_launch_us"], 0.0)) * launch_pace(gpu)
    return Pieces(
        fixed_s=launch * 1e-6,
        serial_cycles=serial + converting + projecting,
        stream_s=passed / gpu.dram_bytes_per_s,
        core_cycles=core,
        memory_s=s.cache_bytes / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, MEMORY_NORM),
        floor_s=np.full(n, c["floor_us"] * 1e-6),
        active=np.clip(waves / np.ceil(waves), 0.0, 1.0),
        work=work,
    )


MLA_DECODE = Law(
    "mla_decode",
    _parts,
    read_coefficients(__package__, "latent")["mla_decode"],
    spread=(-0.7, 2.9),
    habits=(
        {"head_tile": 64.0, "most_parts": 1.0, "floor_us": 1.0},
        {"head_tile": 16.0, "most_parts": 4.0, "floor_us": 300.0, "projected": 1.0},
        {"head_tile": 128.0, "floor_us": 160.0, "projected": 1.0},
        {"head_tile": 128.0},
    ),
    library_host=DECODE_HOST,
    by_row=True,
)
LAWS = (MLA_DECODE,)
