"""A log matched to a timeline: the sensor behind it, its readings and their offset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.hardware.sensors import Sensor
from tracetool.measure.align import Alignment, align, join_parts
from tracetool.measure.counter import SQRT12, counter_readings
from tracetool.measure.design_matrix import design
from tracetool.measure.filter_likelihood import log_likelihoods
from tracetool.measure.filters import Boxes, sensor_boxes
from tracetool.measure.fit_levels import fit_levels
from tracetool.measure.joint_alignment import DRIFT_SD, Placement, place_log
from tracetool.measure.power_levels import Levels
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings, query_times, resolve_updates, update_period
from tracetool.measure.timeline import Timeline
from tracetool.measure.window_length import class_likelihood, compact_classes, fit_window

#: Log likelihood by which another sensor, or offset, must exceed that of the first candidate. [1] A prior:
#: odds of 20,000 to 1.
DECISIVE = 10.0
#: Absolute logarithm of the ratio of two update periods from which on they are of different sensors. [1] A
#: prior.
_NEAR_PERIOD = 0.3
#: Readings from which on the powers of classes determine an offset. [1] A prior.
_FEW = 60
#: Offsets tried with them. [1] A prior.
_CLASS_OFFSETS = 37
#: Readings used with them: the joint likelihood costs the cube of their number. [1] For speed.
_CLASS_READINGS = 180
#: Weight of the power levels' log likelihood for an offset. [1] Levels cannot follow power that varies inside
#: a block, which correlates the residuals of successive readings: measured on 48 simulated GPUs under a
#: square wave, offsets were wrong by five standard deviations at a weight of 1, and by one at this weight.
_LEVELS_WEIGHT = 0.25
#: Readings used for an offset otherwise. [1] For speed.
_MAX_READINGS = 250
#: Share of the update period from which on a window counts as covering all of it. [1] A prior.
_WHOLE = 0.9
#: Phases of the updates against the load that are tried. [1] A prior.
_PHASES = 12
#: Relative change of the busy time in windows over these phases from which on the load counts as in step with
#: the updates, and offset and window are fitted together. [1] A prior.
_IN_STEP = 0.01
#: Delay of power at the GPU's input behind activity: regulators and input filter smooth it. [s] A prior.
LAG_S = 0.002
#: Standard deviations from which on an offset of the work is put down to two clocks that differ, and not to
#: where readings lie after their stamps. [1] A prior.
_FAR = 4.0
#: Standard deviation between two stamps of one host clock, from reading the sensor and from the launch. [s] A
#: prior.
CLOCK_SD_S = 0.004


@dataclass(frozen=True)
class Observation:
    """Readings of one device, aligned with its activity on the log's clock."""

    field: str
    sensor: Sensor
    readings: Readings
    boxes: Boxes
    alignment: Alignment
    timeline: Timeline  # moved to the log
    window_sd_s: float = 0.0  # standard deviation of the sensor's window, given the log [s]
    placement: Placement | None = None  # posterior of offset and window where they were fitted together
    grid: tuple[float, float] = (0.0, 0.0)  # delay of readings after their stamps, standard deviation [s]

    def levels(
        self, offset_s: float = 0.0, ratio: Floats | None = None, like: Levels | None = None
    ) -> Levels:
        """Return the levels of power over time, the timeline moved by ``offset_s`` more. [s]

        ``ratio`` holds the power of each class over their mean, shape (classes,); ``like`` are levels of
        another offset nearby, to start from.
        """
        moved = self.timeline.shifted(offset_s) if offset_s else self.timeline
        return fit_levels(self.readings, moved, self.boxes, ratio=ratio, like=like)


def busiest_part(readings: Readings, timeline: Timeline, most: int = _MAX_READINGS) -> Readings:
    """Return at most ``most`` successive readings, where activity varies most."""
    if len(readings) <= most:
        return readings
    edges = timeline.busy(readings.time_s)
    change = np.abs(np.diff(np.diff(edges, prepend=edges[0]), prepend=0.0))
    total = np.concatenate([[0.0], np.cumsum(change)])
    first = int(np.argmax(total[most:] - total[:-most]))
    busiest = slice(first, first + most)
    return replace(readings, time_s=readings.time_s[busiest], power_w=readings.power_w[busiest])


