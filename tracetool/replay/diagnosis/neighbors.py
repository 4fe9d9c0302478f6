"""Neighbors on a stream: tensors that one elementwise kernel writes and the next one reads."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families import names


def stream_neighbors(kernels: pl.DataFrame) -> tuple[Ints, Bools]:
    """Return signatures in the order of their streams, and which are on the same one as the next.

    Parameters
    ----------
    kernels : DataFrame
        ``start_ns``, ``device``, ``stream`` and ``signature`` of n activities.

    Returns
    -------
    signature : array of int, shape (n,)
    same : array of bool, shape (n - 1,)
    """
    order = np.lexsort(
        (
            kernels["start_ns"].to_numpy(),
            kernels["stream"].fill_null(-1).to_numpy(),
            kernels["device"].fill_null(-1).to_numpy(),
        )
    )
    lane = kernels.select(pl.struct("device", "stream").rank("dense")).to_series().to_numpy()[order]
    return kernels["signature"].to_numpy()[order].astype(np.int64), np.asarray(lane[1:] == lane[:-1])


def chain_shares(kernels: pl.DataFrame, rows: OperatorColumns) -> Floats:
    r"""Return the share of each signature's traffic that a fused chain would leave in registers. (s,)

    Parameters
    ----------
    kernels : DataFrame
        ``start_ns``, ``device``, ``stream`` and ``signature`` of every activity.
    rows : OperatorColumns
        One row a signature: ``elements``, ``reads`` and ``writes`` of elementwise kernels.

    Notes
    -----
    Elementwise kernels of as many elements, one after another on a stream, are taken for a chain: what
    one writes the next one reads. Of r tensors read and w written, the first of a chain need not write its
    result, the last need not read it, one between neither: :math:`(1_{after} + w\,1_{before}) / (r + w)`.
    """
    elements = rows.number("elements")
    reads, writes = rows.number("reads"), rows.number("writes")
    fusible: Bools = (rows.family == names.ELEMENTWISE) & (elements > 0) & (reads + writes > 0)
    share = np.zeros(len(rows))
    if not fusible.any():
        return share
    s, beside = stream_neighbors(kernels)
    joined = beside & fusible[s[1:]] & fusible[s[:-1]] & (elements[s[1:]] == elements[s[:-1]])
    after, before = np.concatenate([[False], joined]), np.concatenate([joined, [False]])
    with np.errstate(invalid="ignore"):
        saved = (after * np.minimum(reads[s], 1.0) + before * writes[s]) / (reads[s] + writes[s])
    launches = np.bincount(s, minlength=len(rows))
    total = np.bincount(s, np.where(fusible[s], saved, 0.0), minlength=len(rows))
    return np.divide(total, launches, out=share, where=launches > 0)
