"""Predictions of the model for each row at each clock; timings of separate rows joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers, Texts
from tracetool.core.work import Work

#: Units whose utilization is reported, in the order of the ``util_*`` columns.
UNITS = ("tensor", "fp32", "fp64", "int", "sfu", "shared", "l2", "dram", "link")
#: What sets the time: a unit, or one of these.
BOUNDS = (*UNITS, "latency", "launch")
#: What a row's time is predicted from: sizes the input states; its own measured time alone; the usual
#: rate of its family, on that time; no basis at all.
FROM = ("shapes", "anchored only", "family rate", "not at all")


@dataclass(frozen=True, eq=False)
class BusyTimes(Mapping[str, Floats]):
    """Time of each unit of ``UNITS`` at its peak rate, at most a row's duration; computed when it is read.

    Parameters
    ----------
    cycles : mapping of str to array, shape (n,)
        What units of the core clock need. [clk]
    seconds : mapping of str to array, shape (n,)
        What the others need. [s]
    clock_mhz, duration_s : array, shape (n, c)
        Core clocks, and the duration there. [MHz], [s]
    """

    cycles: Mapping[str, Floats]
    seconds: Mapping[str, Floats]
    clock_mhz: Floats
    duration_s: Floats

    def __getitem__(self, unit: str) -> Floats:
        """Return the busy time of a unit, shape (n, c). [s]"""
        needed = self.cycles[unit] if unit in self.cycles else self.seconds[unit]
        if not needed.any():
            return np.broadcast_to(0.0, self.duration_s.shape)
        column = needed[:, None]
        if unit in self.cycles:
            return np.minimum(column * 1e-6 / self.clock_mhz, self.duration_s)
        return np.minimum(column, self.duration_s)

    def of_rows(self, rows: slice) -> BusyTimes:
        """Return the times of some rows."""
        cycles, seconds = ({unit: n[rows] for unit, n in of.items()} for of in (self.cycles, self.seconds))
        return BusyTimes(cycles, seconds, self.clock_mhz[rows], self.duration_s[rows])

    def __iter__(self) -> Iterator[str]:
        return iter(UNITS)

    def __len__(self) -> int:
        return len(UNITS)


@dataclass(frozen=True)
class Timing:
    """Time and utilization of n rows at c clocks.

    ``low``/``high`` bound the true duration at 90 % as factors of ``duration_s``. ``clock_low`` is the part
    of ``low`` that all rows have in common: the recording's clock was not stated and may have been lower.
    """

    duration_s: Floats  # (n, c)
    low: Floats  # (n, c) factor, at most 1
    high: Floats  # (n, c) factor, at least 1
    busy_s: Mapping[str, Floats]  # per unit of UNITS, (n, c), at most duration_s
    sm_active: Floats  # (n, c) share of SM-time with a resident block
    fixed_s: Floats  # (n,) part that scales with no clock
    core_s: Floats  # (n, c) part that scales with the core clock
    memory_s: Floats  # (n, c) part that scales with the memory clock
    bound: Numbers  # (n, c) index into BOUNDS, of 8 bits
    work: Work
    basis: Texts  # (n,) what the row rests on: "calibrated", "transferred", "prior", ...
    clock_low: Floats | None = None  # (n,) factor, at most 1; None where every clock is stated


@dataclass(frozen=True)
class Prediction:
    """Time, power and energy of n rows at c requested clocks."""

    requested_mhz: Floats  # (c,)
    clock_mhz: Floats  # (n, c) after the power cap
    timing: Timing  # at clock_mhz
    power_w: Floats  # (n, c) mean over the kernel, base included
    power_low_w: Floats
    power_high_w: Floats
    energy_j: Floats  # (n, c)
    energy_low_j: Floats
    energy_high_j: Floats
    parts_j: Mapping[str, Floats]  # (n, c) each; sums to energy_j: base, clock, compute, onchip, dram, link
    throttled: Bools  # (n, c) clock below the requested one because of the cap
    idle_w: Floats  # (c,) power with nothing running, at the requested clock
    throttled_time: Floats | None = None  # (n, c) share of the time, where a row is throttled part of it

    @property
    def power_half(self) -> Floats:
        """90 % half-width of ln power had each row's time been right: its coefficients'. Shape (n, c).

        A row's interval of power holds beside it what an error of its time does, which is the less, the
        larger the base's share of its energy. The limit cuts the upper end; what lies below is taken.
        """
        energy = np.maximum(self.energy_j, 1e-30)
        working = 1.0 - np.clip(self.parts_j["base"] / energy, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.where(self.power_w > 0, np.log(self.power_w / self.power_low_w), 0.0)
        return np.sqrt(np.maximum(below**2 - (np.log(self.timing.high) * working) ** 2, 0.0))

    @property
    def throttled_share(self) -> Floats:
        """Share of each row's time in which the cap lowers the clock. Shape (n, c)."""
        all_or_nothing = self.throttled.astype(np.float64)
        return all_or_nothing if self.throttled_time is None else self.throttled_time


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

    def grid(row_sets: Sequence[tuple[Ints, Floats]]) -> Floats:
        filled = np.zeros((n, clocks))
        for rows, values in row_sets:
            filled[rows] = values
        return filled

    def column(row_sets: Sequence[tuple[Ints, Floats]]) -> Floats:
        filled = np.ones(n)
        for rows, values in row_sets:
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
        low=grid([(r, t.low) for r, t in pieces]),
        high=grid([(r, t.high) for r, t in pieces]),
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
