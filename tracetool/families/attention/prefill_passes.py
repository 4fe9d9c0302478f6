"""Passes before and after prefill attention: rotated, converted, written to the cache, read and stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.attention.prefill_hosts import ALONE_PASSES
from tracetool.families.attention.problem import Scores, cache_written, converts_queries
from tracetool.families.attention.tile_sizes import TRTLLM_WARPS
from tracetool.families.law import Coefficients
from tracetool.families.pieces import combined
from tracetool.hardware.gpu import Gpu

#: FLOP of a backward pass over those of a forward one. [1] By definition: five products for two (Dao,
#: FlashAttention-2, 2023).
BACKWARD = 2.5
#: p-norm of a core's time, or of what SMs pass, with memory: nearly the longer alone. Free fits of the first
#: give 3.7 to 8; fixing it costs less than 0.1 points of MAPE. [1]
MEMORY_NORM = 6.0
#: Operations that convert an element from 16 bits to e4m3 in PyTorch: some 15 of integers, at half the rate
#: of FP32, that round and pack it, and its load and store by vectors. [op] A prior, counted in
#: pytorch/pytorch, ``c10/util/Float8_e4m3fn.h`` (``fp8e4m3fn_from_fp32_value``).
QUANTIZE_OPS = 35.0
#: Bytes of an element that is read in 16 bits and written in 8. [B] By definition.
CAST_BYTES = 3.0
#: Least time that another is divided by. [s] By definition of the number format: near its least normal one.
_LEAST_S = 1e-300
#: The choice of ``kv8_products`` whose steps are stated relative to the rate of FP8. [1] By definition here.
RATE_OF_8 = 1.0
#: Share of L2 that tensors passed over again and again keep to themselves. [1] A prior.
RESIDENT_SHARE = 0.7


def narrow_keys(s: Scores, c: Coefficients) -> Bools:
    """Return where keys alone are computed in 8 bits: kernels that take new ones as they came do not."""
    return np.asarray((s.kv_size <= 1.0) & (s.size > 1.0) & (c["by_head"] != TRTLLM_WARPS))


def multiplied_in_8(s: Scores, gpu: Gpu, c: Coefficients) -> Bools:
    """Return where queries of 16 bits are converted, so that products with keys in 8 bits are in FP8 too."""
    return np.asarray(narrow_keys(s, c) & s.float_keys & s.tensor & converts_queries(gpu, c))


@dataclass(frozen=True)
class Passes:
    """Passes beside the kernel: arrays of shape (n,)."""

    touched: Floats  # queries, results, keys and values, each once [B]
    resident: Floats  # share of them that L2 still holds [1]
    stream_s: Floats  # from memory [s]
    serial_clk: Floats  # from L2, at the rate of the SMs, and a block a token [clk]


def passes_of(rows: OperatorColumns, s: Scores, gpu: Gpu, c: Coefficients, kv8: Bools) -> Passes:
    """Return the passes before and after a kernel; ``kv8``: keys alone are computed in 8 bits.

    Bytes pass as fast as memory brings them or the SMs take them.
    """
    written, alone = cache_written(rows), of_a_trace(rows)
    width, tokens = (s.head_dim + s.value_dim) * 2.0, s.batch * s.q_len
    narrow = np.where(kv8, 0.5, 1.0)  # bytes of an element of keys and values, relative
    touched = (s.batch * s.q_len * s.heads + s.batch * s.kv_len * s.kv_heads * narrow) * width
    # what the passes leave in L2 costs the next one no memory: the kernel itself reads only what they do not
    resident = c["l2_hit"] / (1.0 + (touched / (RESIDENT_SHARE * gpu.l2_bytes)) ** 2)
    eight = np.where(s.size <= 1.0, c["fp8_pass"], 1.0)
    queries = tokens * s.heads * width * eight
    cached = tokens * s.kv_heads * width * eight * (1.0 + narrow) / 2.0 * np.where(kv8, c["kv8_pass"], 1.0)
    cached = np.where(written, cached, 0.0)
    casts = np.where(~alone & _casts_queries(s, c, kv8), tokens * s.heads * s.head_dim, 0.0)  # [elements]
    # a kernel of a trace has its own passes alone
    passed = c["pass_factor"] * queries + c["cache_passes"] * cached
    own = np.where(alone, np.minimum(ALONE_PASSES * touched / passed, 1.0), 1.0)
    factor = np.where(s.backward, BACKWARD, 1.0) * own
    hertz, sms = gpu.clock_boost_mhz * 1e6, float(gpu.sm_count)
    of_memory, of_l2 = (1.0 - resident) / gpu.dram_bytes_per_s, resident / gpu.l2_bytes_per_clock
    stream_s, serial = np.zeros(len(rows)), np.where(written & ~alone, c["token_clk"] * tokens / sms, 0.0)
    for brought, taken in (
        (queries * c["pass_factor"], queries * c["pass_clk"] / 1024.0),
        (cached * c["cache_passes"], cached * c["cache_clk"] / 1024.0),
        (casts * CAST_BYTES, casts * QUANTIZE_OPS / gpu.lanes_per_clock_sm),
    ):
        of_brought = factor * brought * (of_memory + of_l2 / hertz)  # [s]
        of_taken = np.where(alone, 0.0, factor * taken / sms / hertz)  # [s]
        slower = combined(of_brought, of_taken, MEMORY_NORM)
        by_memory = (of_brought / np.maximum(slower, _LEAST_S)) ** MEMORY_NORM
        share = by_memory * slower / np.maximum(of_brought, _LEAST_S)
        stream_s = stream_s + factor * brought * share * of_memory
        serial = serial + factor * brought * share * of_l2 + slower * (1.0 - by_memory) * hertz
    return Passes(touched, resident, stream_s, serial)


def _casts_queries(s: Scores, c: Coefficients, kv8: Bools) -> Bools:
    """Return where PyTorch converts queries to 8 bits before the kernel. Shape (n,)."""
    in_8_bits = (s.size <= 1.0) | (kv8 & (c["kv8_products"] >= 1.0))
    return np.asarray(in_8_bits & (c["q_casts"] >= 1.0))
