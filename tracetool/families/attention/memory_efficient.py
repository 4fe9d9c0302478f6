"""Attention kernels of PyTorch and xFormers from CUTLASS: whole tiles of fixed sizes, whatever the shape.

A block takes ``tile_m`` queries of one head, a step ``tile_n`` keys. Both products are of whole tiles: the
first over the head in steps of 32, the second over the values in tiles of ``tile_n``. Eight queries cost what
64 do, heads of 16 almost what heads of 64 do. FP32 operands are multiplied in three passes of TF32 where
there are tensor cores for it [1]_.

Equation and sources: docs/families/prefill.md.

References
----------
.. [1] pytorch/pytorch, ``aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h`` and
   ``gemm_kernel_utils.h`` (``DefaultGemmType``, ``OpMultiplyAddFastF32``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.prefill import L2_NORM
from tracetool.families.attention.prefill_passes import BACKWARD, MEMORY_NORM
from tracetool.families.attention.problem import EXPONENTIALS, attention_scores, least_cycles, scores_work
from tracetool.families.attention.tiling import causal_tiles, full_tiles
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import full_rate_share, product_rate, sustained_share
from tracetool.families.instructions import older_kernels, rate_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

#: What the names of these kernels give as their library.
LIBRARY: Final = "pytorch_mem_efficient"
#: Tile where the name states none: most of its kernels'. [tokens] By definition of kernel_forward.h.
TILE: Final = 64.0
#: Depth of a step of the first product, and passes of TF32 that make a product of FP32. [elements], [1] By
#: definition of kernel_forward.h (``ThreadK``) and of CUTLASS's ``OpMultiplyAddFastF32``.
HEAD_STEP, FP32_PASSES = 32.0, 3.0

_DATA = read_coefficients(__package__, "memory_efficient")


def is_memory_efficient(rows: OperatorColumns) -> Bools:
    """Return which rows are such kernels. Shape (n,)."""
    return np.asarray(rows.text("library") == LIBRARY, dtype=np.bool_)


def _efficient_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = attention_scores(rows, gpu)
    queries, keys = rows.number("tile_m", TILE), rows.number("tile_n", TILE)
    visible_keys = np.minimum(s.window, s.kv_len)
    causal, unmasked = (
        causal_tiles(s.q_len, visible_keys, queries, keys),
        full_tiles(s.q_len, visible_keys, queries, keys),
    )
    visits = np.where(s.causal, causal.visits, unmasked.visits)
    longest = np.where(s.causal, causal.longest, unmasked.longest)
    depth = np.ceil(s.head_dim / HEAD_STEP) * HEAD_STEP + np.ceil(s.value_dim / keys) * keys
    words = np.full(len(rows), "tf32", dtype=object)
    tf32, wide = product_rate(words, gpu) / FP32_PASSES, (s.size >= 4.0) & ~s.tensor
    rate = np.where(wide, np.maximum(tf32, s.rate), s.rate)
    share = sustained_share(c["tensor_efficiency"], np.where(wide, full_rate_share(words, gpu), s.left))
    rate = rate * np.where(older_kernels(rows, gpu), rate_share(gpu), 1.0)
    factor = np.where(s.backward, BACKWARD, 1.0)
    products = 2.0 * queries * keys * depth / (rate * share)
    step = products + EXPONENTIALS * queries * keys / gpu.sfu_per_clock_sm
    batch_heads, sms = s.batch * s.heads, float(gpu.sm_count)
    blocks = batch_heads * unmasked.tiles
    core = (blocks * c["block_clk"] + batch_heads * visits * step) / sms
    core = np.maximum(core, c["block_clk"] + longest * step)
    fills = batch_heads * visits * keys * (s.head_dim + s.value_dim) * s.kv_size
    core = combined(core, fills / gpu.l2_bytes_per_clock, L2_NORM)
    work = scores_work(s, factor * fills)
    n = len(rows)
    waves = blocks / sms
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.zeros(n),
        stream_s=np.zeros(n),
        core_cycles=np.maximum(factor * core, least_cycles(s, rate, gpu)),
        memory_s=work.dram_bytes / gpu.dram_bytes_per_s,
        norm=np.full(n, MEMORY_NORM),
        floor_s=np.zeros(n),
        active=np.clip(waves / np.ceil(waves), 0.0, 1.0),
        work=work,
    )


EFFICIENT = Law("efficient_attention", _efficient_pieces, _DATA["efficient_attention"], spread=(-0.5, 0.5))
LAWS = (EFFICIENT,)
