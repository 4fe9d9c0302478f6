r"""Work of a gated delta net: a short convolution, then the gated delta rule in chunks or by token.

Each value head keeps a state of K x V numbers. A token decays it, takes out what its key already holds and
adds its value [1]_:

.. math:: S_t = \alpha_t S_{t-1} (I - \beta_t k_t k_t^T) + \beta_t v_t k_t^T, \qquad o_t = S_t q_t

In chunks of C tokens that is products [1]_ [2]_, an operation pair each: keys by keys (C K) and queries by
keys (C K), the inverse of a triangle (C C / 3) and its products with keys and values (C (K + V)), the
state's share of the values, of the output and the state's own update (3 K V), and scores by values (C V):

.. math:: F = 2 H_v T \left( 2 C K + C^2 / 3 + C (K + V) + 3 K V + C V \right)

Kernels compute whole tiles of what is a triangle. One token a sequence reads and writes the states, in FP32.

References
----------
.. [1] Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024,
   arXiv:2412.06464, section 3 and equation 10.
.. [2] fla-org/flash-linear-attention, fla/ops/gated_delta_rule/chunk.py and fla/ops/common/chunk_delta_h.py:
   chunks of 64 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.families.ssm.conv1d import (
    Convolutions,
    conv1d_work,
    convolutions,
    is_conv1d,
    is_update,
    tokens_of,
)

#: Tokens of a chunk. [tokens] By definition of fla-org/flash-linear-attention, and of FlashInfer's kernel.
CHUNK = 64.0
#: Bytes of states and gates, which kernels keep in FP32. [B] By definition of the format.
STATE_BYTES = 4.0
#: Operations of an update per number of the state: decay, product with the key and its sum, two more of the
#: rank-one update, product with the query and its sum. [op] By definition of the recurrence.
_PER_STATE = 7.0
#: Times the chunked kernels pass over keys and values (norm, keys by keys, its inverse's products, states,
#: output) and over the states. [1] By definition of fla-org/flash-linear-attention.
_PASSES, _STATE_PASSES = 4.0, 2.0


@dataclass(frozen=True)
class DeltaNets:
    """Gated delta nets, all of shape (n,)."""

    sequences: Floats
    tokens: Floats
    key_heads: Floats
    key_dim: Floats
    value_heads: Floats
    value_dim: Floats
    size: Floats  # of an element of activations [B]
    update: Bools  # one token a sequence
    convolution: Convolutions

    @property
    def states(self) -> Floats:
        """Numbers of the states of a sequence. [1]"""
        return np.asarray(self.value_heads * self.key_dim * self.value_dim)

    @property
    def chunks(self) -> Floats:
        """Chunks of all sequences; the last of each may be short. [1]"""
        return np.asarray(self.sequences * np.ceil(self.tokens / self.sequences / CHUNK))

    @property
    def activation_bytes(self) -> Floats:
        """Bytes of queries, keys, values and outputs, each once. [B]"""
        each = 2.0 * self.key_heads * self.key_dim + 2.0 * self.value_heads * self.value_dim
        return np.asarray(self.tokens * each * self.size)


def is_delta_net(rows: OperatorColumns) -> Bools:
    """Return which rows are gated delta nets of known heads. Shape (n,)."""
    return np.isfinite(rows.number("num_v_heads"))


def delta_nets(rows: OperatorColumns) -> DeltaNets:
    """Return the gated delta nets of rows."""
    key_heads, value_heads = rows.number("num_k_heads", 1.0), rows.number("num_v_heads")
    key_dim, value_dim = rows.number("head_k_dim", 128.0), rows.number("head_v_dim", 128.0)
    return DeltaNets(
        rows.number("batch", 1.0), tokens_of(rows), key_heads, key_dim, value_heads, value_dim,
        element_bytes(dtype_of(rows, "bf16"), 2.0), is_update(rows),
        convolutions(rows, 2.0 * key_heads * key_dim + value_heads * value_dim),
    )  # fmt: skip


def delta_rule_work(of: DeltaNets) -> Work:
    """Return the work of the gated delta rule, without the convolution before it."""
    k, v = of.key_dim, of.value_dim
    product = 2.0 * of.value_heads * of.tokens
    product = product * (2.0 * CHUNK * k + CHUNK**2 / 3.0 + CHUNK * (k + v) + 3.0 * k * v + CHUNK * v)
    updated = _PER_STATE * of.tokens * of.states
    tensor = np.where(of.update, 0.0, product)
    gates = of.tokens * of.value_heads
    vector = np.where(of.update, updated, of.tokens * of.value_heads * 4.0 * (CHUNK + k + v))
    chunked = _PASSES * of.activation_bytes + _STATE_PASSES * of.chunks * of.states * of.size
    moved = (
        np.where(of.update, of.activation_bytes + 2.0 * of.sequences * of.states * STATE_BYTES, chunked)
        + 2.0 * gates * STATE_BYTES
    )
    return Work.of(
        len(of.tokens),
        useful_flops=tensor + np.where(of.update, updated, 0.0),
        tensor_flops=tensor,
        fp32_flops=vector,
        sfu_ops=np.where(of.update, 2.0, CHUNK) * gates,
        int_ops=of.tokens * of.value_heads * v,
        shared_bytes=2.0 * moved,
        l2_bytes=moved,
        dram_bytes=moved,
    )


def delta_net_work(rows: OperatorColumns) -> Work:
    """Return the work of gated delta nets: of the convolution alone where a row names it, else of both."""
    of = delta_nets(rows)
    alone = is_conv1d(rows)
    rule_alone = ~alone & (rows.text("implementation") != "")
    convolution, rule = conv1d_work(of.convolution), delta_rule_work(of)
    nothing = Work.of(len(rows))
    return convolution.where(rule_alone, nothing).plus(rule.where(alone, nothing))
