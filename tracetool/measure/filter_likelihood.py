"""Likelihood of a log under a filter: readings against what each state of the timeline would show.

Unlike the levels that follow power wherever it goes, here each state keeps one slowly drifting power.
That is stiff enough to separate one filter from another, and one offset from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.measure.filters import Boxes, timing_noise
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Ramp, Timeline

#: Degrees of freedom of the readings' noise: bursts that are not like the others are let go.
_FREEDOM = 3.0
_ROUNDS = 5
#: Time over which a state's power may drift, and the fewest readings that hold one turn of it. [s]
_DRIFT_S = 3.0
_DRIFT_READINGS = 25
#: A drift's size relative to the log's range, before any reading.
_DRIFT_SHARE = 0.1


#: States are not quite steady: below this share of the log's range misfits say nothing.
_FLOOR_SHARE = 0.01
#: Readings explained at once, which bounds what a fit over many offsets takes.
_TOGETHER = 12_000
#: Just after a burst began, before its end and after it power differs by this much, relative to the range.
_YOUNG_SHARE = 0.3


@dataclass(frozen=True)
class Response:
    """Readings as a filter explains them."""

    log_likelihood: float
    noise_w: float
    swing_w: float  # active above gap, as the sensor shows it
    fitted_w: Floats  # (n,)


def _filtered(times_s: Floats, ramps: Sequence[Ramp], boxes: Boxes) -> Floats:
    """Share of each reading in each state. Shape (k, n, states) of times of shape (k, n)."""
    # boxes of a lag meet: each of their ends is looked up once
    ends, at = np.unique(np.concatenate([boxes.back_s, boxes.front_s]), return_inverse=True)
    back, front = np.split(at, 2)
    moments = times_s[:, None, :] - ends[:, None]
    scale = (boxes.weight / (boxes.back_s - boxes.front_s))[:, None]
    shares = np.empty((*times_s.shape, len(ramps)))
    for i, ramp in enumerate(ramps):
        reached = ramp(moments)
        shares[..., i] = ((reached[:, front] - reached[:, back]) * scale).sum(axis=1)
    return shares


def _hats(time_s: Floats) -> Floats:
    span = float(time_s[-1] - time_s[0])
    turns = int(min(span / _DRIFT_S, len(time_s) / _DRIFT_READINGS, 60))
    if turns < 1:
        return np.ones((len(time_s), 1))
    at = (time_s - time_s[0]) / span * turns
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(turns + 1)[None, :])))


def respond(readings: Readings, timeline: Timeline, boxes: Boxes) -> Response:
    """Return the fit of a filter to the readings of a timeline on the same clock.

    Parameters
    ----------
    readings : Readings
        At least three.
    timeline : Timeline
        Activity.
    boxes : Boxes
        The filter.

    Notes
    -----
    Least squares under a Student likelihood; a state never seen is left at the mean.
    """
    value, noise_w, swing_w, fitted_w = _explain(readings, timeline, boxes, np.zeros(1))
    return Response(float(value[0]), float(noise_w[0]), float(swing_w[0]), fitted_w[0])


def log_likelihoods(readings: Readings, timeline: Timeline, boxes: Boxes, offsets_s: Floats) -> Floats:
    """Return :func:`respond`'s log likelihood of readings that are each offset late. Shape (k,).

    Parameters
    ----------
    readings, timeline, boxes
        As of :func:`respond`.
    offsets_s : array, shape (k,)
        From activity to reading. [s]
    """
    most = max(1, _TOGETHER // len(readings))
    batches = np.split(offsets_s, range(most, len(offsets_s), most))
    return np.concatenate([_explain(readings, timeline, boxes, offsets)[0] for offsets in batches])


def _explain(
    readings: Readings, timeline: Timeline, boxes: Boxes, offsets_s: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log likelihood, noise and swing, shape (k,), and fitted readings, (k, n), at each offset."""
    y = readings.power_w
    times_s = readings.time_s - offsets_s[:, None]
    bursts = timeline.burst_ramps
    state = _filtered(times_s, [*timeline.state_ramps(), *bursts], boxes)
    hats = _hats(readings.time_s)
    reach = max(float(np.ptp(y)), 1.0)
    moving = state[..., :2] if hats.shape[1] > 1 else state[..., :0]
    drift = (hats[:, None, :] * moving[..., None]).reshape(*times_s.shape, -1)
    matrix = np.concatenate([state, drift], axis=2)
    tie = np.concatenate(
        [
            np.full(3, 1e-3 / reach),
            np.full(len(bursts), 1.0 / (_YOUNG_SHARE * reach)),
            np.full(drift.shape[2], 1.0 / (_DRIFT_SHARE * reach)),
        ]
    )
    target = y - float(np.median(y))
    floor = max(0.1, _FLOOR_SHARE * reach)
    noise = np.full((len(offsets_s), 1), 0.1 * reach)
    timing = timing_noise(boxes, times_s, timeline.edges_s, reach, timeline.jitter_s)
    ratio = np.hypot(1.0, timing / noise)
    weight = 1.0 / ratio**2
    miss: Floats = target
    powers_w: Floats = np.zeros((len(offsets_s), matrix.shape[2]))
    for _ in range(_ROUNDS):
        heavy = np.swapaxes(matrix * (weight / noise**2)[..., None], 1, 2)
        normal = heavy @ matrix + np.diag(tie**2)
        powers_w = np.linalg.solve(normal, (heavy @ target)[..., None])[..., 0]
        miss = target - (matrix @ powers_w[..., None])[..., 0]
        noise = np.maximum(floor, 1.4826 * np.median(np.abs(miss / ratio), axis=1, keepdims=True))
        ratio = np.hypot(1.0, timing / noise)
        weight = (_FREEDOM + 1) / (_FREEDOM + (miss / (noise * ratio)) ** 2) / ratio**2
    each = noise * ratio
    of_readings = -0.5 * (_FREEDOM + 1) * np.log1p((miss / each) ** 2 / _FREEDOM).sum(axis=1)
    value = of_readings - np.log(each).sum(axis=1) - 0.5 * ((tie * powers_w) ** 2).sum(axis=1)
    return value, noise[:, 0], powers_w[:, 0] - powers_w[:, 1], y - miss
