"""Offset between two clocks that share no reference, and its uncertainty.

It is estimated from the readings alone: power rises where work starts. What the readings do not determine
(which of the GPU's possible sensors it has, the age of a reading when it is polled, the power of each piece
of work) is not assumed but marginalized, so that the interval has its stated coverage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import linalg

from tracetool.core.arrays import Floats
from tracetool.hardware.sensors import Sensor
from tracetool.measure.align import Alignment, align, join_parts, offset_correlations
from tracetool.measure.counter import counter_readings
from tracetool.measure.filters import Boxes, sensor_boxes
from tracetool.measure.joint_alignment import DRIFT_SD
from tracetool.measure.observe import CLOCK_SD_S, LAG_S, as_boxcar, busiest_part
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings, query_times, resolve_updates
from tracetool.measure.timeline import Timeline

#: Readings in one likelihood, which costs the cube of their number. [1] For speed.
_MAX_READINGS = 240
#: Pieces of work with a power of their own at most. [1] For speed.
_MAX_PIECES = 60
#: Offsets tried first, and rounds of refinement. [1] Priors.
_POINTS, _ROUNDS = 49, 6
#: Weight of the log likelihood: power varies within a piece of work, which correlates residuals. [1] A prior.
_WEIGHT = 0.5
#: Ages within an update period that a reading may have when it is polled. [1] A prior.
_AGES = 5
#: Standard deviation between an edge of power and its stamps: regulators smooth it, and lines are stamped
#: early or late. [s] A prior.
_EDGE_SD_S = 0.002
#: Likely offsets at which the noise is estimated. [1] A prior.
_NOISE_OFFSETS = 3
#: Prior variance of level and swing of power, over the variance of the readings. [1] A prior, all but flat.
_FLAT = 100.0
#: Standard deviation of stamps between the parts of one log. [s] A prior.
_PART_SD_S = 0.001
#: Starting values, as shares of the readings' deviation: powers of pieces, slow change, window, reading. [1]
#: Priors.
_START = np.log([0.25, 0.1, 0.05, 0.05])


@dataclass(frozen=True)
class ClockFit:
    """Offset of a timeline on a log's clock, and the parts of its uncertainty."""

    alignment: Alignment
    sensor: Sensor  # the likeliest
    likelihood_sd_s: float  # standard deviation from the likelihood of the readings [s]
    sampling_sd_s: float  # from the unknown age of readings when they are polled [s]
    stamp_sd_s: float  # from two stamps of one event [s]


def fit_clock_offset(log: PowerLog, timeline: Timeline, sensors: list[Sensor]) -> ClockFit | None:
    """Return the offset from a timeline's times to the log's clock.

    Parameters
    ----------
    log : PowerLog
        Readings on their own clock.
    timeline : Timeline
        Activity of the device, already within a few updates of the log.
    sensors : list of Sensor
        Possible sensors of the GPU; each is tried and weighted by its evidence.

    Returns
    -------
    ClockFit or None
        None where there are fewer than eight readings.

    Notes
    -----
    Three errors add in quadrature: the width of the likelihood, over sensors weighted by their evidence; the
    unknown age of a reading, where polls do not determine it; and the time that reading and stamping take
    (``CLOCK_SD_S``).
    """
    counted = counter_readings(log, sensors[0].update_s) if log.field == "counter" else None
    if counted is not None:
        sensors = [as_boxcar(sensors[0], counted)]
    query_s = query_times(log.time_s)
    fits: list[tuple[float, Alignment, Sensor, float]] = []
    for sensor in sensors:
        readings = counted or resolve_updates(query_s, log.power_w, sensor.update_s)
        if len(readings) < 8:
            continue
        sampled = max(readings.grid_sd_s, age_sd(readings))
        evidence, joined = _placed(readings, timeline, sensor_boxes(sensor))
        fits.append((evidence, joined, sensor, sampled))
    if not fits:
        return None
    log_evidence = np.array([e for e, *_ in fits])
    weight = np.exp(log_evidence - log_evidence.max())
    weight /= weight.sum()
    offset = np.array([a.offset_s for _, a, *_ in fits])
    offset_sd_s = np.array([a.offset_sd_s for _, a, *_ in fits])
    mean = float(weight @ offset)
    likely_sd = float(np.sqrt(weight @ (offset_sd_s**2 + (offset - mean) ** 2)))
    _, best, sensor, _ = fits[int(np.argmax(weight))]
    sampled = float(weight @ np.array([s for *_, s in fits]))
    total_sd_s = float(np.sqrt(likely_sd**2 + sampled**2 + CLOCK_SD_S**2))
    return ClockFit(
        replace(best, offset_s=mean, offset_sd_s=total_sd_s), sensor, likely_sd, sampled, CLOCK_SD_S
    )


