"""Cumulative energy counters: their steps as readings, and whether they run at the right rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.number_text import counted
from tracetool.measure.power_log import PowerLog

#: A counter this far from integrated power runs at a wrong rate: gains of GPUs differ by less.
_WRONG = 0.12
#: Least time a check integrates. [s]
_LEAST_S = 2.0


@dataclass(frozen=True)
class CounterCheck:
    """A counter against the power logged beside it."""

    ratio: float  # counter over integrated power [1]
    ratio_sd: float
    quantum_j: float  # smallest step seen [J]
    tick_s: float  # median time between changes as polled [s]
    resets: int  # times it went backwards
    usable: bool

    def sentence(self) -> str:
        """Return the finding as a sentence."""
        if self.resets:
            return f"the energy counter went backwards {counted(self.resets, 'time')} and is not used"
        shown = f"{self.ratio:.3f} of integrated power, steps of {self.quantum_j * 1e3:.3g} mJ"
        if not self.usable:
            return f"the energy counter runs at a wrong rate ({shown}) and is not used"
        return f"the energy counter agrees with integrated power ({shown})"


def counter_steps(time_s: Floats, energy_j: Floats) -> tuple[Floats, Floats]:
    """Return the moments a counter was first seen at each new value, and the values; no backward steps."""
    good = np.isfinite(time_s) & np.isfinite(energy_j)
    time, energy = time_s[good], energy_j[good]
    fresh = np.flatnonzero(np.diff(energy, prepend=-np.inf) > 0)
    return time[fresh], energy[fresh]


def check_counter(log: PowerLog) -> CounterCheck | None:
    """Compare a log's counter with the integral of its power.

    Returns
    -------
    CounterCheck or None
        None where the log has no counter, or too little of it. Both ends have an error of up
        to one tick of the counter.

    Notes
    -----
    Some AMD drivers advance the accumulator at a wrong rate; integrating power while reading it shows.
    """
    time, energy = counter_steps(log.counter_time_s, log.counter_j)
    if len(time) < 3:
        return None
    resets = int((np.diff(log.counter_j[np.isfinite(log.counter_j)]) < 0).sum())
    steps = np.diff(energy)
    tick = float(np.median(np.diff(time)))
    quantum = float(steps.min())
    if log.field == "counter" or len(log.time_s) < 3:
        return CounterCheck(float("nan"), float("nan"), quantum, tick, resets, usable=resets == 0)
    low, high = max(time[0], log.time_s[0]), min(time[-1], log.time_s[-1])
    if high - low < _LEAST_S:
        return None
    inside = (time >= low) & (time <= high)
    first, last = time[inside][0], time[inside][-1]
    counted = float(energy[inside][-1] - energy[inside][0])
    grid = np.union1d(log.time_s[(log.time_s > first) & (log.time_s < last)], [first, last])
    power = np.interp(grid, log.time_s, log.power_w)
    integrated = float(np.trapezoid(power, grid))
    ratio = counted / max(integrated, 1e-12)
    error = 2.0 * tick * float(np.max(power)) / max(integrated, 1e-12)
    usable = resets == 0 and abs(ratio - 1.0) <= _WRONG + error
    return CounterCheck(ratio, error / np.sqrt(12.0), quantum, tick, resets, usable)


def counter_log(log: PowerLog, update_s: float) -> PowerLog:
    """Return a counter as a power log: mean power over equal steps.

    Parameters
    ----------
    log : PowerLog
        With a counter.
    update_s : float
        Nominal tick of the counter. [s]

    Notes
    -----
    Between two changes the counter gained what was drawn between its two ticks, so the mean over the
    time between them is a full boxcar whose window is that time: nothing goes unseen.
    """
    time, energy = counter_steps(log.counter_time_s, log.counter_j)
    if len(time) < 3:
        return log
    step = max(float(np.median(np.diff(time))), update_s)
    count = int(np.floor((time[-1] - time[0]) / step + 1e-6))
    grid = time[0] + step * np.arange(count + 1)
    power = np.diff(np.interp(grid, time, energy)) / step
    return PowerLog("counter", grid[1:], power, log.counter_time_s, log.counter_j)


def counter_totals(log: PowerLog, start_s: float, end_s: float) -> tuple[float, float, float, float] | None:
    """Return begin, end, energy and its deviation of the counter's longest stretch within a span.

    Returns
    -------
    begin, end, energy, deviation : float
        The stretch [s], what the counter gained over it and how far off that may be. [J]
    """
    time, energy = counter_steps(log.counter_time_s, log.counter_j)
    inside = (time >= start_s) & (time <= end_s)
    if inside.sum() < 3:
        return None
    t, e = time[inside], energy[inside]
    mean = (e[-1] - e[0]) / (t[-1] - t[0])
    tick = float(np.median(np.diff(t)))
    quantum = float(np.diff(e).min())
    deviation = float(np.hypot(mean * tick * np.sqrt(2.0 / 12.0), quantum))
    return float(t[0]), float(t[-1]), float(e[-1] - e[0]), deviation
