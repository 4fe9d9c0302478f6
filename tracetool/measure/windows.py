"""Energy of windows of time, with everything that makes it uncertain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.measure.class_energy import ClassEnergy
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.observe import Observation

#: Range of the powers of classes relative to their mean. [1] A prior.
_RATIO = (0.2, 4.0)
#: Relative standard deviation of readings from a straight line over true power. [1] Measured: on three logs
#: with a meter, gain and offset of the first half left 0.2 to 0.4 % of a second's energy in the second half.
WANDER_SD = 0.004
#: Common delay of the ends that a host program stamps after waiting, in multiples of its stamps' jitter, and
#: that jitter at least. [1], [s] Measured as 1 ms on a log with a meter; a profiler's stamps have no such
#: delay.
_ENDS_LATE, _HOST_JITTER_S = 2.5, 1e-4
#: Relative error below which the length of a sensor's window counts as known. [1] A prior.
_WINDOW_SHARE = 0.01


@dataclass(frozen=True)
class WindowEnergy:
    """Energy of w windows; NaN where the log does not cover one."""

    energy_j: Floats  # (w,)
    low_j: Floats
    high_j: Floats
    coverage: Floats  # (w,) share of the window any reading saw, 0 to 1


def seen_share(observation: Observation, start_s: Floats, end_s: Floats) -> Floats:
    """Return the share of each window that some reading's filter covers, 0 to 1. Shape (w,)."""
    readings, boxes = observation.readings, observation.boxes
    back = readings.time_s - boxes.reach_s
    front = readings.time_s - float(boxes.front_s.min())
    reach = np.maximum.accumulate(front)
    start = np.maximum(back, np.concatenate([[-np.inf], reach[:-1]]))
    seen_s = np.maximum(reach - start, 0.0)
    total = np.concatenate([[0.0], np.cumsum(seen_s)])

    def until(at: Floats) -> Floats:
        i = np.searchsorted(start, at, side="right")
        before = np.maximum(i - 1, 0)
        covered_s = np.clip(at - start[before], 0.0, seen_s[before])
        return np.where(i > 0, total[before] + covered_s, 0.0)

    return np.clip((until(end_s) - until(start_s)) / np.maximum(end_s - start_s, 1e-12), 0.0, 1.0)


def class_ratio(class_energy: ClassEnergy) -> Floats | None:
    """Return the power of each class over their mean, as attribution states it; None for one class.

    What no reading shows of a class is what is believed of its kind, of copies little over idle: taken for
    the mean of all, readings in which they run would pass for outliers, and all else for more than it draws.
    """
    k = len(class_energy.seconds) - 2
    seconds, power = class_energy.seconds[:k], class_energy.power_w[:k]
    with_power = (seconds > 0) & np.isfinite(power)
    if with_power.sum() < 2:
        return None
    mean = float(seconds[with_power] @ power[with_power] / seconds[with_power].sum())
    excess = np.where(with_power, power / max(mean, 1e-9) - 1.0, 0.0)
    return np.asarray(np.clip(1.0 + excess, *_RATIO))


def power_profile(
    observation: Observation, class_energy: ClassEnergy | None = None, most: int = 1500
) -> tuple[Floats, Floats]:
    """Return true power over a log, as reconstructed, as means over ``most`` stretches. [s], [W]"""
    readings, sensor = observation.readings, observation.sensor
    edges = np.linspace(readings.time_s[0] - observation.boxes.reach_s, readings.time_s[-1], most + 1)
    levels = observation.levels(0.0, None if class_energy is None else class_ratio(class_energy))
    shown = levels.power(edges[:-1], edges[1:])
    return 0.5 * (edges[1:] + edges[:-1]), (shown - sensor.offset_w) / sensor.gain


