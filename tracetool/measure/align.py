"""Offset of a power log from the timeline, and its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import fft

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Z90
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline

#: Correlation by which another offset may be worse than the best and still be examined. [1] A prior.
RIVAL = 0.1
#: Other offsets examined: each costs a likelihood. [1] For speed.
_MOST_PLACES = 8
#: Distance below which two offsets are one: a peak of correlation is as wide as the sensor's window and the
#: step. [steps] A prior.
_SAME_PLACE = 3.5
#: Correlation of activity and power below which they are of different runs, or undetermined. [1] A prior.
LEAST_CORRELATION = 0.5
#: The same for thousands of readings, where a correlation of this many standard deviations of random readings
#: is sufficient, but never one below the first number. [1] Priors.
_ANY_CORRELATION, _CLEAR = 0.3, 12.0
#: Shortest step of offsets, [s] and cells of the grid they are searched on, [1] which bound time and memory:
#: an hour's log and an hour's trace take steps of 9 ms. By definition.
_FINEST_S, _MOST_CELLS = 1e-3, 1 << 21
#: Readings by which an offset from a coarser grid is refined. [1] For speed.
_PART = 2048
#: Log posterior below the best from which on an offset is not refined: e^-6 is 1 in 400. [1] A prior.
_WORSE = 6.0
#: Offsets refined after the quick score, and in each round. [1] For speed.
_QUICK_PLACES, _CLOSER_PLACES = 6, 3


@dataclass(frozen=True)
class Alignment:
    """Time to add to the timeline so that it matches the log."""

    offset_s: float  # posterior mean [s]
    offset_sd_s: float  # posterior standard deviation [s]
    points_s: Floats  # (p,) offsets that carry the posterior
    weights: Floats  # (p,) their weights, summing to 1
    drift: float = 0.0  # seconds the log's clock gains on the timeline's, per second [1]
    drift_sd: float = 0.0  # its posterior standard deviation [1]
    pivot_s: float = 0.0  # time on the timeline's clock at which the offset is given [s]

    def moved(self, at_s: Floats) -> Floats:
        """Return times of the timeline on the log's clock. Shape of ``at_s``. [s]"""
        return at_s + self.offset_s + self.drift * (at_s - self.pivot_s)

    @property
    def low_s(self) -> float:
        """Lower end of the 90 % interval. [s]"""
        return self.offset_s - Z90 * self.offset_sd_s

    @property
    def high_s(self) -> float:
        """Upper end of the 90 % interval. [s]"""
        return self.offset_s + Z90 * self.offset_sd_s


def _posterior(points: Floats, log_weight: Floats) -> tuple[float, float, Floats]:
    """Return mean, deviation and weights of points, each of which represents the cell around it."""
    edges = 0.5 * (points[1:] + points[:-1])
    edges = np.concatenate([[points[0]], edges, [points[-1]]])
    cell = np.maximum(np.diff(edges), 1e-12)
    weight = np.exp(log_weight - log_weight.max()) * cell
    weight /= weight.sum()
    mean = float(weight @ points)
    spread = weight @ ((points - mean) ** 2 + cell**2 / 12.0)
    return mean, float(np.sqrt(max(spread, 0.0))), weight


def _peaks(values: Floats, most: int) -> Ints:
    """Places of the highest local maxima, best first."""
    padded = np.concatenate([[-np.inf], values, [-np.inf]])
    local = np.flatnonzero((values >= padded[:-2]) & (values >= padded[2:]))
    return local[np.argsort(-values[local])][:most]