def age_sd(readings: Readings) -> float:
    r"""Return the standard deviation of the mean age of readings from half a period. [s]

    Readings polled too rarely to show the sensor's updates may be of any age up to a period. Polls in step
    with the updates all have the same age, so that the mean is as uncertain as a single one,
    :math:`T/\sqrt{12}`; polls that are spread evenly over the period average it out. Periods within 1 % of
    the nominal one are tried.
    """
    if readings.jitter_s <= 0.0:
        return 0.0
    periods = readings.update_s * np.linspace(0.99, 1.01, 41)
    time = readings.time_s - readings.time_s[0]
    turn = 2j * np.pi * time[None, :] / periods[:, None]
    uneven = max(float(np.abs(np.exp(k * turn).mean(axis=1)).max()) / k for k in (1, 2, 3))
    return min(uneven, 1.0) * readings.jitter_s / float(np.sqrt(12.0))


def _placed(readings: Readings, timeline: Timeline, boxes: Boxes) -> tuple[float, Alignment]:
    """Return the log evidence of a sensor and the alignment of its readings; a long log in three parts."""
    count = len(readings)
    cuts = [0, count] if count < 3 * _MAX_READINGS else np.linspace(0, count, 4).astype(int).tolist()
    evidence, alignments, at = 0.0, [], []
    for a, b in pairwise(cuts):
        third = replace(readings, time_s=readings.time_s[a:b], power_w=readings.power_w[a:b])
        stretch = busiest_part(third, timeline, _MAX_READINGS)
        drifted_s = _drifted(stretch, timeline, boxes, float(np.ptp(readings.time_s)))
        value, alignment = _place_stretch(stretch, timeline.shifted(drifted_s), boxes)
        evidence += value
        sd_s = float(np.hypot(alignment.offset_sd_s, _PART_SD_S))
        alignments.append(replace(alignment, offset_s=alignment.offset_s + drifted_s, offset_sd_s=sd_s))
        at.append(float(stretch.time_s.mean()))
    return evidence, (
        join_parts(alignments, np.array(at), DRIFT_SD) if len(alignments) > 1 else alignments[0]
    )


def _steps(most: float) -> Floats:
    """Return whole numbers from minus the most to the most."""
    return np.arange(-np.ceil(most), np.ceil(most) + 1.0)


def _drifted(stretch: Readings, timeline: Timeline, boxes: Boxes, span_s: float) -> float:
    """Return about where a stretch of a log lies, whose clock drifts further than places are looked for. [s]

    Each place counts by what its correlation makes of the readings' likelihood, and by the drift it takes.
    """
    drift_s = DRIFT_SD * span_s
    if drift_s < stretch.update_s:
        return 0.0
    tried = stretch.update_s * _steps(3.0 * drift_s / stretch.update_s)
    explained = offset_correlations(stretch, timeline, tried, boxes.length_s)
    worth = _WEIGHT * len(stretch) * min(1.0, stretch.update_s / boxes.length_s)
    value = -0.5 * worth * np.log1p(-(np.clip(explained, 0.0, 0.999) ** 2)) - 0.5 * (tried / drift_s) ** 2
    return float(tried[int(np.argmax(value))])


def _place_stretch(stretch: Readings, timeline: Timeline, boxes: Boxes) -> tuple[float, Alignment]:
    reach = 3.0 * stretch.update_s + boxes.length_s
    margin = boxes.reach_s + stretch.jitter_s + reach + 2.0
    near = timeline.within(float(stretch.time_s[0]) - margin, float(stretch.time_s[-1]) + margin)
    model = _Model.of(stretch, near, boxes)

    tried = LAG_S + np.linspace(-reach, reach, _POINTS)
    first = np.array([model.likelihood(*model.busy(float(x)), _START) for x in tried])
    # What the noise is depends on the place taken to be true: each likely one counts.
    shares = [model.shares(*model.busy(float(tried[at])), _START) for at in _separate_peaks(first)]
    log_likelihoods: dict[float, float] = {}

    def score(x: float) -> float:
        if x not in log_likelihoods:
            busy, timing = model.busy(x)
            log_likelihoods[x] = _WEIGHT * float(
                np.logaddexp.reduce([model.likelihood(busy, timing, s) for s in shares])
            )
        return log_likelihoods[x]

    alignment = align(score, around_s=LAG_S, prior_sd_s=reach, points=_POINTS, rounds=_ROUNDS)
    # The height of the likelihood and its width: what a sensor explains, and how exact it had to be for that.
    return max(log_likelihoods.values()) + float(np.log(max(alignment.offset_sd_s, 1e-6) / reach)), alignment


def _separate_peaks(values: Floats) -> list[int]:
    """Return the places of the highest values, no two adjacent."""
    candidates = values.copy()
    out = []
    for _ in range(_NOISE_OFFSETS):
        at = int(np.argmax(candidates))
        if not np.isfinite(candidates[at]):
            break
        out.append(at)
        candidates[max(at - 1, 0) : at + 2] = -np.inf
    return out


