"""Attention: FLOPs, exponentials and bytes by level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import (
    dtype_of,
    element_bytes,
    full_rate_share,
    on_tensor,
    packed_share,
    product_rate,
)
from tracetool.families.law import Coefficients
from tracetool.hardware.gpu import Gpu

#: Special functions a score: its exponential, and its share of the rescaling of a row. Free fits give 1.30 to
#: 1.43 on four GPUs. [1]
EXPONENTIALS = 1.3
#: Operations of the softmax on the FP32 pipe a score: scale, mask, maximum, difference, sum. [op] A prior.
SOFTMAX_OPS = 5.0
#: A small kernel between others: one that converts new keys, or values, to a cache of 8 bits, or one that
#: sets counters to zero. [us] A fit: half of what two of the former add to alike small shapes of SGLang's
#: FlashInfer on a B200 (2.25 us, 5 shapes).
SMALL_KERNEL_US = 1.1


def cache_written(rows: OperatorColumns) -> Bools:
    """Return which rows' time includes writing new keys and values to the cache: all but those that deny it.

    Loops that call a library's attention alone leave the write out, where it is a kernel of its own.
    """
    return np.asarray(rows.number("cache_write", 1.0) > 0.0, dtype=np.bool_)


def cache_share(rows: OperatorColumns) -> Floats:
    """Return the share of keys and values that occupy memory of their own. Shape (n,). [1]

    A loop whose cache is laid out for keys alone reads values where it just read keys: they lie in L2.
    """
    return np.where(rows.number("values_shared", 0.0) > 0.0, 0.5, 1.0)


def converts_queries(gpu: Gpu, c: Coefficients) -> bool:
    """Return whether a kernel met with keys of 8 bits converts its queries, so that products are in FP8."""
    return c["kv8_products"] >= 1.0 and gpu.rate("tensor_fp8") > gpu.rate("tensor_fp16")


def narrow_floats(words: Texts) -> Bools:
    """Return which formats of keys are floats of 8 bits or fewer: kernels meet integers in 16 bits. (n,)"""
    integers = np.array([word.startswith(("int", "uint")) for word in words.astype(str)], dtype=np.bool_)
    return np.asarray((element_bytes(words, 2.0) <= 1.0) & ~integers)


def is_odd(head_dim: Floats) -> Bools:
    """Return which heads are no power of two: padded, or cached by slower kernels. Shape (n,)."""
    return np.asarray(np.log2(head_dim) != np.floor(np.log2(head_dim)), dtype=np.bool_)


@dataclass(frozen=True)
class Scores:
    """Attention problems, all of shape (n,)."""

    batch: Floats
    q_len: Floats
    kv_len: Floats
    heads: Floats
    kv_heads: Floats
    head_dim: Floats
    value_dim: Floats
    pairs: Floats  # query-key pairs that count, per head and sequence
    causal: Bools
    window: Floats  # keys a query sees; infinite where all
    decode: Bools
    backward: Bools
    size: Floats  # bytes of an element of Q and O [B]
    kv_size: Floats  # of K and V [B]
    rate: Floats  # [FLOP/clk/SM]
    left: Floats  # share of the architecture's matrix rate [1]
    tensor: Bools
    float_keys: Bools  # K and V are floats of 8 bits or fewer
    packed: Floats | None = None  # FP32 operations whose lanes one outside tensor cores takes; none: one


def attention_scores(rows: OperatorColumns, gpu: Gpu) -> Scores:
    """Return the attention problems of rows."""
    q_len = np.maximum(rows.number("q_len", 1.0), 1.0)
    kv_len = rows.number("kv_len")
    kv_len = np.maximum(np.where(np.isfinite(kv_len), kv_len, q_len), 1.0)
    heads = np.maximum(rows.number("heads", 1.0), 1.0)
    kv_heads = rows.number("kv_heads")
    kv_heads = np.clip(np.where(np.isfinite(kv_heads) & (kv_heads > 0), kv_heads, heads), 1.0, heads)
    dim = np.maximum(rows.number("head_dim", 128.0), 1.0)
    value = rows.number("head_dim_v")
    value = np.where(np.isfinite(value) & (value > 0), value, dim)
    phase = rows.text("phase")
    decode = (phase == "decode") | ((phase == "") & (q_len <= 1))
    causal = (rows.number("causal", 1.0) > 0) & (q_len > 1)
    window = rows.number("window", 0.0)
    window = np.where(window > 0, window, np.inf)
    words = dtype_of(rows, "bf16")
    kv_words = np.where(rows.text("kv_dtype") == "", words, rows.text("kv_dtype")).astype(object)
    return Scores(
        np.maximum(rows.number("batch", 1.0), 1.0), q_len, kv_len, heads, kv_heads, dim, value,
        score_pairs(q_len, kv_len, causal, window), causal, window, decode, phase == "backward",
        element_bytes(words, 2.0), element_bytes(kv_words, 2.0), product_rate(words, gpu),
        full_rate_share(words, gpu), on_tensor(words, gpu), narrow_floats(kv_words),
        packed_share(words, gpu),
    )  # fmt: skip


def score_pairs(q_len: Floats, kv_len: Floats, causal: Bools, window: Floats) -> Floats:
    """Return query-key pairs that count. Shape (n,).

    The last query lines up with the last key. A causal query at place i sees i + 1 keys, at most
    ``window`` of them.

    >>> one = np.array([4.0])
    >>> score_pairs(one, one, np.array([True]), np.array([np.inf])).tolist()
    [10.0]
    >>> score_pairs(one, one, np.array([True]), np.array([2.0])).tolist()
    [7.0]
    """
    before = np.maximum(kv_len - q_len, 0.0)
    visible_keys = np.minimum(window, kv_len)
    # places whose keys are fewer than the window: before+1 .. before+q, cut at visible_keys
    short = np.clip(visible_keys - before, 0.0, q_len)
    rising = short * before + short * (short + 1.0) / 2.0
    return np.asarray(np.where(causal, rising + (q_len - short) * visible_keys, q_len * visible_keys))


def _useful_flops(s: Scores) -> Floats:
    factor = np.where(s.backward, 2.5, 1.0)
    return np.asarray(factor * 2.0 * s.batch * s.heads * s.pairs * (s.head_dim + s.value_dim))


def scores_work(
    s: Scores,
    filled: Floats,
    read: Floats | None = None,
    *,
    in_8_bits: Bools | None = None,
    vector: Bools | None = None,
) -> Work:
    """Return the work of attention problems.

    Two products of 2 d FLOP per pair, forward; 2.5 times that backward (five products). One
    exponential and some five vector operations per pair.

    Parameters
    ----------
    s : Scores
        n problems.
    filled : array, shape (n,)
        Bytes of K and V that tiles of queries draw from L2. [B]
    read : array, shape (n,), optional
        Bytes from memory; by default Q, K, V and O once. [B]
    in_8_bits : array of bool, shape (n,), optional
        Problems whose products are in FP8 though their queries came in 16 bits; by default none.
    vector : array of bool, shape (n,), optional
        Problems whose kernel leaves tensor cores idle; by default those in formats without any.
    """
    batch_heads = s.batch * s.heads
    factor = np.where(s.backward, 2.5, 1.0)
    useful = _useful_flops(s)
    # a tile of queries computes whole tiles of keys, half of the diagonal one in vain; where one query a
    # sequence is left, only matrix instructions take rows that nothing fills
    tensor = s.tensor if vector is None else s.tensor & ~vector
    rows_of_tile = np.where(s.decode, np.where(tensor, 16.0, 1.0), 64.0)
    packed = np.where(s.decode, s.heads / s.kv_heads, 1.0) * s.q_len
    padded = np.ceil(packed / rows_of_tile) * rows_of_tile / packed
    seen = 2.0 * s.pairs / s.q_len - 1.0  # by the last query, were there no keys before the first
    in_vain = np.where(s.causal & (tensor | ~s.decode), 64.0 / (seen + 64.0), 0.0)
    issued = useful * np.maximum(padded, 1.0) * (1.0 + in_vain)
    lanes = 1.0 if s.packed is None else s.packed
    scores = batch_heads * s.pairs * factor
    passing = batch_heads * s.q_len * (s.head_dim + s.value_dim) * s.size
    if read is None:
        keys = np.minimum(s.kv_len, np.where(s.decode, s.window, np.inf))
        cache = s.batch * s.kv_heads * keys * (s.head_dim + s.value_dim) * s.kv_size
        read = (cache + passing) * np.where(s.backward, 2.0, 1.0)
    return Work.of(
        len(s.batch),
        useful_flops=useful,
        tensor_flops=np.where(tensor, issued, 0.0),
        tensor_fp8_flops=0.0 if in_8_bits is None else np.where(tensor & in_8_bits, issued, 0.0),
        fp32_flops=np.where(tensor, SOFTMAX_OPS * scores, issued * lanes),
        sfu_ops=scores,
        int_ops=scores,
        shared_bytes=2.0 * filled + passing,
        l2_bytes=filled + passing,
        dram_bytes=read,
    )


def least_cycles(s: Scores, rate: Floats, gpu: Gpu) -> Floats:
    """Return the core clocks that the products which count take with every SM at its peak. Shape (n,). [clk]

    Parameters
    ----------
    s : Scores
        n problems.
    rate : array, shape (n,)
        Peak of the pipes they run on. [FLOP/clk/SM]
    gpu : Gpu
        The GPU they run on.
    """
    return np.asarray(_useful_flops(s) / (rate * gpu.sm_count))


def heads_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of attention whose heads, or groups of them, have keys of their own.

    Every 128 queries (decode: all heads of a group) draw the keys.
    """
    s = attention_scores(rows, gpu)
    keys = np.minimum(s.kv_len, np.where(s.decode, s.window, np.inf))
    cache = s.batch * s.kv_heads * keys * (s.head_dim + s.value_dim) * s.kv_size
    readers = np.ceil(s.q_len / 128.0) * np.where(s.decode, 1.0, s.heads / s.kv_heads)
    share = np.minimum(s.pairs / (s.q_len * s.kv_len), 1.0)
    return scores_work(s, cache * np.maximum(1.0, readers * share))