def observe(
    log: PowerLog,
    timeline: Timeline,
    sensors: list[Sensor],
    *,
    prior_sd_s: float = CLOCK_SD_S,
    around_s: float = LAG_S,
) -> Observation:
    """Return a log's readings of a device, aligned with the device's activity.

    Parameters
    ----------
    log : PowerLog
        At least three readings.
    timeline : Timeline
        Activity of the device, its clock near the log's.
    sensors : list of Sensor
        Candidates, likeliest first; the log chooses where it can.
    prior_sd_s, around_s : float
        Prior of the offset between the two clocks: standard deviation and mean. [s]

    Raises
    ------
    BadInput
        If the log holds too few readings for any alignment.
    """
    if len(log.time_s) < 3:
        raise BadInput(
            f"the power log has {counted(len(log.time_s), 'reading')}",
            "log for longer than the sensor's update period",
        )
    if log.field == "counter":
        readings = counter_readings(log, sensors[0].update_s)
        sensor = as_boxcar(sensors[0], readings)
    else:
        query_s = query_times(log.time_s)
        sensor = choose_sensor(query_s, log.power_w, timeline, sensors)
        readings = resolve_updates(query_s, log.power_w, sensor.update_s)
    if len(readings) < 3:
        raise BadInput(
            "the power log shows fewer than three updates of its sensor", "log for longer than a second"
        )
    boxes = sensor_boxes(sensor, readings.jitter_s)
    if not len(timeline.start_s):
        fixed = Alignment(0.0, prior_sd_s, np.zeros(1), np.ones(1))
        grid = (0.0, readings.grid_sd_s)
        return Observation(log.field, sensor, readings, boxes, fixed, timeline, grid=grid)
    open_s = float(np.hypot(prior_sd_s, readings.grid_sd_s))
    placement = _place(readings, timeline, sensor, around_s, open_s)
    if placement is not None and len(readings) < 3 * _MAX_READINGS:
        joined = placement.alignment
        sensor = replace(sensor, window_s=float(placement.mean[1]))
        boxes = sensor_boxes(sensor, readings.jitter_s)
        moved = timeline.shifted(joined.offset_s, joined.drift, joined.pivot_s)
        window_sd_s = float(placement.deviation[1])
        grid = _grid_error(readings, joined, prior_sd_s, around_s)
        return Observation(log.field, sensor, readings, boxes, joined, moved, window_sd_s, placement, grid)
    stretches = [busiest_part(stretch, timeline) for stretch in _thirds(readings)]
    window_sd_s = 0.0
    if placement is not None and sensor.window_sd_s > 0:
        sensor = replace(sensor, window_s=float(placement.mean[1]))
        window_sd_s = float(placement.deviation[1])
        boxes = sensor_boxes(sensor, readings.jitter_s)
    elif sensor.window_sd_s > 0:
        busiest = busiest_part(readings, timeline, _CLASS_READINGS)
        margin = boxes.reach_s + 2.0 + open_s * 4.0
        near = timeline.within(float(busiest.time_s[0]) - margin, float(busiest.time_s[-1]) + margin)
        sensor, window_sd_s = fit_window(
            busiest, compact_classes(near), sensor, around_s=around_s, prior_sd_s=open_s, worth=_LEVELS_WEIGHT
        )
        boxes = sensor_boxes(sensor, readings.jitter_s)
    settled = replace(sensor, window_sd_s=0.0)
    at = np.array([float(stretch.time_s.mean()) for stretch in stretches])
    # at the ends of a long log, drift exceeds the error of stamps
    drifted_s = DRIFT_SD * np.abs(at - at.mean())
    alignments = [
        _align_stretch(stretch, timeline, settled, around_s, float(np.hypot(open_s, aside_s)))
        for stretch, aside_s in zip(stretches, drifted_s, strict=True)
    ]
    joined = join_parts(alignments, at, DRIFT_SD) if len(stretches) > 1 else alignments[0]
    moved = timeline.shifted(joined.offset_s, joined.drift, joined.pivot_s)
    grid = _grid_error(readings, joined, prior_sd_s, around_s)
    return Observation(log.field, sensor, readings, boxes, joined, moved, window_sd_s, grid=grid)


def _grid_error(
    readings: Readings, alignment: Alignment, clock_sd_s: float, around_s: float
) -> tuple[float, float]:
    """Return how far readings lie after their stamps, by where work was found, and its deviation. [s]

    Polls in step with the updates leave the place of all readings open within a poll. Work that is found
    away from where its clock puts it tells that place, as far as clocks differ by less.
    """
    off_s, open_s = alignment.offset_s - around_s, readings.grid_sd_s
    if open_s <= 0.0:
        return 0.0, 0.0
    if abs(off_s) > _FAR * float(np.hypot(open_s, clock_sd_s)):  # clocks that differ: the delay stays open
        return 0.0, open_s
    share = open_s**2 / (open_s**2 + clock_sd_s**2)
    most_s = 0.5 * SQRT12 * open_s  # evenly likely within a poll
    left_s = float(np.hypot(np.sqrt(share) * clock_sd_s, share * alignment.offset_sd_s))
    return float(np.clip(share * off_s, -most_s, most_s)), left_s


def _place(
    readings: Readings, timeline: Timeline, sensor: Sensor, around_s: float, open_s: float
) -> Placement | None:
    """Return the posterior of offset and window from a part of the log; None where not determined."""
    if sensor.kind != "boxcar" or len(readings) <= _FEW:
        return None
    busiest = busiest_part(readings, timeline, _MAX_READINGS)
    reach = sensor.window_s + 3.0 * sensor.window_sd_s + abs(around_s) + 4.0 * open_s + 2.0
    near = timeline.within(float(busiest.time_s[0]) - reach, float(busiest.time_s[-1]) + reach)
    if len(np.unique(near.label)) < 2 or _open_share(busiest, near, sensor) < _IN_STEP:
        return None
    return place_log(busiest, near, sensor, around_s=around_s, prior_sd_s=open_s)


