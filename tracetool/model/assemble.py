"""Put timings of separate rows into one record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.prediction import Timing
from tracetool.core.work import Work


def joined(n: int, clocks: int, pieces: Sequence[tuple[Ints, Timing]]) -> Timing:
    """Return the timing of ``n`` rows from timings of disjoint sets of them.

    Parameters
    ----------
    n, clocks : int
        Rows and clocks of the result.
    pieces : sequence of (rows, timing)
        Places of a timing's rows in the result.
    """
    if len(pieces) == 1 and len(pieces[0][0]) == n:
        return pieces[0][1]

    def grid(parts: Sequence[tuple[Ints, Floats]]) -> Floats:
        filled = np.zeros((n, clocks))
        for rows, values in parts:
            filled[rows] = values
        return filled

    def column(parts: Sequence[tuple[Ints, Floats]]) -> Floats:
        filled = np.ones(n)
        for rows, values in parts:
            filled[rows] = values
        return filled

    work, bound, basis = Work.of(n), np.zeros((n, clocks), dtype=np.int64), np.full(n, "", dtype=object)
    for rows, timing in pieces:
        work.put(rows, timing.work)
        bound[rows] = timing.bound
        basis[rows] = timing.basis
    shared = [(r, t.clock_low) for r, t in pieces]
    units = sorted({u for _, t in pieces for u in t.busy_s})
    return Timing(
        duration_s=grid([(r, t.duration_s) for r, t in pieces]),
        low=column([(r, t.low) for r, t in pieces]),
        high=column([(r, t.high) for r, t in pieces]),
        busy_s={u: grid([(r, t.busy_s[u]) for r, t in pieces if u in t.busy_s]) for u in units},
        sm_active=grid([(r, t.sm_active) for r, t in pieces]),
        fixed_s=column([(r, t.fixed_s) for r, t in pieces]),
        core_s=grid([(r, t.core_s) for r, t in pieces]),
        memory_s=grid([(r, t.memory_s) for r, t in pieces]),
        bound=bound,
        work=work,
        basis=basis,
        clock_low=None
        if all(c is None for _, c in shared)
        else column([(r, c) for r, c in shared if c is not None]),
    )
