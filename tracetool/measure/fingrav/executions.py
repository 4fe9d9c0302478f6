"""Executions of one kernel over repeated runs: golden runs and where time and power grow steady."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints

#: An idle time this many times the usual one, and at least this long, starts a new run. [1], [s]
_PAUSE_TIMES, _PAUSE_S = 20.0, 2e-3
#: Executions this much longer than the shortest still drop. [1]
_STILL_DROPS = 0.02


@dataclass(frozen=True)
class Executions:
    """Executions in order of run and time."""

    run: Ints  # (e,) 0 to runs - 1
    position: Ints  # (e,) place in its run, 0 first
    start_s: Floats  # (e,) host clock [s]
    end_s: Floats  # (e,)

    @property
    def duration_s(self) -> Floats:
        """Length of each. Shape (e,). [s]"""
        return self.end_s - self.start_s

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.run.max()) + 1 if len(self.run) else 0

    def table(self, values: Floats) -> Floats:
        """Return values laid out as (runs, positions), NaN where a run is shorter."""
        out = np.full((self.runs, int(self.position.max(initial=-1)) + 1), np.nan)
        out[self.run, self.position] = values
        return out


def in_runs(start_s: Floats, end_s: Floats, run: Ints | None = None) -> Executions:
    """Return executions with their run and place in it.

    Parameters
    ----------
    start_s, end_s : array, shape (e,)
        Executions, in any order. [s]
    run : array of int, shape (e,), optional
        Run of each. Without it an unusually long idle time starts a new run.
    """
    order = np.argsort(start_s, kind="stable") if run is None else np.lexsort((start_s, run))
    start, end = start_s[order], end_s[order]
    if run is None:
        pause = np.concatenate([[np.inf], start[1:] - np.maximum.accumulate(end)[:-1]])
        usual = float(np.median(pause[1:])) if len(pause) > 1 else 0.0
        fresh = pause > max(_PAUSE_S, _PAUSE_TIMES * usual)
        number = np.cumsum(fresh) - 1
    else:
        _, number = np.unique(run[order], return_inverse=True)
        fresh = np.diff(number, prepend=-1) > 0
    first = np.flatnonzero(fresh)
    position = np.arange(len(start)) - first[number]
    return Executions(number.astype(np.int64), position, start, end)


def largest_bin(values: Floats, margin: float) -> Bools:
    """Return which values are in the fullest bin of relative width ``margin``. Shape (n,).

    Among equally full bins the narrowest wins; NaN is in none.

    >>> largest_bin(np.array([1.0, 1.03, 1.04, 1.5]), 0.05).tolist()
    [True, True, True, False]
    """
    finite_values = np.sort(values[np.isfinite(values)])
    if not len(finite_values):
        return np.zeros(len(values), dtype=bool)
    last = np.searchsorted(finite_values, finite_values * (1.0 + margin), side="right")
    count = last - np.arange(len(finite_values))
    width = finite_values[last - 1] - finite_values
    best = int(np.lexsort((width, -count))[0])
    with np.errstate(invalid="ignore"):
        return np.asarray((values >= finite_values[best]) & (values <= finite_values[last[best] - 1]))


def steady_execution(executions: Executions) -> int:
    """Return the position from which execution time no longer drops (SSE), 0 first.

    The median over runs at each position is compared with the lowest that follows.
    """
    table = executions.table(executions.duration_s)
    enough = np.isfinite(table).sum(axis=0) >= max(1, table.shape[0] // 2)
    typical = np.nanmedian(table[:, enough], axis=0)
    return int(np.argmax(typical <= (1.0 + _STILL_DROPS) * typical.min()))


def golden_runs(executions: Executions, positions: Ints, margin: float) -> Bools:
    """Return the runs whose executions at all of ``positions`` are in the fullest bin. Shape (runs,)."""
    table = executions.table(executions.duration_s)
    good = np.ones(table.shape[0], dtype=bool)
    for position in positions:
        if position < table.shape[1]:
            good &= largest_bin(table[:, position], margin)
    return good