def align(
    score: Callable[[float], float],
    *,
    around_s: float = 0.0,
    prior_sd_s: float = 0.005,
    quick: Callable[[Floats], Floats] | None = None,
    points: int = 19,
    rounds: int = 3,
) -> Alignment:
    """Return the offset that makes the readings likeliest.

    Parameters
    ----------
    score : callable
        Log likelihood of the readings with the timeline moved by an offset [s].
    around_s, prior_sd_s : float
        Where the offset is expected, and how sure: two stamps of one host clock differ by what reading
        the sensor takes and by the lag from launch to power. [s]
    quick : callable, optional
        A cheaper, stiffer score of all offsets at once: its peaks on a fine grid are tried too, so that
        none is skipped.
    points : int
        Offsets tried first, over three deviations either side.
    rounds : int
        Rounds that look closer around the likeliest places.

    Notes
    -----
    The posterior is integrated over all offsets tried, each standing for the cell around it; a
    likelihood with several peaks keeps its spread.
    """
    reach = 3.0 * prior_sd_s

    def prior(x: Floats) -> Floats:
        return np.asarray(-0.5 * ((x - around_s) / prior_sd_s) ** 2)

    tried = around_s + np.linspace(-reach, reach, points)
    if quick is not None:
        fine = around_s + np.linspace(-reach, reach, 16 * (points - 1) + 1)
        rough = quick(fine) + prior(fine)
        tried = np.unique(np.concatenate([tried, fine[_peaks(rough, _QUICK_PLACES)]]))
    value = np.array([score(float(x)) for x in tried]) + prior(tried)
    for _ in range(rounds):
        closer = []
        for at in _peaks(value, _CLOSER_PLACES):
            if value[at] < value.max() - _WORSE:
                continue
            near_side = tried[at - 1] if at else tried[at]
            right = tried[at + 1] if at + 1 < len(tried) else tried[at]
            closer += [0.5 * (near_side + tried[at]), 0.5 * (right + tried[at])]
        fresh = np.setdiff1d(np.array(closer), tried)
        if not len(fresh):
            break
        more = np.array([score(float(x)) for x in fresh]) + prior(fresh)
        order = np.argsort(np.concatenate([tried, fresh]))
        value = np.concatenate([value, more])[order]
        tried = np.concatenate([tried, fresh])[order]
    mean, sd, weight = _posterior(tried, value)
    return Alignment(mean, sd, tried, weight)


def join_parts(alignments: list[Alignment], at_s: Floats, drift_sd: float) -> Alignment:
    """Return one alignment with drift from those of several parts of a log.

    Parameters
    ----------
    alignments : list of Alignment, at least one
        Offsets of the parts, drift not considered.
    at_s : array, shape (p,)
        Middle of each part on the timeline's clock. [s]
    drift_sd : float
        Drift expected between two clocks of one machine. [1]

    Notes
    -----
    A straight line weighted by each part's precision; parts that disagree with it beyond their
    errors widen the result.
    """
    offset = np.array([alignment.offset_s for alignment in alignments])
    error = np.maximum([alignment.offset_sd_s for alignment in alignments], 1e-6)
    weight = 1.0 / error**2
    pivot = float(weight @ at_s / weight.sum())
    away = at_s - pivot
    lever = float(weight @ away**2) + 1.0 / drift_sd**2
    middle = float(weight @ offset / weight.sum())
    drift = float(weight @ (away * offset)) / lever
    miss = (offset - middle - drift * away) / error
    worse = max(1.0, float(miss @ miss) / max(len(alignments) - 2, 1)) if len(alignments) > 2 else 1.0
    best = alignments[int(np.argmin(error))]
    sd = float(np.sqrt(worse / weight.sum()))
    return Alignment(middle, sd, best.points_s, best.weights, drift, float(np.sqrt(worse / lever)), pivot)


def coarse_offsets(readings: Readings, timeline: Timeline, reach_s: float) -> list[tuple[float, float]]:
    """Return the offsets at which activity and power correlate best, within ``reach_s``.

    Returns
    -------
    list of (offset, correlation), best first, never empty
        Offset of the timeline to the log, to about the update period, and the correlation there; beside
        the best, other peaks that come within ``RIVAL`` of it: a job that repeats fits in several places.
        [s], [1]

    Notes
    -----
    Readings and busy time lie on a grid of the update period, a coarser one where log and trace are long, and
    are correlated by Fourier transform where there are readings; the search is for logs whose clock is only
    roughly known (another zone, seconds off), so no sensor filter is needed. Places of a coarser grid are
    looked for again about themselves.
    """
    finest = max(readings.update_s, _FINEST_S)
    start, end = timeline.span_s
    low = min(start - reach_s, readings.time_s[0])
    high = max(end + reach_s, readings.time_s[-1])
    step = max(finest, (high - low) / _MOST_CELLS)
    if high - low < 4.0 * step or not len(timeline.start_s):
        return [(0.0, 0.0)]
    places = _peaks_on_grid(readings, timeline, reach_s, (float(low), float(high), step))
    if step == finest and len(readings) <= _PART:
        return places
    return _closer(readings, timeline, places, step, finest)


