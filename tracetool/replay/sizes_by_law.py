"""Sizes inferred from a measured duration, set to those at which the model predicts that duration.

What :mod:`tracetool.kernels.infer_sizes` infers goes by the usual share of a unit's peak. The law that prices
the row knows more: waves of blocks, caches, loads that wait for one another. A size taken from one and priced
by the other would be predicted at another time than the measured one, which it came from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.families.registry import family_of, known_shape
from tracetool.hardware.gpu import Gpu
from tracetool.model.timing import time_rows

#: Predicted times this close to the measured ones are as good. [1] A prior: half of what launches differ by.
_CLOSE: Final = 0.02
#: How far beyond its interval a size is looked for, below and above: laws know kernels that are slower than
#: any usual share of the peak, and what caches hold. [1] A prior.
_FURTHER: Final = (8.0, 4.0)
#: Halvings of the range of a size's logarithm: its ends lie a factor of 200 apart at most. [1] By definition
#: of bisection: ln(200) / 2^9 is within _CLOSE.
_HALVINGS: Final = 9
#: A time that the size does not move by more than this over its least says nothing of it. [1] A prior.
_STARTED: Final = 1.1
#: Multiples of which sizes are, and their least.
_STEP: Final = {"k": 8.0, "cols": 1.0, "kv_len": 1.0}


def sizes_by_law(rows: OperatorColumns, gpu: Gpu, clock_mhz: float) -> OperatorColumns:
    """Return rows whose inferred sizes are those at which the model predicts their measured times.

    Parameters
    ----------
    rows : OperatorColumns
        Signatures of a run, with ``duration_us``, ``inferred`` and its interval.
    gpu : Gpu
        The GPU they ran on.
    clock_mhz : float
        The core clock they ran at. [MHz]

    Returns
    -------
    OperatorColumns
        The same rows where the law has no such size: the time is a launch's at any size, or less than the
        peak allows. A size stays inside the 90 % interval stated for it, or that interval is widened to it.
    """
    texts, place = rows.distinct("inferred")
    inferred = np.array([text.rpartition(" ")[2] for text in texts], dtype=object)[place]
    measured = rows.number("duration_us", 0.0) * 1e-6
    open_rows = np.isfinite(rows.number("inferred_low")) & (measured > 0) & known_shape(rows)
    open_rows &= _is_the_families_own(rows, inferred)
    if not open_rows.any():
        return rows
    changed = dict(rows.columns)
    for name in _STEP:
        places = np.flatnonzero(open_rows & (inferred == name))
        if not len(places):
            continue
        size = rows.number(name)[places]
        found = _solved(rows.take(places), name, gpu, clock_mhz, measured[places])
        for column, factor in (("inferred_low", np.minimum), ("inferred_high", np.maximum)):
            bounds = np.array(changed[column], dtype=np.float64)
            bounds[places] = factor(bounds[places] * size / found, 1.0)
            changed[column] = bounds
        sizes = np.array(changed[name], dtype=np.float64)
        sizes[places] = found
        changed[name] = sizes
    return replace(rows, columns=changed)


def _is_the_families_own(rows: OperatorColumns, inferred: Texts) -> Bools:
    """Return the rows whose size was read off the time, unlike keys taken to be the queries. (n,)"""
    families, place = rows.distinct_families
    own = np.array([family_of(name).inferred for name in families], dtype=object)[place]
    themselves = (inferred == "kv_len") & (rows.number("kv_len") == rows.number("q_len"))
    return np.asarray((own == inferred) & ~themselves, dtype=np.bool_)


def _solved(rows: OperatorColumns, name: str, gpu: Gpu, clock_mhz: float, measured_s: Floats) -> Floats:
    """Return the size at which the law takes the measured time; as it was where none does. (n,)"""
    step, size = _STEP[name], rows.number(name)

    def whole(value: Floats) -> Floats:
        return np.maximum(step, np.round(value / step) * step)

    def time_s(value: Floats) -> Floats:
        moved = replace(rows, columns={**rows.columns, name: value})
        return time_rows(moved, gpu, np.full((len(rows), 1), clock_mhz)).duration_s[:, 0]

    before_s = time_s(size)
    low = whole(size * rows.number("inferred_low") / _FURTHER[0])
    high = np.maximum(whole(size * rows.number("inferred_high") * _FURTHER[1]), size)
    least_s, most_s = time_s(low), time_s(high)
    # a launch takes its time at any size: only what is beyond it tells the size
    wanted_s = np.maximum(measured_s, np.minimum(_STARTED * least_s, before_s))
    solvable = (np.abs(np.log(before_s / measured_s)) > _CLOSE) & (least_s < wanted_s) & (most_s > wanted_s)
    for _ in range(_HALVINGS if solvable.any() else 0):
        middle = np.sqrt(low * high)
        longer = time_s(whole(middle)) > wanted_s
        low, high = np.where(longer, low, middle), np.where(longer, middle, high)
    return np.where(solvable, whole(np.sqrt(low * high)), size)