@dataclass(frozen=True)
class _Model:
    """Readings as a level, a swing with the work, each piece's own power, slow change and noise."""

    power: Floats  # (n,) centered, over its spread [1]
    time_s: Floats  # (n,)
    boxes: Boxes
    timeline: Timeline
    low_s: Floats  # (p,) busy time before each piece of work [s]
    high_s: Floats  # (p,) and at its end
    slow: Floats  # (n, n) covariance of slow change
    window: Floats  # (n, n) covariance of what varies within windows that overlap
    ages_s: Floats  # (a,) how old a reading may be [s]
    reach: float  # how far power goes up and down, over its spread [1]

    @classmethod
    def of(cls, stretch: Readings, timeline: Timeline, boxes: Boxes) -> _Model:
        span = max(float(np.ptp(stretch.time_s)), 1e-3)
        apart = np.abs(stretch.time_s[:, None] - stretch.time_s[None, :])
        spread = max(float(np.std(stretch.power_w)), 1e-3)
        edges = _pieces(timeline, max(span / _MAX_PIECES, 0.5 * stretch.update_s))
        return cls(
            (stretch.power_w - stretch.power_w.mean()) / spread, stretch.time_s, boxes, timeline,
            edges[:-1], edges[1:], np.exp(-apart / span),
            np.maximum(0.0, 1.0 - apart / max(boxes.length_s, 1e-6)), _ages(stretch.jitter_s),
            float(np.quantile(stretch.power_w, 0.95) - np.quantile(stretch.power_w, 0.05)) / spread,
        )  # fmt: skip

    def busy(self, offset_s: float) -> tuple[Floats, Floats]:
        """Return the share of each reading's filter that each piece of work fills, shape (n, p). [1]

        With it the variance of their sum over the moments the reading may have been made, shape (n,).
        """
        out = np.zeros((len(self.ages_s), len(self.time_s), len(self.low_s)))
        for nth, age in enumerate(self.ages_s):
            time = self.time_s - offset_s - age
            for back, front, weight in zip(
                self.boxes.back_s, self.boxes.front_s, self.boxes.weight, strict=True
            ):
                until = np.clip(self.timeline.busy(time - front)[:, None], self.low_s, self.high_s)
                since = np.clip(self.timeline.busy(time - back)[:, None], self.low_s, self.high_s)
                out[nth] += weight / (back - front) * (until - since)
        return out.mean(axis=0), out.sum(axis=2).var(axis=0)

    def likelihood(self, busy: Floats, timing: Floats, shares: Floats) -> float:
        """Return the log marginal likelihood, a constant left out."""
        pieces, slow, window, noise = np.exp(2.0 * shares)
        swing = busy.sum(axis=1)
        cover = _FLAT * (1.0 + np.outer(swing, swing)) + pieces * (busy @ busy.T)
        cover += slow * self.slow + window * self.window
        cover[np.diag_indices_from(cover)] += noise + self.reach**2 * timing
        try:
            factor = linalg.cholesky(cover, lower=True, check_finite=False)
        except linalg.LinAlgError:
            return -1e300
        half = linalg.solve_triangular(factor, self.power, lower=True, check_finite=False)
        return float(-0.5 * half @ half - np.log(np.diag(factor)).sum())

    def shares(self, busy: Floats, timing: Floats, start: Floats) -> Floats:
        """Return the shares that make the readings likeliest, held to what can be."""
        from scipy import optimize  # takes a fifth of a second, and most logs' clocks are known

        def miss(x: Floats) -> float:
            away = (x - _START) / 2.0  # a wide prior: a share e^2 off is two in three likely
            return -self.likelihood(busy, timing, np.clip(x, -7.0, 2.0)) + 0.5 * float(away @ away)

        optimum = optimize.minimize(miss, start, method="Nelder-Mead", options={"maxfev": 70, "xatol": 0.05})
        return np.asarray(np.clip(optimum.x, -7.0, 2.0))


def _ages(jitter_s: float) -> Floats:
    """Return moments within a period, or around a known one, that share its mean and deviation. [s]"""
    if jitter_s > 0.0:
        return np.asarray((np.arange(_AGES) + 0.5) / _AGES * jitter_s)
    return np.asarray(np.array([-1.0, 0.0, 1.0]) * np.sqrt(1.5) * _EDGE_SD_S)


def _pieces(timeline: Timeline, longest_s: float) -> Floats:
    """Return the busy time at which one piece of work ends and the next begins. Shape (p + 1,). [s]"""
    total = float(timeline.busy.value_s[-1]) if len(timeline.busy.value_s) else 0.0
    cuts = timeline.busy(timeline.off_start_s[np.isfinite(timeline.off_start_s)])
    even = np.arange(0.0, total, max(longest_s, total / _MAX_PIECES))
    edges_s = np.unique(np.concatenate([[0.0, total], cuts, even]).clip(0.0, total))
    while len(edges_s) > 2 * _MAX_PIECES:  # the shortest pieces join their neighbors
        short = np.diff(edges_s) < np.quantile(np.diff(edges_s), 0.25)
        if not short[:-1].any():  # all alike, as of work that repeats to the nanosecond: two at a time
            short[::2] = True
        edges_s = np.concatenate([edges_s[:1], edges_s[1:-1][~short[:-1]], edges_s[-1:]])
    return np.asarray(edges_s)