def window_energy(
    observation: Observation, start_s: Floats, end_s: Floats, class_energy: ClassEnergy | None = None
) -> WindowEnergy:
    """Return the energy of windows on the log's clock.

    Parameters
    ----------
    observation : Observation
        The log and where it lies.
    start_s, end_s : array, shape (w,)
        Windows, on the clock of the readings: the timeline is what was moved to match them. [s]
    class_energy : ClassEnergy, optional
        Energies of the classes: they say how power moved between readings where several kinds ran.

    Notes
    -----
    The alignment's spread is carried by reconstructing at the middle and one deviation to each side, and so
    is what a host program's stamps leave open of how long work ran; gain and offset of the sensor widen all
    windows alike.
    """
    sensor, alignment = observation.sensor, observation.alignment
    seconds = end_s - start_s
    grid_s, grid_sd_s = observation.grid
    start_s, end_s = start_s + grid_s, end_s + grid_s
    ratio = None if class_energy is None else class_ratio(class_energy)
    levels = observation.levels(0.0, ratio)
    shown, deviation = levels.energy(start_s, end_s)
    variance = deviation**2 + levels.inner_variance(start_s, end_s)
    timeline = observation.timeline
    if grid_sd_s > 0.0:
        aside = np.sqrt(1.5) * grid_sd_s
        means = np.array([levels.shown_energy(start_s + s * aside, end_s + s * aside) for s in (-1.0, 1.0)])
        variance = variance + ((means - shown) ** 2).sum(axis=0) / 3.0
    if alignment.offset_sd_s > 0 and len(timeline.start_s):
        aside = np.sqrt(1.5) * alignment.offset_sd_s
        moved = [
            observation.levels(s * aside, ratio, levels).shown_energy(start_s, end_s) for s in (-1.0, 1.0)
        ]
        means = np.array([shown, *moved])
        shown = means.mean(axis=0)
        variance = variance + ((means - shown) ** 2).mean(axis=0)
    if timeline.jitter_s > _HOST_JITTER_S and len(timeline.start_s):
        late = np.sqrt(1.5) * _ENDS_LATE * timeline.jitter_s
        altered = [replace(observation, timeline=timeline.ending(s * late)) for s in (-1.0, 1.0)]
        means = np.array(
            [observed.levels(0.0, ratio, levels).shown_energy(start_s, end_s) for observed in altered]
        )
        variance = variance + ((means - levels.shown_energy(start_s, end_s)) ** 2).sum(axis=0) / 3.0
    if observation.window_sd_s > _WINDOW_SHARE * sensor.window_s and len(timeline.start_s):
        aside = np.sqrt(1.5) * observation.window_sd_s
        lengths = [max(sensor.window_s + s * aside, 0.2 * sensor.window_s) for s in (-1.0, 1.0)]
        boxes = [sensor_boxes(replace(sensor, window_s=w), observation.readings.jitter_s) for w in lengths]
        altered = [replace(observation, boxes=b) for b in boxes]
        means = np.array([observed.levels(0.0, ratio).shown_energy(start_s, end_s) for observed in altered])
        variance = variance + ((means - levels.shown_energy(start_s, end_s)) ** 2).sum(axis=0) / 3.0
    if observation.readings.tick_sd_s > 0.0:  # what a counter held at either end is as old as its last tick
        mean_w = np.divide(shown, seconds, out=np.zeros_like(shown), where=seconds > 0)
        variance = variance + 2.0 * (mean_w * observation.readings.tick_sd_s) ** 2
    energy = (shown - sensor.offset_w * seconds) / sensor.gain
    deviation = np.sqrt(
        variance / sensor.gain**2
        + (sensor.gain_sd / sensor.gain * (energy - sensor.pivot_w * seconds)) ** 2
        + (WANDER_SD * energy) ** 2
        + (sensor.offset_sd_w / sensor.gain * seconds) ** 2
    )
    first = observation.readings.time_s[0] - observation.boxes.reach_s
    last = observation.readings.time_s[-1] + observation.readings.update_s
    inside = (start_s >= first) & (end_s <= last)
    hide = np.where(inside, 0.0, np.nan)
    coverage = seen_share(observation, start_s, end_s)
    return WindowEnergy(
        energy + hide,
        np.maximum(energy - Z90 * deviation, 0.0) + hide,
        energy + Z90 * deviation + hide,
        coverage,
    )
