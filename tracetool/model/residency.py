"""Data that the previous kernel left in the L2 cache: traffic that does not reach device memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families import names
from tracetool.families.formats import element_bytes
from tracetool.families.registry import families_where
from tracetool.families.spec import Sequence
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.activity import has_activity

#: Size of activations, as a share of the L2, at which half of their bytes hit there. [1]
HALF_SHARE: Final = prior_number("residency.half_share")
#: Exponent of the transition from cache to memory with the size of the data. [1]
SHARPNESS: Final = prior_number("residency.sharpness")
#: On-chip energy of a byte of weights, relative to a byte that is loaded into registers, used and stored. [1]
WEIGHT_WAY: Final = prior_number("residency.weight_way")
#: Families whose second operand is weights, read from memory.
_PRODUCTS: Final = families_where(lambda family: family.sequence is Sequence.PRODUCT)


def missed_bytes(rows: OperatorColumns, work: Work, gpu: Gpu, weights: Floats | None = None) -> Floats:
    r"""Return the bytes of each row that reach device memory when rows run one after another.

    .. math:: Q_{miss} = Q_{cold} + \frac{Q_{act}}{1 + (h L / Q_{act})^3}

    Activations are written by one kernel and read by the next: as far as they fit in the L2 (size :math:`L`),
    they stay there. Weights, and keys and values in decoding, are read once per pass and have been evicted by
    then. Rows whose memory traffic a monitor measured keep it.

    Parameters
    ----------
    rows : OperatorColumns
        n rows.
    work : Work
        Their counts; ``dram_bytes`` is the traffic of a kernel that finds nothing in the cache.
    gpu : Gpu
        For the size of its L2.
    weights : array, shape (n,), optional
        :func:`weight_bytes` of the rows, where they are known already. [B]

    Returns
    -------
    array, shape (n,)
        At most ``work.dram_bytes``. [B]
    """
    total = work.dram_bytes
    cold = weight_bytes(rows, work) if weights is None else weights
    decoding = rows.in_families(names.ATTENTION) & (rows.number("q_len", 2.0) <= 1)
    cold = np.where(decoding | has_activity(rows), total, cold)
    moving = total - cold
    size = HALF_SHARE * gpu.l2_bytes if np.isfinite(gpu.l2_bytes) else 0.0
    with np.errstate(divide="ignore", over="ignore"):  # next to nothing moves: all of it is found
        missed = 1.0 / (1.0 + (size / np.where(moving > 0, moving, np.inf)) ** SHARPNESS)
    return np.asarray(cold + moving * missed)


def weight_bytes(rows: OperatorColumns, work: Work) -> Floats:
    """Return the bytes of each row that are weights of a product, at most all it moves. Shape (n,). [B]"""
    weights = rows.number("n", 0.0) * rows.number("k", 0.0) * element_bytes(rows.text("dtype"), 2.0)
    shared = rows.in_families(*_PRODUCTS) & (rows.number("batch", 1.0) <= 1)
    cold = np.where(shared, np.minimum(weights, work.dram_bytes), 0.0)
    return np.asarray(np.where(rows.in_families(names.MOE), work.dram_bytes, cold))


def streamed_bytes(rows: OperatorColumns, work: Work, weights: Floats | None = None) -> Floats:
    """Return the bytes of each row on the way between memory and registers, weights by their share. [B]

    ``weights`` are :func:`weight_bytes` of the rows, where they are known already.
    """
    unread = np.where(has_activity(rows), 0.0, weight_bytes(rows, work) if weights is None else weights)
    return np.asarray(work.dram_bytes - (1.0 - WEIGHT_WAY) * unread)
