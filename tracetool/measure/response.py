"""How well a filter explains a log: readings against what each state of the timeline would show.

Unlike the levels that follow power wherever it goes, here each state keeps one slowly drifting power.
That is stiff enough to tell one filter from another, and one offset from another.
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


#: A burst's power differs for this long after it begins, and what follows it for this long after. [s]
YOUNG_S = 0.2
#: States are not quite steady: below this share of the log's range misfits say nothing.
_FLOOR_SHARE = 0.01
#: Its last blocks leave the GPU half empty. [s]
LATE_S = 0.1
#: By about this much, relative to the log's range.
_YOUNG_SHARE = 0.3


@dataclass(frozen=True)
class Response:
    """Readings as a filter explains them."""

    log_likelihood: float
    noise_w: float
    swing_w: float  # active above gap, as the sensor shows it
    fitted_w: Floats  # (n,)


def _age_ramps(timeline: Timeline) -> list[Ramp]:
    """Integrals of time before anything ran, just after a burst began, before its end, and after it."""
    ends = timeline.off_start_s
    starts = np.concatenate([timeline.start_s[:1], timeline.off_end_s[:-1]])
    if not len(ends):
        return []
    out = []
    late = np.maximum(starts + YOUNG_S, ends - LATE_S)
    spans = (
        (starts[:1] - 1e7, starts[:1]),  # before anything ran: clocks are lower than after
        (starts, np.minimum(ends, starts + YOUNG_S)),
        (np.minimum(late, ends), ends),
        (ends, np.minimum(np.append(starts[1:], np.inf), ends + YOUNG_S)),
    )
    for open_s, stop in spans:
        corners = np.empty(2 * len(open_s))
        corners[0::2], corners[1::2] = open_s, stop
        values = np.zeros(2 * len(open_s))
        values[1::2] = np.cumsum(stop - open_s)
        values[2::2] = values[1:-1:2]
        out.append(Ramp(corners, values))
    return out


def _filtered(readings: Readings, ramps: Sequence[Ramp], boxes: Boxes) -> Floats:
    """Share of each reading in each state. Shape (n, states)."""
    out = np.zeros((len(readings), len(ramps)))
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        open_s, close_s = readings.time_s - back, readings.time_s - front
        for i, ramp in enumerate(ramps):
            out[:, i] += (ramp(close_s) - ramp(open_s)) * (weight / (back - front))
    return out


def _hats(time_s: Floats) -> Floats:
    span = float(time_s[-1] - time_s[0])
    turns = int(min(span / _DRIFT_S, len(time_s) / _DRIFT_READINGS, 60))
    if turns < 1:
        return np.ones((len(time_s), 1))
    at = (time_s - time_s[0]) / span * turns
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(turns + 1)[None, :])))


def respond(readings: Readings, timeline: Timeline, boxes: Boxes) -> Response:
    """Return how a filter explains the readings of a timeline on the same clock.

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
    y = readings.power_w
    young = _age_ramps(timeline)
    state = _filtered(readings, [*timeline.state_ramps(), *young], boxes)
    hats = _hats(readings.time_s)
    reach = max(float(np.ptp(y)), 1.0)
    drift = (hats[:, None, :] * state[:, :2, None]).reshape(len(y), -1) if hats.shape[1] > 1 else state[:, :0]
    matrix = np.hstack([state, drift])
    tie = np.concatenate(
        [
            np.full(3, 1e-3 / reach),
            np.full(len(young), 1.0 / (_YOUNG_SHARE * reach)),
            np.full(drift.shape[1], 1.0 / (_DRIFT_SHARE * reach)),
        ]
    )
    center = float(np.median(y))
    target = y - center
    floor = max(0.1, _FLOOR_SHARE * reach)
    noise = 0.1 * reach
    timing = timing_noise(boxes, readings.time_s, timeline.edges_s, reach, timeline.jitter_s)
    ratio = np.hypot(1.0, timing / noise)
    weight = 1.0 / ratio**2
    miss: Floats = target
    powers_w: Floats = np.zeros(matrix.shape[1])
    for _ in range(_ROUNDS):
        heavy = matrix * (weight / noise**2)[:, None]
        normal = heavy.T @ matrix + np.diag(tie**2)
        powers_w = np.asarray(np.linalg.solve(normal, heavy.T @ target), dtype=np.float64)
        miss = target - matrix @ powers_w
        noise = max(floor, 1.4826 * float(np.median(np.abs(miss / ratio))))
        ratio = np.hypot(1.0, timing / noise)
        weight = (_FREEDOM + 1) / (_FREEDOM + (miss / (noise * ratio)) ** 2) / ratio**2
    each = noise * ratio
    data = -0.5 * (_FREEDOM + 1) * float(np.log1p((miss / each) ** 2 / _FREEDOM).sum())
    value = data - float(np.log(each).sum()) - 0.5 * float(((tie * powers_w) ** 2).sum())
    return Response(value, noise, float(powers_w[0] - powers_w[1]), y - miss)