def _open_share(stretch: Readings, timeline: Timeline, sensor: Sensor) -> float:
    """Return the relative change of the busy time in windows over the phase of the updates. [1]"""
    if sensor.window_s > _WHOLE * stretch.update_s:
        return 0.0
    work = compact_classes(replace(timeline, label=np.zeros_like(timeline.label), classes=1))
    boxes = sensor_boxes(sensor, stretch.jitter_s)
    inside = (stretch.time_s >= float(work.start_s[0])) & (stretch.time_s <= float(work.end_s[-1]))
    if inside.sum() < _FEW:
        return 0.0
    covered = replace(stretch, time_s=stretch.time_s[inside], power_w=stretch.power_w[inside])
    means = [
        float(design(replace(covered, time_s=covered.time_s + place), boxes, work).matrix[:, 0].mean())
        for place in np.arange(_PHASES) * stretch.update_s / _PHASES
    ]
    return float(0.5 * np.ptp(means) / max(np.mean(means), 1e-9))


def as_boxcar(sensor: Sensor, readings: Readings) -> Sensor:
    """Return a counter's sensor with a window of one whole update period, which each of its steps covers."""
    step = readings.update_s
    return replace(sensor, kind="boxcar", window_s=step, update_s=step)


def choose_sensor(time_s: Floats, power_w: Floats, timeline: Timeline, sensors: list[Sensor]) -> Sensor:
    """Return the candidate sensor that fits a log best; the first where the log does not decide.

    The update period rules out candidates by itself; among the rest one must explain the readings
    decisively better than the first.
    """
    if len(sensors) == 1:
        return sensors[0]
    period, _, _ = update_period(time_s, power_w)
    if np.isfinite(period):
        fitting = [s for s in sensors if abs(np.log(s.update_s / period)) < _NEAR_PERIOD]
        sensors = fitting or sensors
    if len(sensors) == 1 or not len(timeline.start_s):
        return sensors[0]
    readings = resolve_updates(time_s, power_w, sensors[0].update_s)
    if len(readings) < 10:
        return sensors[0]
    busiest = busiest_part(readings, timeline)
    near = timeline.within(float(busiest.time_s[0]) - 5.0, float(busiest.time_s[-1]) + 5.0)
    offsets = LAG_S + CLOCK_SD_S * np.linspace(-2.0, 2.0, 9)
    score = [
        float(log_likelihoods(busiest, near, sensor_boxes(s, busiest.jitter_s), offsets).max())
        for s in sensors
    ]
    best = int(np.argmax(score))
    return sensors[best] if score[best] > score[0] + DECISIVE else sensors[0]


def _align_stretch(
    stretch: Readings, timeline: Timeline, sensor: Sensor, around_s: float, prior_sd_s: float
) -> Alignment:
    """Align one stretch of readings, by shifting these: integrals of the timeline are computed once.

    Readings whose windows overlap have correlated residuals, so their likelihood is weighted by the share of
    a window that is new in each.
    """
    placement = _place(stretch, timeline, sensor, around_s, prior_sd_s)
    if placement is not None:
        return placement.alignment
    boxes = sensor_boxes(sensor, stretch.jitter_s)
    reach = boxes.reach_s + abs(around_s) + 4.0 * prior_sd_s + 2.0
    near = timeline.within(float(stretch.time_s[0]) - reach, float(stretch.time_s[-1]) + reach)
    worth = min(1.0, stretch.update_s / boxes.length_s)

    def moved(x: float) -> Readings:
        return replace(stretch, time_s=stretch.time_s - x)

    several = compact_classes(near)
    if several.classes > 1 and len(stretch) > _FEW:
        fewer = busiest_part(stretch, near, _CLASS_READINGS)
        return align(
            lambda x: worth * class_likelihood(replace(fewer, time_s=fewer.time_s - x), several, boxes),
            around_s=around_s,
            prior_sd_s=prior_sd_s,
            points=_CLASS_OFFSETS,
        )
    worth *= _LEVELS_WEIGHT
    return align(
        lambda x: worth * fit_levels(moved(x), near, boxes).log_likelihood,
        quick=lambda offsets_s: worth * log_likelihoods(stretch, near, boxes, offsets_s),
        around_s=around_s,
        prior_sd_s=prior_sd_s,
    )


def _thirds(readings: Readings) -> list[Readings]:
    """Cut a long log into three parts, from which a drift of its clock is estimated."""
    n = len(readings)
    if n < 3 * _MAX_READINGS:
        return [readings]
    cuts = np.linspace(0, n, 4).astype(np.int64)
    return [
        replace(readings, time_s=readings.time_s[a:b], power_w=readings.power_w[a:b])
        for a, b in pairwise(cuts)
    ]
