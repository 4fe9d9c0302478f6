"""Work of a Mamba-2 layer between its projections: a short convolution, then the scan in chunks.

A chunk of Q tokens is a matrix product within itself; its last state is passed to the next one. With H heads
of P channels, N numbers of state to a channel and G groups of heads that share B and C, a token takes [1]_

.. math:: 2 Q N G + Q P H + 4 N P H

operations on tensor cores: C times B of its chunk, those scores (masked, half of them) times the inputs, the
chunk's state, and what the state before adds to the output. One token a sequence updates its state instead.

References
----------
.. [1] Dao and Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured
   State Space Duality", 2024, arXiv:2405.21060, section 6 and listing 1; kernels as in state-spaces/mamba,
   mamba_ssm/ops/triton (ssd_bmm, ssd_chunk_state, ssd_state_passing, ssd_chunk_scan, selective_state_update).
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

#: Bytes of states, scores and decays, which kernels keep in FP32. [B] By definition of the format.
_FP32_BYTES = 4.0
#: Operations of an update per number of the state, of a token alone: see :func:`problem.scan_work`. [op]
#: By definition of the recurrence.
_PER_STATE = 6.0
#: Kernels of a layer on many tokens (convolution, decays, states, passing, scores, scan) and on one token a
#: sequence (convolution, update). [1] By definition: mamba_ssm's.
CHUNKED_KERNELS, UPDATE_KERNELS = 6.0, 2.0


@dataclass(frozen=True)
class Layers:
    """Mamba-2 layers, all of shape (n,)."""

    sequences: Floats
    tokens: Floats
    heads: Floats
    head_dim: Floats
    state: Floats
    groups: Floats
    chunk: Floats
    size: Floats  # of an element of activations [B]
    state_size: Floats  # of a number of the states that tokens alone read and write [B]
    update: Bools  # one token a sequence
    scans: Bools  # the scan is asked for, not the convolution alone
    convolves: Bools  # the convolution is asked for, not the scan alone
    convolution: Convolutions

    @property
    def mixed(self) -> Floats:
        """Channels of x, B and C, which pass through the convolution."""
        return self.convolution.channels

    @property
    def kernels(self) -> Floats:
        """Kernels of each layer. [1]"""
        scans = np.where(self.update, UPDATE_KERNELS, CHUNKED_KERNELS) - 1.0
        return np.asarray(np.where(self.scans, scans, 0.0) + np.where(self.convolves, 1.0, 0.0))


def is_mamba2(rows: OperatorColumns) -> Bools:
    """Return which rows are Mamba-2 layers of known heads. Shape (n,)."""
    return np.isfinite(rows.number("nheads"))


def layers(rows: OperatorColumns) -> Layers:
    """Return the Mamba-2 layers of rows; ``implementation`` may name one kernel alone."""
    length = rows.number("seq_len", 1.0)
    heads, head_dim = rows.number("nheads"), rows.number("head_dim")
    state, groups = rows.number("d_state"), rows.number("n_groups", 1.0)
    words, stated = dtype_of(rows, "bf16"), rows.text("state_dtype")
    return Layers(
        sequences=rows.number("batch", 1.0),
        tokens=tokens_of(rows),
        heads=heads,
        head_dim=head_dim,
        state=state,
        groups=groups,
        chunk=np.minimum(rows.number("chunk_size", 256.0), np.maximum(length, 1.0)),
        size=element_bytes(words, 2.0),
        state_size=element_bytes(np.where(stated == "", words, stated).astype(object), 2.0),
        update=is_update(rows),
        scans=~is_conv1d(rows),
        convolves=is_conv1d(rows) | (rows.text("implementation") == ""),
        convolution=convolutions(rows, heads * head_dim + 2.0 * groups * state),
    )


def mamba2_work(of: Layers) -> Work:
    """Return the work of Mamba-2 layers, that of all their kernels together."""
    channels = of.heads * of.head_dim
    mixed = of.mixed
    states = channels * of.state
    convolution = conv1d_work(of.convolution)
    chunks = of.tokens / of.chunk
    product = of.tokens * (2.0 * of.chunk * of.state * of.groups + of.chunk * channels + 4.0 * states)
    decays = of.tokens * of.heads
    passing = 2.0 * chunks * states
    update = _PER_STATE * of.tokens * states
    inputs = of.tokens * mixed * of.size
    # inputs twice, the output, scores written and read, states four times, decays six
    moved = (
        2.0 * inputs
        + of.tokens * channels * of.size
        + _FP32_BYTES * (2.0 * of.tokens * of.chunk * of.groups + 4.0 * chunks * states + 6.0 * decays)
    )
    moved = np.where(of.update, inputs + 2.0 * of.tokens * states * of.state_size, moved)
    chunked = of.scans & ~of.update
    tensor = np.where(chunked, product, 0.0)
    scanned = np.where(chunked, passing, np.where(of.scans, update, 0.0))
    exponentials = np.where(of.update, of.tokens * states, decays * (of.chunk / 2.0 + 3.0))
    moved = np.where(of.scans, moved, 0.0)
    scan = Work.of(
        len(of.tokens),
        useful_flops=tensor + scanned,
        tensor_flops=tensor,
        fp32_flops=scanned,
        sfu_ops=np.where(of.scans, exponentials, 0.0),
        shared_bytes=2.0 * moved,
        l2_bytes=moved,
        dram_bytes=moved,
    )
    return scan.plus(Work.of(len(of.tokens)).where(of.convolves, convolution))
