r"""Multi-head latent attention: FLOPs, exponentials and bytes of prefill and of decode.

Keys and values of a token are one latent vector of ``kv_lora_rank`` numbers and one rotary key of
``rope_dim`` that all heads share. Prefill expands the latents first, by a product that is an operator of its
own, and is attention of heads of ``nope_dim`` + ``rope_dim`` (queries and keys) and ``v_dim`` (values).
Decode never expands them: the up-projections are absorbed by those of the queries and of the output, so that
a query of ``kv_lora_rank`` + ``rope_dim`` numbers meets the cache as it lies in memory [1]_ [2]_:

.. math:: F_{prefill} = 2 H P (d_{nope} + d_{rope} + d_v), \qquad
   F_{decode} = 2 H P (2 d_{lora} + d_{rope})

of H heads and P pairs of a query and a key it sees.

References
----------
.. [1] DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model",
   2024, arXiv:2405.04434, section 2.1 and appendix C.
.. [2] deepseek-ai/FlashMLA, README: 576 numbers of keys and 512 of values of a latent of 512 and a rotary key
   of 64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.attention.problem import SOFTMAX_OPS, converts_queries, narrow_floats, score_pairs
from tracetool.families.formats import dtype_of, element_bytes, full_rate_share, on_tensor, product_rate
from tracetool.families.law import Coefficients
from tracetool.hardware.gpu import Gpu

#: Sizes a row that leaves them out has. [elements] DeepSeek-V2's, arXiv:2405.04434, section 3.1.2.
ROPE_DIM, NOPE_DIM, V_DIM = 64.0, 128.0, 128.0


@dataclass(frozen=True)
class Latents:
    """Latent attention, all of shape (n,)."""

    batch: Floats
    q_len: Floats
    kv_len: Floats
    heads: Floats
    lora: Floats  # numbers of a token's latent
    rope: Floats
    nope: Floats
    value: Floats
    pairs: Floats  # query-key pairs that count, per head and sequence
    absorbed: Bools  # queries multiply the latents themselves
    size: Floats  # bytes of an element of Q and O [B]
    kv_size: Floats  # of the cache [B]
    rate: Floats  # [FLOP/clk/SM]
    left: Floats  # share of the architecture's matrix rate [1]
    tensor: Bools
    float_keys: Bools  # the cache is of floats of 8 bits or fewer

    @property
    def key_dim(self) -> Floats:
        """Numbers a query and a key share. [1]"""
        return np.asarray(np.where(self.absorbed, self.lora, self.nope) + self.rope)

    @property
    def out_dim(self) -> Floats:
        """Numbers of an output of a head. [1]"""
        return np.asarray(np.where(self.absorbed, self.lora, self.value))

    @property
    def flops(self) -> Floats:
        """Operations of both products. [FLOP]"""
        return np.asarray(2.0 * self.batch * self.heads * self.pairs * (self.key_dim + self.out_dim))

    @property
    def cache_bytes(self) -> Floats:
        """Bytes of keys and values, read once: latents, or expanded heads. [B]"""
        each = np.where(
            self.absorbed,
            (self.lora + self.rope) * self.kv_size,
            self.heads * (self.nope + self.rope + self.value) * self.size,
        )
        return np.asarray(self.batch * self.kv_len * each)

    @property
    def passing_bytes(self) -> Floats:
        """Bytes of queries and outputs. [B]"""
        return np.asarray(self.batch * self.q_len * self.heads * (self.key_dim + self.out_dim) * self.size)


def is_latent(rows: OperatorColumns) -> Bools:
    """Return which rows of attention have a latent cache. Shape (n,)."""
    return np.isfinite(rows.number("kv_lora_rank"))


def latents(rows: OperatorColumns, gpu: Gpu) -> Latents:
    """Return the latent attention of rows; queries and outputs are in 16 bits whatever the cache is."""
    q_len = np.maximum(rows.number("q_len", 1.0), 1.0)
    kv_len = rows.number("kv_len")
    kv_len = np.maximum(np.where(np.isfinite(kv_len), kv_len, q_len), 1.0)
    phase = rows.text("phase")
    decode = (phase == "decode") | ((phase == "") & (q_len <= 1))
    words = dtype_of(rows, "bf16")
    kv_words = np.where(rows.text("kv_dtype") == "", words, rows.text("kv_dtype")).astype(object)
    return Latents(
        np.maximum(rows.number("batch", 1.0), 1.0), q_len, kv_len, np.maximum(rows.number("heads", 1.0), 1.0),
        rows.number("kv_lora_rank"), rows.number("rope_dim", ROPE_DIM), rows.number("nope_dim", NOPE_DIM),
        rows.number("v_dim", V_DIM), score_pairs(q_len, kv_len, q_len > 1, np.full(len(rows), np.inf)),
        np.asarray(decode, np.bool_), element_bytes(words, 2.0), element_bytes(kv_words, 2.0),
        product_rate(words, gpu), full_rate_share(words, gpu), on_tensor(words, gpu), narrow_floats(kv_words),
    )  # fmt: skip


def absorbed_form(s: Latents, absorbed: Bools) -> Latents:
    """Return latent attention with absorbed queries, which multiply the latents, where ``absorbed``. (n,)"""
    return replace(s, absorbed=np.asarray(absorbed, np.bool_))


def projections(s: Latents, rows: OperatorColumns) -> tuple[Floats, Floats]:
    """Return FLOP and bytes of the products that expand latents, or absorb the expansion, both of shape (n,).

    None of rows whose products are rows of their own (``products_apart``).

    Expanded, keys and values of every cached token are made of its latent, and a key is joined of its parts
    and written again, as is an output. Absorbed, every query is projected into the latent space, and every
    output out of it.
    """
    counted = np.where(rows.number("products_apart", 0.0) > 0.0, 0.0, 1.0)
    tokens = counted * s.batch * s.heads * np.where(s.absorbed, s.q_len, s.kv_len)
    weights = counted * s.heads * s.lora * (s.nope + s.value)
    expanded = (s.nope + s.value) + (2.0 * s.nope + s.rope) + 2.0 * s.value
    each = np.where(s.absorbed, s.nope + 2.0 * s.lora + s.value, expanded)
    flops = 2.0 * tokens * s.lora * (s.nope + s.value)
    return np.asarray(flops), np.asarray((tokens * each + weights) * s.size)


def multiplied_in_8(s: Latents, narrow: Bools, gpu: Gpu, c: Coefficients) -> Bools:
    """Return where ``narrow`` keys are met by queries of 16 bits that were converted to FP8. Shape (n,)."""
    return np.asarray(narrow & s.float_keys & s.tensor & converts_queries(gpu, c))


def latent_work(s: Latents, filled: Floats | None = None, in_8_bits: Bools | None = None) -> Work:
    """Return the work of latent attention.

    Parameters
    ----------
    s : Latents
        n problems.
    filled : array, shape (n,), optional
        Bytes of keys and values that tiles of queries draw from L2; by default each once. [B]
    in_8_bits : array of bool, shape (n,), optional
        Problems whose products are in FP8 though their queries came in 16 bits; by default none.
    """
    scores = s.batch * s.heads * s.pairs
    cache = s.cache_bytes
    filled = cache if filled is None else np.maximum(filled, cache)
    passing = s.passing_bytes
    return Work.of(
        len(s.batch),
        useful_flops=s.flops,
        tensor_flops=np.where(s.tensor, s.flops, 0.0),
        tensor_fp8_flops=0.0 if in_8_bits is None else np.where(s.tensor & in_8_bits, s.flops, 0.0),
        fp32_flops=np.where(s.tensor, SOFTMAX_OPS * scores, s.flops),
        sfu_ops=scores,
        int_ops=scores,
        shared_bytes=2.0 * filled + passing,
        l2_bytes=filled + passing,
        dram_bytes=cache + passing,
    )
