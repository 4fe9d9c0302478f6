"""Activities in the order of their times: from one clock to the next it hardly changes."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.replay.compiled import compiled
from tracetool.replay.scratch import Scratch

#: Places an activity may move on average before sorting anew is quicker. [1]
_MOVES = 8


def in_order(time_ns: Floats, rows: Ints | None, scratch: Scratch, name: str) -> Numbers:
    """Return rows by time, equal times by row.

    Parameters
    ----------
    time_ns : array, shape (n,)
        Times of all activities. [ns]
    rows : array of int, shape (k,), optional
        Distinct rows of it, rising; by default all.
    scratch : Scratch
        Holds the order of the last call of this ``name``, from which this one starts where it is of the
        same rows.
    name : str
        Which order.

    Examples
    --------
    >>> in_order(np.array([3.0, 1.0, 2.0, 1.0]), None, Scratch(), "start").tolist()
    [1, 3, 2, 0]
    """
    n = len(time_ns) if rows is None else len(rows)
    settle = compiled(_settle, n)
    if settle is _settle:  # not worth compiling yet
        return _sorted(time_ns, rows)
    reusable = rows is None and scratch.has(name, n)
    if not reusable:
        scratch.forget(name)  # a longer one would be left half overwritten
    order = scratch.take(name, n, np.int32)
    if not reusable:
        order[:] = np.arange(n) if rows is None else rows
    if not settle(order, time_ns, _MOVES * n):
        order[:] = _sorted(time_ns, rows)
    if rows is not None:
        scratch.forget(name)
    return order


def _sorted(time: Floats, rows: Ints | None) -> Numbers:
    order = np.argsort(time, kind="stable") if rows is None else rows[np.argsort(time[rows], kind="stable")]
    return order.astype(np.int32)


def _settle(order: Numbers, time: Floats, most: int) -> bool:
    """Sort by insertion, in place; give up after ``most`` moves."""
    moves = 0
    for a in range(1, len(order)):
        i = order[a]
        t = time[i]
        b = a - 1
        while b >= 0 and (time[order[b]] > t or (time[order[b]] == t and order[b] > i)):
            order[b + 1] = order[b]
            b -= 1
        order[b + 1] = i
        moves += a - 1 - b
        if moves > most:
            return False
    return True