def _peaks_on_grid(
    readings: Readings, timeline: Timeline, reach_s: float, extent: tuple[float, float, float]
) -> list[tuple[float, float]]:
    """Return the places of the highest correlation on a grid, from a begin to an end in steps. [s], [1]"""
    low, high, step = extent
    count = int(np.ceil((high - low) / step))
    edges: Floats = low + step * np.arange(count + 1, dtype=np.float64)
    busy = np.diff(timeline.busy(edges)) / step
    cell = np.clip(np.round((readings.time_s - low) / step).astype(np.int64), 0, count - 1)
    filled = np.bincount(cell, minlength=count).astype(np.float64)
    power = np.bincount(cell, readings.power_w - readings.power_w.mean(), minlength=count)
    scale = float(np.sqrt((np.divide(power, filled, out=np.zeros(count), where=filled > 0) * power).sum()))
    size = fft.next_fast_len(2 * count, real=True)
    busy_f = np.conj(fft.rfft(busy, size))
    product = fft.irfft(fft.rfft(power, size) * busy_f, size)
    filled_f = fft.rfft(filled, size)
    total = fft.irfft(filled_f * busy_f, size)
    square = fft.irfft(filled_f * np.conj(fft.rfft(busy**2, size)), size)
    spread = np.sqrt(np.maximum(square - total**2 / filled.sum(), 1e-9))
    correlation = product / (scale * np.maximum(spread, 1e-3 * spread.max()) + 1e-12)
    reach = min(int(reach_s / step), size // 2 - 1)
    lags = np.concatenate([np.arange(reach + 1), np.arange(-reach, 0)])
    values = correlation[lags]
    best = int(np.argmax(values))
    order = np.argsort(lags)
    along = values[order]
    level = max(float(along.max()) - RIVAL, 0.0)
    peaks = [i for i in _peaks(along, _MOST_PLACES) if along[i] >= level]
    offsets = [(float(lags[best] * step), float(values[best]))]
    for i in peaks:
        at = float(lags[order[i]] * step)
        if all(abs(at - offset) > _SAME_PLACE * step for offset, _ in offsets):
            offsets.append((at, float(along[i])))
    return offsets


def _closer(
    readings: Readings, timeline: Timeline, places: list[tuple[float, float]], step: float, finest: float
) -> list[tuple[float, float]]:
    """Return places of a grid to the finest step, by the part of the readings that moves most.

    Over hours clocks drift by many steps: one place holds for a part alone, and all readings correlate with
    none. The part's correlation is given, where it is better.
    """
    out = []
    for at, correlation in places:
        part = _moving_part(readings, timeline, at)
        tried = at + finest * np.arange(-np.ceil(1.5 * step / finest), np.ceil(1.5 * step / finest) + 1.0)
        values = offset_correlations(part, timeline, tried, finest)
        best = int(np.argmax(values))
        out.append((float(tried[best]), max(correlation, float(values[best]))))
    return sorted(out, key=lambda place: -place[1])


def _moving_part(readings: Readings, timeline: Timeline, offset_s: float) -> Readings:
    """Return successive readings in which activity varies most, the timeline shifted by an offset."""
    if len(readings) <= _PART:
        return readings
    at = readings.time_s - offset_s
    share = np.diff(timeline.busy(at), prepend=0.0) / np.diff(at, prepend=at[0] - readings.update_s)
    parts = len(share) // _PART
    moving = share[: parts * _PART].reshape(parts, _PART).std(axis=1)
    first = int(np.argmax(moving)) * _PART
    chosen = slice(first, first + _PART)
    return replace(readings, time_s=readings.time_s[chosen], power_w=readings.power_w[chosen])


def least_correlation(power_w: Floats) -> float:
    r"""Return the correlation that readings and work must have to be of one run. [1]

    A few dozen readings correlate by a half with much; many do not. Readings that follow one another count by
    :math:`n (1 - r)/(1 + r)`, r being their own correlation from one to the next.
    """
    away = power_w - power_w.mean()
    square = max(float(away @ away), 1e-12)
    alike = min(max(float(away[1:] @ away[:-1]) / square, 0.0), 1.0 - 1.0 / len(power_w))
    apart = len(power_w) * (1.0 - alike) / (1.0 + alike)
    return min(LEAST_CORRELATION, max(_ANY_CORRELATION, _CLEAR / float(np.sqrt(apart))))


def offset_correlations(readings: Readings, timeline: Timeline, offsets_s: Floats, window_s: float) -> Floats:
    """Return the correlation of readings and of what part of a window from each on was work. (o,) [1]

    Parameters
    ----------
    readings : Readings
        n of them.
    timeline : Timeline
        The work, moved by each of o offsets.
    offsets_s : array, shape (o,)
        Offsets. [s]
    window_s : float
        Length of the window. [s]
    """
    power = readings.power_w - readings.power_w.mean()
    scale = float(np.sqrt(power @ power))
    out = np.zeros(len(offsets_s))
    for i, offset in enumerate(offsets_s):
        at = readings.time_s - offset
        share = timeline.busy(at + window_s) - timeline.busy(at)
        share -= share.mean()
        spread = float(np.sqrt(share @ share))
        out[i] = float(power @ share) / (scale * spread) if scale * spread > 0 else 0.0
    return out
