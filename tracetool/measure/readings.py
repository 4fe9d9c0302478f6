"""Readings as the sensor made them: updates recovered from a log that polled it.

A logger polls faster or slower than the sensor updates. Polls of one update hold one value and say
nothing new; what counts is the update's time, which the polls bracket.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats

#: Updates used for the first estimate of the period, which the others refine. [1] For speed.
_FIRST = 400
#: Part of a period in which a poll certainly shows that period's reading, and how early one may be stamped,
#: in periods. [1] Priors.
_SAFE, _SLACK = (0.15, 0.8), 0.02
#: Share of polls whose bracket may miss its update because stamps jitter. [1] A prior.
_FEW_OFF = 0.05


#: Delay of a value behind its stamp, or half the polling interval if that is less: a logger stamps a line,
#: then queries the driver. [s] Measured: 3 to 6 ms on `nvidia-smi` logs of GPUs with a meter.
READ_S = 0.003


@dataclass(frozen=True)
class Readings:
    """Distinct readings of one sensor.

    ``time_s`` is when the reading was updated; the true update lies within ``jitter_s`` before it:
    zero where the polls resolve the update grid, the update period where they are too slow to.
    """

    time_s: Floats  # (n,) increasing [s]
    power_w: Floats  # (n,) [W]
    update_s: float  # period between updates [s]
    update_sd_s: float  # its standard error [s]
    jitter_s: float  # width of the unknown delay from update to log [s]
    polls: int  # lines of the log behind it
    grid_sd_s: float = 0.0  # how far all updates together may lie from where the polls put them [s]
    tick_sd_s: float = 0.0  # how far each tick of a counter may lie from where it was read [s]

    def __len__(self) -> int:
        return len(self.time_s)


def poll_spacing(time_s: Floats) -> float:
    """Return the median time between polls, ignoring repeated stamps. [s]"""
    steps = np.diff(time_s)
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 0.0


def query_times(stamped_s: Floats) -> Floats:
    """Return when the driver was asked for the values of stamped lines. Shape (n,). [s]"""
    return stamped_s + min(READ_S, 0.5 * poll_spacing(np.sort(stamped_s)))


def _concentration(times: Floats, periods: Floats) -> Floats:
    """Length of the mean phase vector of ``times`` at each period, 0 to 1."""
    phase = 2 * np.pi * times[None, :] / periods[:, None]
    return np.asarray(np.hypot(np.cos(phase).mean(axis=1), np.sin(phase).mean(axis=1)))


def _refine(low: Floats, high: Floats, period: float) -> tuple[float, float, Floats]:
    """Fit ``origin + n * period`` to brackets of the updates; return both and the misses."""
    middle = 0.5 * (low + high)
    count = min(len(middle), _FIRST)
    origin = middle[0]
    while True:
        centers = middle[:count]
        angle = np.angle(np.mean(np.exp(2j * np.pi * (centers - origin) / period)))
        origin += angle / (2 * np.pi) * period
        n = np.round((centers - origin) / period)
        good = np.abs(centers - origin - n * period) < 0.35 * period
        if good.sum() >= 3 and np.ptp(n[good]) > 0:
            period, origin = np.polyfit(n[good], centers[good], 1)
        if count == len(middle):
            break
        count = min(len(middle), count * 2)
    n = np.round((middle - origin) / period)
    miss = np.maximum(0.0, np.maximum(low - origin - n * period, origin + n * period - high))
    return float(period), float(origin), miss


def _brackets(time_s: Floats, power_w: Floats) -> tuple[Floats, Floats]:
    """Polls just before and at each change, where no poll between is missing. Each shape (c,). [s]"""
    changed = np.flatnonzero(np.diff(power_w) != 0) + 1
    low, high = time_s[changed - 1], time_s[changed]
    narrow = (high - low) <= max(2.5 * poll_spacing(time_s), 1e-6)
    return low[narrow], high[narrow]


def _grid_freedom_s(low: Floats, high: Floats, period: float, origin: float) -> float:
    """Return the standard deviation of the phase of the updates, within the brackets by polls. [s]

    All brackets must hold their update: polls that drift against the updates narrow the place down,
    polls in step with them leave the whole poll open. Stamps jitter, so the outermost few do not count.
    """
    at = origin + np.round((0.5 * (low + high) - origin) / period) * period
    free_s = float(np.quantile(high - at, _FEW_OFF) - np.quantile(low - at, 1.0 - _FEW_OFF))
    return max(free_s, 0.0) / float(np.sqrt(12.0))


def update_period(time_s: Floats, power_w: Floats, near_s: float | None = None) -> tuple[float, float, float]:
    """Return the sensor's update period from the polled values alone.

    Parameters
    ----------
    time_s, power_w : array, shape (n,)
        Polls in time order. [s], [W]
    near_s : float, optional
        Nominal period; without it, the longest period that explains the changes. [s]

    Returns
    -------
    period, standard error, origin : float
        Update period, its standard error and the time of one update; NaN where fewer than four changes
        or polls slower than the period leave it open. [s]

    Notes
    -----
    A change between two polls brackets an update. The period maximizes the phase concentration
    of the brackets' middles, then a straight line through (update number, time) refines it.
    """
    nothing = (np.nan, np.nan, np.nan)
    poll = poll_spacing(time_s)
    low, high = _brackets(time_s, power_w)
    if len(low) < 4:
        return nothing
    first = 0.5 * (low + high)[:_FIRST]
    first = first - first[0]
    if near_s:
        span = max(first[-1], near_s)
        bounds = (0.9 * near_s, 1.1 * near_s)
    else:
        gap = float(np.quantile(np.diff(first), 0.25))
        bounds = (max(0.4 * gap, 1.2 * poll), 1.6 * gap)
        span = max(first[-1], gap)
    if bounds[1] <= bounds[0] or poll > 0.8 * bounds[1]:
        return nothing
    step = bounds[0] ** 2 / span / 6
    periods = np.arange(bounds[0], bounds[1], step)[:20_000]
    strength = _concentration(first, periods)
    best = strength.max()
    if best < 0.5:
        return nothing
    period = float(periods[np.flatnonzero(strength > 0.95 * best)[-1]])
    near = np.abs(periods - period) < 3 * step
    period = float(periods[near][np.argmax(strength[near])])
    period, origin, miss = _refine(low, high, period)
    if float(np.mean(miss > 0.25 * period)) > 0.2 or not period > 0:
        return nothing
    updates = max((high[-1] - low[0]) / period, 1.0)
    spread = max(poll / np.sqrt(12.0), float(np.std(miss)))
    return period, spread * np.sqrt(12.0 / len(low)) / updates, origin


def _in_order(time_s: Floats, power_w: Floats) -> tuple[Floats, Floats]:
    """Return what is finite of both in the order of time; both as they are where they are so already."""
    keep = np.isfinite(power_w)
    keep &= np.isfinite(time_s)
    if not keep.all():
        time_s, power_w = time_s[keep], power_w[keep]
    if (time_s[1:] >= time_s[:-1]).all():
        return time_s, power_w
    order = np.argsort(time_s, kind="stable")
    return time_s[order], power_w[order]


def resolve_updates(time_s: Floats, power_w: Floats, nominal_s: float) -> Readings:
    """Turn a polled log into the sensor's readings.

    Parameters
    ----------
    time_s, power_w : array, shape (n,)
        Polls, in any order; NaN power is dropped. [s], [W]
    nominal_s : float
        The sensor's nominal update period. [s]
    """
    time, power = _in_order(time_s, power_w)
    polls = len(time)
    period, error, origin = update_period(time, power, nominal_s) if polls > 8 else (np.nan,) * 3
    if not np.isfinite(period):
        fresh = np.ones(polls, dtype=bool)
        if polls > 1 and poll_spacing(time) < 0.5 * nominal_s:
            # Polled often, yet no grid: keep changes, and one reading a period in constant stretches.
            slot = np.floor((time - time[0]) / nominal_s)
            fresh[1:] = (np.diff(power) != 0) | (np.diff(slot) > 0)
        jitter = min(max(poll_spacing(time), 0.0), nominal_s) if fresh.sum() < polls else nominal_s
        return Readings(time[fresh], power[fresh], nominal_s, 0.02 * nominal_s, jitter, polls)
    # A poll near an update may show either value: the witness is the latest poll well inside the period.
    into = (time - origin) / period
    update = np.floor(into + _SLACK)
    into -= update
    rank = np.where(into < _SAFE[0], 2.0, np.where(into > _SAFE[1], 1.0, 0.0)) - into
    first = np.flatnonzero(np.diff(update, prepend=-np.inf) > 0)
    best = np.minimum.reduceat(rank, first)
    lasting = np.diff(first, append=polls)
    witnesses = np.flatnonzero(rank == np.repeat(best, lasting))
    witness = witnesses[np.searchsorted(witnesses, first)]
    free_s = _grid_freedom_s(*_brackets(time, power), period, origin)
    return Readings(origin + update[witness] * period, power[witness], period, error, 0.0, polls, free_s)
