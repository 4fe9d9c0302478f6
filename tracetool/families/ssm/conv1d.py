"""Short causal convolutions before a scan: each channel a window of a few tokens, in one kernel.

Of many tokens (``causal_conv1d_fn``) every channel is read and written once; of one token a sequence
(``causal_conv1d_update``) its last ``window`` - 1 tokens, the state, are read and written beside it [1]_.

References
----------
.. [1] Dao-AILab/causal-conv1d, csrc/causal_conv1d_fwd.cu and causal_conv1d_update.cu.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes

#: Special functions of the activation that follows, SiLU: an exponential and a reciprocal. [op] By
#: definition.
_ACTIVATION = 2.0


@dataclass(frozen=True)
class Convolutions:
    """Causal convolutions, all of shape (n,)."""

    sequences: Floats
    tokens: Floats
    channels: Floats
    window: Floats  # [tokens]
    size: Floats  # of an element of activations [B]
    update: Bools  # one token a sequence

    @property
    def moved_bytes(self) -> Floats:
        """Bytes read and written: every token, and the state of an update. [B]"""
        passes = np.where(self.update, 2.0 * self.window, 2.0)
        return np.asarray(self.tokens * self.channels * self.size * passes)


def is_conv1d(rows: OperatorColumns) -> Bools:
    """Return which rows are the convolution alone, by ``implementation``. Shape (n,)."""
    return np.asarray(np.char.startswith(rows.text("implementation").astype(str), "causal_conv1d"))


def is_update(rows: OperatorColumns) -> Bools:
    """Return which rows take one token a sequence. Shape (n,)."""
    phase, length = rows.text("phase"), rows.number("seq_len", 1.0)
    update = (phase == "decode") | (phase == "generation") | ((phase == "") & (length <= 1.0))
    return np.asarray(update, dtype=np.bool_)


def tokens_of(rows: OperatorColumns) -> Floats:
    """Return the tokens of all sequences of a row together. Shape (n,)."""
    stated = rows.number("num_tokens")
    counted = rows.number("batch", 1.0) * rows.number("seq_len", 1.0)
    return np.asarray(np.where(np.isfinite(stated), stated, counted))


def convolutions(rows: OperatorColumns, channels: Floats) -> Convolutions:
    """Return the convolutions of rows over ``channels``."""
    return Convolutions(
        rows.number("batch", 1.0), tokens_of(rows), channels, rows.number("d_conv", 4.0),
        element_bytes(dtype_of(rows, "bf16"), 2.0), is_update(rows),
    )  # fmt: skip


def conv1d_work(of: Convolutions) -> Work:
    """Return the work of convolutions: a product and a sum for each token of the window."""
    elements = of.tokens * of.channels
    flops, moved = 2.0 * of.window * elements, of.moved_bytes
    return Work.of(
        len(of.tokens),
        useful_flops=flops,
        fp32_flops=flops,
        sfu_ops=_ACTIVATION * elements,
        int_ops=2.0 * elements,
        shared_bytes=moved,
        l2_bytes=moved,
        dram_bytes=moved,
    )
