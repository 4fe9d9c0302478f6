"""Latent attention of many queries: tiles of queries over tiles of keys, expanded or latent.

Equations and sources: docs/families/mla.md; counts are those of ``latent.py``.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.latent import (
    absorbed_form,
    latent_work,
    latents,
    multiplied_in_8,
    projections,
)
from tracetool.families.attention.latent_hosts import (
    FLASH,
    FLASHMLA,
    PREFILL_ELSEWHERE,
    PREFILL_HOST,
    TRITON,
    VLLM,
    issued,
)
from tracetool.families.attention.prefill import LATENCY_CLK, WARPGROUP_ROWS
from tracetool.families.attention.prefill_passes import MEMORY_NORM
from tracetool.families.attention.problem import EXPONENTIALS
from tracetool.families.attention.tile_sizes import KEY_TILE
from tracetool.families.attention.tiling import causal_tiles
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import sustained_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.loops import graph_steps_s, launch_pace
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: p-norm of products with exponentials. [1] A prior, as of other attention.
MIX_NORM = 2.5
#: Share of the L2 near an SM that a working set may fill before it is read from memory, and how sharply that
#: sets in. [1] A fit of 13 tables of three libraries: 0.35 of the L2 of A100, H100 and H200, which two
#: partitions halve, 0.7 of an L40S's, which is whole.
L2_SHARE, L2_SHARPNESS = 0.7, 4.0
#: Share of a partly filled last wave that is waited for. [1] A fit: left free, 15 tables give 0.03 to 0.15
#: and err as much.
TAIL_SHARE = 0.08
#: Most that products of 8 bits gain over those of 16. [1] By definition of tensor cores.
NARROW_GAIN = 2.0


def _latent_prefill_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = latents(rows, gpu)
    sms, n = float(gpu.sm_count), len(rows)
    absorbed = s.q_len <= c["absorbed_queries"]
    s = absorbed_form(s, absorbed)
    # keys that were just expanded may be taken as they are, whatever the cache holds
    narrow = (s.kv_size < s.size) & (absorbed | (c["expanded_in_8"] > 0.5))
    # all heads share a latent key: a tile may hold them side by side
    packed = np.where(absorbed & (c["pack_heads"] > 0.5), s.heads, 1.0)
    query_tile = np.where(absorbed, c["absorbed_tile"], c["query_tile"])
    tiles = causal_tiles(s.q_len, s.kv_len, query_tile / packed, KEY_TILE)
    before = np.ceil(np.maximum(s.kv_len - s.q_len, 0.0) / KEY_TILE)
    visits, longest = tiles.visits + tiles.tiles * before, tiles.longest + before
    batch_heads = s.batch * s.heads / packed
    area = query_tile * KEY_TILE
    rate = (
        s.rate * sustained_share(c["tensor_efficiency"], s.left) * np.where(absorbed, c["absorbed_rate"], 1.0)
    )
    rate = rate * np.where(narrow, c["kv8_rate"], 1.0)
    products = 2.0 * area * (s.key_dim + s.out_dim) / rate
    step = combined(products, EXPONENTIALS * area / gpu.sfu_per_clock_sm, MIX_NORM)
    # warps of 64 queries that have none leave early
    filled = np.minimum(np.ceil(s.q_len * packed / WARPGROUP_ROWS) * WARPGROUP_ROWS / query_tile, 1.0)
    filled = c["spare_share"] + (1.0 - c["spare_share"]) * filled
    tile, step = c["tile_clk"] * filled, step * np.where(absorbed, 1.0, filled)
    blocks = batch_heads * tiles.tiles
    waves = blocks / sms
    # products of a block that has an SM to itself do not overlap with the exponentials of another
    step = step * np.where(waves <= 1.0, c["lone_step"], 1.0)
    waiting = 1.0 + TAIL_SHARE * (np.ceil(waves) / waves - 1.0)
    total = (blocks * tile + batch_heads * visits * step) / sms * waiting
    last = tile + longest * step
    core = np.where(waves > 1.0, combined(total, last, c["tail_norm"]), last)
    filled = batch_heads * visits * KEY_TILE * (s.key_dim + s.out_dim) * s.size
    work = latent_work(s, filled, multiplied_in_8(s, narrow, gpu, c))
    passes = c["pass_factor"] + np.where(narrow, c["kv8_passes"], 0.0)
    elements = s.batch * s.kv_len * (s.lora + s.rope)
    converting = np.where(narrow & absorbed, c["kv8_convert_ops"], 0.0) * elements
    # what the kernel before left in L2 does not come from memory
    missed = 1.0 - 1.0 / (1.0 + (work.dram_bytes / (L2_SHARE * gpu.l2_near_bytes)) ** L2_SHARPNESS)
    # latents and rotary keys, which all heads share, are rotated and written to the cache beside
    latent = s.batch * s.q_len * (s.lora + s.rope) * (s.size + s.kv_size)
    projected, moved = projections(s, rows)
    passed = passes * work.dram_bytes + c["latent_passes"] * latent + c["projected"] * moved
    from_l2 = passed * (1.0 - missed) / gpu.l2_bytes_per_clock
    projecting = c["projected"] * projected / (s.rate * sms * c["projection_efficiency"])
    launch = (c["launch_us"] + np.where(narrow, c["kv8_launch_us"], 0.0)) * launch_pace(gpu)
    return Pieces(
        fixed_s=launch * 1e-6,
        serial_cycles=LATENCY_CLK + converting / (gpu.lanes_per_clock_sm * sms) + from_l2 + projecting,
        stream_s=passed * missed / gpu.dram_bytes_per_s,
        core_cycles=np.maximum(core, s.flops / (s.rate * sms * np.where(narrow, NARROW_GAIN, 1.0))),
        memory_s=work.dram_bytes * missed / gpu.dram_bytes_per_s,
        norm=np.full(n, MEMORY_NORM),
        floor_s=c["floor_us"] * np.where(absorbed, 1.0, c["expanded_floor"]) * 1e-6,
        **graph_steps_s(rows, gpu),
        active=np.clip(waves / np.ceil(waves), 0.0, 1.0),
        work=work,
    )


#: What libraries do, each set together. FlashAttention 3 and Triton kernels of SGLang meet the latents with
#: every query, Triton's with 32 of one head; vLLM 0.14 does up to 512 queries a sequence under
#: FlashAttention, 128 under FlashMLA and one under Triton (``latent_hosts.py``). [tokens] By definition of
#: sgl-project/sglang and vllm-project/vllm.
_HABITS = (
    {"absorbed_queries": 1e9},
    {"absorbed_queries": 1e9, "pack_heads": 0.0, "absorbed_tile": 32.0},
    {**VLLM, **issued(FLASH), "absorbed_queries": 512.0, "query_tile": 128.0},
    {**VLLM, **issued(FLASHMLA), "absorbed_queries": 128.0, "query_tile": 128.0, "kv8_passes": 3.0},
    {**VLLM, **issued(TRITON), "absorbed_queries": 1.0, "query_tile": 128.0},
)

MLA_PREFILL = Law(
    "mla_prefill",
    _latent_prefill_pieces,
    read_coefficients(__package__, "latent")["mla_prefill"],
    spread=(-0.6, 2.5),
    habits=_HABITS,
    library_host=PREFILL_HOST,
    source_tells=frozenset({"kv8_products"}),
    elsewhere=PREFILL_ELSEWHERE,
    by_row=True,
)
LAWS = (MLA_PREFILL,)
