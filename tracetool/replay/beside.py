"""What ran beside each kernel: collectives and copies over a link, on other streams of its device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.families.transfers.problem import over_link
from tracetool.tables.run import Run


def with_traffic_beside(run: Run, rows: OperatorColumns) -> OperatorColumns:
    """Return the rows with the share of a launch's time in which links of its device were busy.

    Parameters
    ----------
    run : Run
        The run.
    rows : OperatorColumns
        One row a signature, with ``signature``.

    Returns
    -------
    OperatorColumns
        With ``beside_collective`` and ``beside_copy``: means over the launches of a signature, 0 to 1, 0 for
        collectives and copies over a link themselves. The same rows where the run has neither of them.
    """
    collectives = np.asarray(rows.family == names.COLLECTIVE, dtype=np.bool_)
    copies = over_link(rows) & ~collectives
    if not (collectives.any() or copies.any()):
        return rows
    activities = run.table("kernels", ("start_ns", "duration_ns", "device", "signature"))
    signature = rows.number("signature").astype(np.int64)
    row = np.full(int(signature.max(initial=0)) + 1, -1, dtype=np.int64)
    row[signature] = np.arange(len(signature))
    numbers = row[activities["signature"].to_numpy()]
    start = activities["start_ns"].to_numpy()
    end = start + activities["duration_ns"].to_numpy()
    device = activities.select(pl.col("device").fill_null(-1))["device"].to_numpy()
    launches = np.maximum(np.bincount(numbers, minlength=len(rows)), 1)
    beside = {}
    for column, links in (("beside_collective", collectives), ("beside_copy", copies)):
        share = _shares(start, end, device, links[numbers])
        mean = np.bincount(numbers, share, len(rows)) / launches
        beside[column] = np.where(collectives | copies, 0.0, mean)
    return replace(rows, columns={**rows.columns, **beside})


def _shares(start: Floats, end: Floats, device: Floats, chosen: Bools) -> Floats:
    """Return the share of each activity's time in which a chosen one of its device ran. Shape (n,)."""
    share = np.zeros(len(start))
    for one in np.unique(device[chosen]):
        here = np.flatnonzero(device == one)
        origin = start[here].min()
        first, last = start[here[chosen[here]]] - origin, end[here[chosen[here]]] - origin
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        apart = np.concatenate([[True], first[1:] > last[:-1]])
        begins, ends = first[apart], last[np.concatenate([apart[1:], [True]])]
        covered = np.concatenate([[0], np.cumsum(ends - begins)])
        from_start, to_end = (_covered(t[here] - origin, begins, ends, covered) for t in (start, end))
        share[here] = (to_end - from_start) / np.maximum(end[here] - start[here], 1)
    return share


def _covered(time: Floats, begins: Floats, ends: Floats, covered: Floats) -> Floats:
    """Return how much of the time before each moment lies in intervals apart from each other. [ns]"""
    place = np.searchsorted(begins, time, side="right")
    last = np.maximum(place - 1, 0)
    inside = np.where(place > 0, np.minimum(time - begins[last], ends[last] - begins[last]), 0)
    return np.asarray(covered[last] * (place > 0) + inside, dtype=np.float64)
