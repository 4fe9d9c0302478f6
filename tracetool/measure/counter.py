"""Cumulative energy counters: their steps as readings, and whether they run at the right rate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.number_text import counted
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings, poll_spacing, query_times, update_period
from tracetool.sources.telemetry.units import integrals

#: Relative difference from integrated power beyond which a counter runs at a wrong rate. [1] A prior: gains
#: of GPUs differ by less.
_WRONG = 0.12
#: Time that a check integrates, at least. [s] A prior: twenty ticks of the slowest counter known.
_LEAST_S = 2.0
#: Decreases per increase above which a counter did not merely restart: the column is noise, or holds two
#: counters, of which every second change is a decrease. [1] A prior.
_FALLS = 0.05
#: Ticks from which on their period is estimated, and largest share of polls with a new value at which the
#: other polls bracket the ticks. [1] Priors.
_FEW_TICKS, _REPEATED = 8, 0.8
#: Range of ticks per poll in which a poll sees one tick more or less, which no reading shows: means are then
#: taken over the larger number of ticks. Polls at the period of the ticks, within the second number, miss
#: few. [1] Priors.
_PACES, _SAME_PACE = (0.8, 10.0), 0.02
#: Standard deviation of the stamps of lines. [s] A prior.
_STAMP_SD_S = 0.001
#: Width of a uniform distribution over its standard deviation. [1] By definition.
SQRT12 = float(np.sqrt(12.0))


@dataclass(frozen=True)
class CounterCheck:
    """A counter against the power logged beside it."""

    ratio: float | None  # counter over integrated power [1]; None where the log has no power
    quantum_j: float  # smallest rise seen [J]
    rises: int
    falls: int  # times it went backwards
    usable: bool

    def sentence(self) -> str:
        """Return the finding as a sentence."""
        steps = f"steps of {self.quantum_j * 1e3:.3g} mJ"
        often = counted(self.falls, "time")
        if too_many_falls(self.falls, self.rises):
            changes = f"{self.rises + self.falls:,} changes (two in one column?)"
            return f"the energy counter went backwards {often} in {changes} and is not used"
        left_out = f"; it went backwards {often}: each such interval is left out" if self.falls else ""
        if self.ratio is None:
            unchecked = f"the log has an energy counter alone ({steps}) and nothing to check its rate against"
            return unchecked + left_out
        shown = f"{self.ratio:.3f} of integrated power, {steps}"
        if not self.usable:
            return f"the energy counter runs at a wrong rate ({shown}) and is not used"
        return f"the energy counter agrees with integrated power ({shown}){left_out}"


def too_many_falls(falls: int, rises: int) -> bool:
    """Return whether a counter goes backwards too often to be one that is set to zero at times."""
    return falls > max(1.0, _FALLS * rises)


def counter_steps(time_s: Floats, energy_j: Floats) -> tuple[Floats, Floats, Ints]:
    """Return the moments a counter was first seen at each new value, the values, and the part of each.

    A fall begins a new part: between the last moment of one part and the first of the next nobody knows what
    the counter gained. Each shape (m,), parts numbered from 0. [s], [J]
    """
    good = np.isfinite(time_s) & np.isfinite(energy_j)
    time, energy = time_s[good], energy_j[good]
    change = np.diff(energy, prepend=-np.inf)
    changed = change != 0
    return time[changed], energy[changed], np.cumsum(change < 0)[changed]


def check_counter(log: PowerLog) -> CounterCheck | None:
    """Compare a log's counter with the integral of its power, where it rises.

    Returns
    -------
    CounterCheck or None
        None where the log has no counter, or too little of it. Both ends of each part without a fall have an
        error of up to one tick of the counter.

    Notes
    -----
    Some AMD drivers advance the accumulator at a wrong rate; integrating power while reading it shows.
    """
    time, energy, part = counter_steps(log.counter_time_s, log.counter_j)
    rise = np.diff(part) == 0
    rises, falls = int(rise.sum()), len(rise) - int(rise.sum())
    if rises < 2:
        return None
    gained, lasted = np.diff(energy), np.diff(time)
    quantum, usable = float(gained[rise].min()), not too_many_falls(falls, rises)
    if log.field == "counter":
        return CounterCheck(None, quantum, rises, falls, usable)
    if len(log.time_s) < 3:
        return None
    inside = rise & (time[:-1] >= log.time_s[0]) & (time[1:] <= log.time_s[-1])
    if lasted[inside].sum() < _LEAST_S:
        return None
    integrated = float(np.diff(integrals(log.time_s, log.power_w, time))[inside].sum())
    ratio = float(gained[inside].sum()) / max(integrated, 1e-12)
    highest_w = float(log.power_w[(log.time_s >= time[0]) & (log.time_s <= time[-1])].max())
    ends_s = 2.0 * np.sqrt(len(np.unique(part[:-1][inside]))) * float(np.median(lasted[rise]))
    error = ends_s * highest_w / max(integrated, 1e-12)
    return CounterCheck(ratio, quantum, rises, falls, bool(usable and abs(ratio - 1.0) <= _WRONG + error))


@dataclass(frozen=True)
class Ticks:
    """When a counter was what: m values without a fall within a part, parts numbered from 0."""

    time_s: Floats  # (m,) [s]
    energy_j: Floats  # (m,) [J]
    part: Ints  # (m,)
    place_sd_s: float  # how far off each moment may be [s]
    period_s: float  # between two ticks; NaN where the polls do not show them [s]


def counter_ticks(time_s: Floats, energy_j: Floats) -> Ticks:
    """Return the ticks of a polled counter, at the moments they happened where the polls show that.

    Polls that repeat values bracket each tick, and ticks come in a period: their places on it are known far
    better than from one bracket. What the first poll shows was counted nobody knows when, and is left out.
    Where every poll shows another value, that value is taken to be of the poll.
    """
    time, energy, part = counter_steps(time_s, energy_j)
    good = np.isfinite(time_s) & np.isfinite(energy_j)
    polls, values = time_s[good], energy_j[good]
    if len(time) < _FEW_TICKS or len(time) > _REPEATED * len(polls):
        return Ticks(time, energy, part, float(np.median(np.diff(time))) if len(time) > 1 else 0.0, np.nan)
    last = polls[np.searchsorted(polls, time[1:]) - 1]  # the polls before each change
    time, energy, part = time[1:], energy[1:], part[1:]
    period, error, origin = update_period(polls, values)
    if not np.isfinite(period):
        return Ticks(0.5 * (last + time), energy, part, float(np.median(time - last)) / SQRT12, np.nan)
    narrow = time - last < period
    number = np.where(
        narrow, np.round((0.5 * (last + time) - origin) / period), np.floor((time - origin) / period)
    )
    at = np.where(narrow, np.clip(origin + number * period, last, time), origin + number * period)
    later = np.diff(at, prepend=-np.inf) > 0.5 * period  # of two changes within one tick the first is it
    spread = float(np.hypot(np.std((at - origin - number * period)[narrow]), error * np.sqrt(len(at))))
    return Ticks(at[later], energy[later], part[later], spread, period)


def counter_readings(log: PowerLog, update_s: float) -> Readings:
    """Return a counter's increase from tick to tick as readings of mean power, which leave no time out.

    Parameters
    ----------
    log : PowerLog
        With a counter; its stamps are lines of a logger.
    update_s : float
        Nominal tick of the counter. [s]

    Notes
    -----
    Between two ticks the counter gained what was drawn between them, so the mean over that time is a full
    boxcar. Where polls do not show the ticks, means are taken over equal steps, each of which may hold one
    tick more or less.
    """
    query_s = query_times(log.counter_time_s)
    ticks = counter_ticks(query_s, log.counter_j)
    polls = len(query_s)
    if np.isfinite(ticks.period_s):
        steps = np.round(np.diff(ticks.time_s) / ticks.period_s)
        whole = (steps == 1.0) & (np.diff(ticks.part) == 0)
        if whole.sum() > 2:
            power_w = np.diff(ticks.energy_j)[whole] / ticks.period_s
            at = ticks.time_s[1:][whole]
            return Readings(at, power_w, ticks.period_s, 1e-4 * ticks.period_s, 0.0, polls, ticks.place_sd_s)
    stepped = counter_log(replace(log, counter_time_s=query_s), update_s)
    step = poll_spacing(stepped.time_s) or update_s
    jitter_s = min(step, max(poll_spacing(query_s), update_s))
    tick_sd_s = min(update_s, step) / SQRT12
    return Readings(stepped.time_s, stepped.power_w, step, 0.02 * step, jitter_s, polls, tick_sd_s=tick_sd_s)


def counter_log(log: PowerLog, update_s: float) -> PowerLog:
    """Return a counter as a power log: mean power over equal steps, those that hold a fall left out.

    Parameters
    ----------
    log : PowerLog
        With a counter.
    update_s : float
        Nominal tick of the counter. [s]
    """
    ticks = counter_ticks(log.counter_time_s, log.counter_j)
    time, energy = ticks.time_s, ticks.energy_j
    fall = np.diff(ticks.part) > 0
    lasted = np.diff(time)
    if (~fall).sum() < 2:
        return log
    lasting = float(np.median(lasted[~fall]))
    step = max(lasting, update_s)
    pace = lasting / update_s
    if np.isnan(ticks.period_s) and _PACES[0] < pace < _PACES[1] and abs(pace - 1.0) > _SAME_PACE:
        step = _PACES[1] * update_s
    count = int(np.floor((time[-1] - time[0]) / step + 1e-6))
    grid = time[0] + step * np.arange(count + 1)
    total = np.concatenate([[0.0], np.cumsum(np.where(fall, 0.0, np.diff(energy)))])
    unseen = np.concatenate([[0.0], np.cumsum(np.where(fall, lasted, 0.0))])
    power = np.diff(np.interp(grid, time, total)) / step
    seen = np.diff(np.interp(grid, time, unseen)) < 1e-6 * step
    return PowerLog("counter", grid[1:][seen], power[seen], log.counter_time_s, log.counter_j)


def counter_totals(log: PowerLog, start_s: float, end_s: float) -> list[tuple[float, float, float, float]]:
    """Return begin, end, energy and its deviation of each part of a counter without a fall within a span.

    Returns
    -------
    begin, end, energy, deviation : float
        The part [s], what the counter gained over it and how far off that may be [J]; parts of fewer than
        three values are left out.
    """
    ticks = counter_ticks(log.counter_time_s, log.counter_j)
    time, energy, part = ticks.time_s, ticks.energy_j, ticks.part
    out = []
    inside = (time >= start_s) & (time <= end_s)
    for number in np.unique(part[inside]):
        t, e = time[inside & (part == number)], energy[inside & (part == number)]
        if len(t) < 3:
            continue
        mean = (e[-1] - e[0]) / (t[-1] - t[0])
        resolved = np.isfinite(ticks.period_s)
        open_s = max(ticks.place_sd_s, _STAMP_SD_S) if resolved else float(np.median(np.diff(t))) / SQRT12
        quantum = 0.0 if resolved else float(np.diff(e).min())
        deviation = float(np.hypot(mean * open_s * np.sqrt(2.0), quantum))
        out.append((float(t[0]), float(t[-1]), float(e[-1] - e[0]), deviation))
    return out
