"""Offset of a log from its timeline and length of its sensor's window, fitted together.

A window that is too long and a timeline that is shifted explain the readings equally well, and a load in step
with the sensor's updates is explained at several offsets: their uncertainty is one joint posterior.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.hardware.sensors import Sensor
from tracetool.measure.align import Alignment
from tracetool.measure.design_matrix import design
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.prior import prior_of
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline
from tracetool.measure.window_length import NOISE, compact_classes

#: Offsets tried, over this many prior standard deviations either side. [1] Priors.
_OFFSETS, _REACH = 73, 3.0
#: Window lengths tried, over this range about the usual one, in prior standard deviations. [1] Priors:
#: windows of GPUs are rarely longer than usual.
_LENGTHS, _LENGTH_REACH = 17, (-2.5, 0.4)
#: Parts along each axis that a likely cell of the grid is divided into, rounds of division, and log
#: likelihood below the best from which on a cell is not divided. [1] Priors.
_FINER, _ROUNDS, _WORSE = 3, 3, 9.0
#: Cells divided at most, and cells from which on the posterior is broad enough to end. [1] For speed.
_MOST_CELLS, _FEW_CELLS = 200, 30
#: Standard deviation of the drift between two clocks of one machine, in seconds per second. [1] A prior; the
#: error of an update period that polls determine only roughly adds to it, because updates are taken to be
#: regular.
DRIFT_SD = 3e-5
#: Drift at most. [1] A prior.
_MOST_DRIFT = 2e-4
#: Drifts tried, over this many standard deviations either side, and those tried first where the ends of the
#: log move by more than a step of offsets. [1] Priors.
_DRIFTS, _DRIFT_REACH, _DRIFTS_FIRST = 9, 2.25, 3
#: Weight of the log likelihood. [1] The likelihood takes one noise for all readings and equal power for all
#: launches of a class: measured on simulated GPUs with work in step with the updates, errors of the offset
#: were twice the stated ones at a weight of 1.
_WEIGHT = 0.4
#: Classes of work distinguished, those of most time; the others count as one. [1] For speed.
_CLASSES = 24
#: Steps within a step of offsets at which the design of readings is computed. [1] For speed.
_STRIP = 6
#: Places of the grid computed at once. [1] For memory.
_AT_ONCE = 64
#: Logs whose placement is cached, because several commands ask for the same one. [1] For speed.
_CACHED = 16


@dataclass(frozen=True)
class Placement:
    """Posterior of offset, window and drift on p grid points, with weights that sum to 1."""

    at: Floats  # (p, 3) offset to add to the timeline [s], window [s], drift [1]
    weight: Floats  # (p,)
    cell: Floats  # (3,) size of a grid cell [s], [s], [1]
    pivot_s: float  # time on the timeline's clock at which the offsets hold [s]

    @property
    def mean(self) -> Floats:
        """Posterior mean of offset, window and drift. Shape (3,). [s], [s], [1]"""
        return np.asarray(self.weight @ self.at)

    @property
    def deviation(self) -> Floats:
        """Posterior deviation of offset, window and drift. Shape (3,). [s], [s], [1]"""
        return np.asarray(np.sqrt(self.weight @ (self.at - self.mean) ** 2 + self.cell**2 / 12.0))

    @property
    def alignment(self) -> Alignment:
        """The alignment by offset and drift."""
        (offset, _, drift), (offset_sd, _, drift_sd) = self.mean, self.deviation
        at = self.at[:, 0]
        return Alignment(
            float(offset), float(offset_sd), at, self.weight, float(drift), float(drift_sd), self.pivot_s
        )

    def drawn(self, count: int) -> Floats:
        """Return ``count`` places of equal weight drawn from the posterior. Shape (count, 3)."""
        order = np.lexsort(self.at.T)
        total = np.cumsum(self.weight[order])
        chosen = np.searchsorted(total, (np.arange(count) + 0.5) / count * total[-1])
        return np.asarray(self.at[order[np.minimum(chosen, len(order) - 1)]])


#: By digest of the readings, the timeline and the sensor.
_placed: dict[bytes, Placement] = {}


def _fewer_classes(timeline: Timeline) -> Timeline:
    """Return the timeline with its rarest classes counted as one."""
    timeline = compact_classes(timeline)
    if timeline.classes <= _CLASSES:
        return timeline
    seconds = np.bincount(timeline.label, timeline.end_s - timeline.start_s, timeline.classes)
    place = np.minimum(np.argsort(np.argsort(-seconds)), _CLASSES - 1)
    return replace(timeline, label=place[timeline.label], classes=_CLASSES)


class _Strips:
    """Class seconds until moments on a fine grid before every reading, so that any box is a difference."""

    def __init__(self, readings: Readings, timeline: Timeline, low_s: float, high_s: float, step_s: float):
        self.low_s, self.step_s = low_s, step_s
        count = int(np.ceil((high_s - low_s) / step_s)) + 1
        moments = readings.time_s[:, None] + (low_s + step_s * np.arange(count))
        self.seconds = timeline.seconds_until(moments.ravel()).reshape(len(readings), count, -1)

    def to(self, at_s: Floats) -> Floats:
        """Return class seconds until moments of shape (m, n) after each reading; shape (m, n, k)."""
        place = np.clip((at_s - self.low_s) / self.step_s, 0.0, self.seconds.shape[1] - 1.0)
        first = np.minimum(place.astype(np.int64), self.seconds.shape[1] - 2)
        fraction = (place - first)[..., None]
        row = np.arange(len(self.seconds))
        return np.asarray(
            self.seconds[row, first] * (1.0 - fraction) + self.seconds[row, first + 1] * fraction
        )


@dataclass(frozen=True)
class _Likelihood:
    r"""Marginal likelihood of readings at any offset and window.

    As :func:`tracetool.measure.window_length.class_likelihood`: with powers :math:`x \sim N(m, D)` readings
    are :math:`N(A m, A D A^T + \sigma^2)`, here by the eigenvalues of :math:`D^{1/2} A^T A D^{1/2}`, whose
    size is the number of classes.
    """

    power_w: Floats  # (n,)
    mean_w: Floats  # (k,)
    root: Floats  # (k, k + 1) D = root root'
    near: _Strips  # about the windows' later ends
    far: _Strips  # about their earlier ends
    delays_s: Floats  # (d,) the box is averaged over them
    away_s: Floats  # (n,) each reading's time from the pivot [s]
    pivot_s: float

    def __call__(self, at: Floats) -> Floats:
        """Return the log likelihood at places of shape (p, 3). Shape (p,)."""
        out = np.empty(len(at))
        spread = max(float(np.std(self.power_w)), 0.3)
        noise = (NOISE * spread)[:, None, None] ** 2
        n, rank = len(self.power_w), self.root.shape[1]
        for first in range(0, len(at), _AT_ONCE):
            batch = slice(first, first + _AT_ONCE)
            offset, window, drift = at[batch].T[:, :, None]
            moved = offset + drift * self.away_s
            rows = np.zeros((*moved.shape, len(self.mean_w)))
            for delay in self.delays_s:
                front = -moved - delay
                rows += self.near.to(front) - self.far.to(front - window)
            rows /= (window * len(self.delays_s))[..., None]
            miss = self.power_w - rows @ self.mean_w
            drawn = rows @ self.root
            size, turn = np.linalg.eigh(np.swapaxes(drawn, 1, 2) @ drawn)
            size = np.maximum(size, 1e-12)
            along = (
                np.einsum("pij,pnj,pn->pi", np.swapaxes(turn, 1, 2), drawn, miss, optimize=True) ** 2 / size
            )
            apart = np.maximum((miss**2).sum(axis=1) - along.sum(axis=1), 0.0)
            value = (np.log(size + noise) + along / (size + noise)).sum(axis=2)
            value += (n - rank) * np.log(noise[..., 0]) + apart / noise[..., 0]
            out[batch] = -0.5 * value.min(axis=0)
        return out


def place_log(
    readings: Readings, timeline: Timeline, sensor: Sensor, *, around_s: float, prior_sd_s: float
) -> Placement:
    """Return the offset of a log whose sensor averages, and the length of its window.

    Parameters
    ----------
    readings : Readings
        A few hundred at most.
    timeline : Timeline
        Activity near them, of several classes.
    sensor : Sensor
        A mean over a window; its ``window_sd_s`` says how far GPUs' windows differ; 0 where that is settled.
    around_s, prior_sd_s : float
        Where the timeline's offset is expected, and how sure. [s]

    Notes
    -----
    The posterior on a grid of offsets and windows, whose likeliest cells are cut finer: under work in step
    with the updates the likelihood has many narrow peaks.
    """
    timeline = _fewer_classes(timeline)
    numbers = (readings.update_s, readings.update_sd_s, readings.jitter_s, around_s, prior_sd_s, sensor)
    arrays = (readings.time_s, readings.power_w, timeline.start_s, timeline.end_s, timeline.label)
    digest = hashlib.blake2b(repr(numbers).encode())
    for array in arrays:
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    key = digest.digest()
    placement = _placed.get(key)
    if placement is None:
        while len(_placed) >= _CACHED:
            _placed.pop(next(iter(_placed)), None)
        placement = _place_log(readings, timeline, sensor, around_s, prior_sd_s)
        _placed[key] = placement
    return placement


def _place_log(
    readings: Readings, timeline: Timeline, sensor: Sensor, around_s: float, prior_sd_s: float
) -> Placement:
    """Return the posterior of :func:`place_log`, of a timeline of few classes."""
    drift_sd = _drift_sd(readings)
    reach = _REACH * prior_sd_s
    offsets = around_s + np.linspace(-reach, reach, _OFFSETS)
    step = float(offsets[1] - offsets[0])
    lengths, length_step = np.array([sensor.window_s]), 0.0
    if sensor.window_sd_s > 0:
        low, high = sensor.window_s + np.array(_LENGTH_REACH) * sensor.window_sd_s
        lengths = np.linspace(max(low, 0.2 * sensor.window_s), high, _LENGTHS)
        length_step = float(lengths[1] - lengths[0])
    worth = _WEIGHT * min(1.0, readings.update_s / sensor_boxes(sensor, readings.jitter_s).length_s)
    likelihood = _prepared(readings, timeline, sensor, offsets, lengths, step / _STRIP, drift_sd)
    center = np.array([around_s, sensor.window_s, 0.0])
    deviation = np.array([prior_sd_s, sensor.window_sd_s or np.inf, drift_sd])

    def value(at: Floats) -> Floats:
        return np.asarray(worth * likelihood(at) - 0.5 * (((at - center) / deviation) ** 2).sum(axis=1))

    def grid(*axes: Floats) -> Floats:
        return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)

    drifts: Floats = np.zeros(1, dtype=np.float64)
    drift_step = 2.0 * _DRIFT_REACH * drift_sd
    if 0.5 * drift_sd * float(np.ptp(readings.time_s)) > step:  # ends of the log move by more than a cell
        drift_step /= _DRIFTS_FIRST
        drifts = np.asarray(drift_step * (np.arange(_DRIFTS_FIRST) - 0.5 * (_DRIFTS_FIRST - 1)), np.float64)
    at = grid(offsets, lengths, drifts)
    cell = np.array([step, length_step, drift_step])
    best = value(at)
    for turn in range(_ROUNDS):
        order: Ints = np.argsort(-best)
        order = order[best[order] > best[order[0]] - _WORSE][:_MOST_CELLS]
        wide = len(order) > _FEW_CELLS
        if wide and turn:
            break
        cuts = np.array([1, 1, _DRIFTS]) if wide else np.array([_FINER, _FINER, _FINER if turn else _DRIFTS])
        cuts[1] = cuts[1] if length_step > 0 else 1
        cell_offsets = [((np.arange(n) + 0.5) / n - 0.5) * c for n, c in zip(cuts, cell, strict=True)]
        at = (at[order, None, :] + grid(*cell_offsets)).reshape(-1, 3)
        cell = cell / cuts
        best = value(at)
    weight = np.exp(best - best.max())
    keep = weight > 1e-6
    weight = weight[keep] / weight[keep].sum()
    return Placement(at[keep], weight, cell, likelihood.pivot_s)


def _drift_sd(readings: Readings) -> float:
    """Return the standard deviation of the drift of the readings' clock against the timeline's. [1]"""
    if readings.jitter_s > 0:  # stamped one by one: no period adds to it
        return DRIFT_SD
    return float(np.hypot(DRIFT_SD, min(readings.update_sd_s / readings.update_s, _MOST_DRIFT)))


def _prepared(
    readings: Readings,
    timeline: Timeline,
    sensor: Sensor,
    offsets: Floats,
    lengths: Floats,
    step_s: float,
    drift_sd: float,
) -> _Likelihood:
    boxes = sensor_boxes(sensor, readings.jitter_s)
    delays = boxes.front_s
    margin = _STRIP * step_s + _DRIFT_REACH * drift_sd * float(np.ptp(readings.time_s))
    begin, end = -float(offsets.max() + delays.max()) - margin, -float(offsets.min() + delays.min()) + margin
    far_begin, far_end = begin - float(lengths.max()) - margin, end - float(lengths.min()) + margin
    near = _Strips(readings, timeline, begin, end, step_s)
    far = _Strips(readings, timeline, far_begin, far_end, step_s)
    middle = replace(readings, time_s=readings.time_s - float(offsets.mean()))
    prior = prior_of(readings.power_w, design(middle, boxes, timeline), None, np.nan)
    lead = prior.scale_sd * prior.shared * prior.mean_w
    root = np.concatenate([np.diag(prior.sd_w), lead[:, None]], axis=1)
    pivot = float(readings.time_s.mean())
    away = readings.time_s - pivot
    return _Likelihood(readings.power_w, prior.mean_w, root, near, far, delays, away, pivot)
