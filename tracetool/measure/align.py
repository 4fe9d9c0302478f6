"""Where a power log lies against the timeline, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.interval import Z90


@dataclass(frozen=True)
class Alignment:
    """Time to add to the timeline so that it meets the log."""

    offset_s: float  # posterior mean [s]
    offset_sd_s: float  # posterior standard deviation [s]
    points_s: Floats  # (p,) offsets that carry the posterior
    weights: Floats  # (p,) their weights, summing to 1

    @property
    def low_s(self) -> float:
        """Lower end of the 90 % interval. [s]"""
        return self.offset_s - Z90 * self.offset_sd_s

    @property
    def high_s(self) -> float:
        """Upper end of the 90 % interval. [s]"""
        return self.offset_s + Z90 * self.offset_sd_s


def _posterior(points: Floats, log_weight: Floats) -> tuple[float, float, Floats]:
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = float(weight @ points)
    return mean, float(np.sqrt(max(weight @ (points - mean) ** 2, 0.0))), weight


def align(
    score: Callable[[float], float],
    *,
    around_s: float = 0.0,
    prior_sd_s: float = 0.005,
    points: int = 15,
    rounds: int = 2,
    temper: float = 1.0,
) -> Alignment:
    """Return the offset that makes the readings likeliest.

    Parameters
    ----------
    score : callable
        Log likelihood of the readings with the timeline moved by an offset [s].
    around_s, prior_sd_s : float
        Where the offset is expected, and how sure: two stamps of one host clock differ by what reading
        the sensor takes and by the lag from launch to power. [s]
    points : int
        Offsets tried in a round, over three deviations either side.
    rounds : int
        Rounds; each narrows to where the last found the weight.
    temper : float
        Power the likelihood is raised to; below 1 where its terms are not independent.

    Notes
    -----
    The posterior is integrated on the points of the last round; a likelihood with several peaks
    keeps its spread.
    """
    middle, spread = around_s, prior_sd_s
    mean, sd, weight, tried = middle, spread, np.ones(1), np.array([middle])
    for _ in range(rounds):
        tried = middle + spread * np.linspace(-3.0, 3.0, points)
        log_weight = np.array([temper * score(float(x)) for x in tried])
        log_weight = log_weight - 0.5 * ((tried - around_s) / prior_sd_s) ** 2
        mean, sd, weight = _posterior(tried, log_weight)
        step = float(tried[1] - tried[0])
        sd = float(np.hypot(sd, step / np.sqrt(12.0)))
        if sd > 0.5 * spread:
            break
        middle, spread = mean, max(1.5 * sd, step / 2)
    return Alignment(mean, sd, tried, weight)


def coarse_offset(readings: Readings, timeline: Timeline, reach_s: float) -> tuple[float, float]:
    """Return the offset at which activity and power correlate best, within ``reach_s``.

    Returns
    -------
    offset, correlation : float
        Offset of the timeline to the log, to about the update period, and the correlation there. [s], [1]

    Notes
    -----
    Both are averaged on a grid of the update period and correlated by Fourier transform; the search is
    for logs whose clock is only roughly known (another zone, seconds off), so no sensor filter is needed.
    """
    step = max(readings.update_s, 1e-3)
    start, end = timeline.span_s
    low = min(start - reach_s, readings.time_s[0])
    high = max(end + reach_s, readings.time_s[-1])
    count = int(np.ceil((high - low) / step))
    if count < 4 or count > 20_000_000 or not len(timeline.start_s):
        return 0.0, 0.0
    grid = low + step * np.arange(count + 1)
    busy = np.diff(timeline.busy(grid)) / step
    inside = (grid[:-1] >= readings.time_s[0]) & (grid[:-1] <= readings.time_s[-1])
    power = np.where(inside, np.interp(grid[:-1], readings.time_s, readings.power_w), 0.0)
    power[inside] -= power[inside].mean()
    scale = np.sqrt((power**2).sum())
    size = 1 << int(np.ceil(np.log2(2 * count)))
    busy_f = np.fft.rfft(busy, size)
    product = np.fft.irfft(np.fft.rfft(power, size) * np.conj(busy_f), size)
    here = np.fft.rfft(inside.astype(float), size) * np.conj(busy_f)
    total = np.fft.irfft(here, size)
    here = np.fft.rfft(inside.astype(float), size) * np.conj(np.fft.rfft(busy**2, size))
    square = np.fft.irfft(here, size)
    spread = np.sqrt(np.maximum(square - total**2 / max(inside.sum(), 1), 1e-9))
    correlation = product / (scale * np.maximum(spread, 1e-3 * spread.max()) + 1e-12)
    reach = min(int(reach_s / step), size // 2 - 1)
    lags = np.concatenate([np.arange(reach + 1), np.arange(-reach, 0)])
    values = correlation[lags]
    best = int(np.argmax(values))
    return float(lags[best] * step), float(values[best])
