"""How long a short window is: GPUs of one model differ, and a log of work that comes and goes tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.hardware.sensors import Sensor
from tracetool.measure.class_likelihood import class_likelihood
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.fit_levels import fit_levels
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline

#: Windows and offsets tried.
_LENGTHS, _OFFSETS = 9, 9
#: Shortest and longest window tried, from the usual one, in standard deviations: GPUs' are rarely longer.
_REACH = (-2.5, 0.4)
#: Fewest readings that tell a window.
_FEWEST = 20


def fit_window(
    readings: Readings,
    timeline: Timeline,
    sensor: Sensor,
    *,
    around_s: float,
    prior_sd_s: float,
    worth: float,
) -> tuple[Sensor, float]:
    """Return the sensor with its window as the log tells it, and the window's standard deviation.

    Parameters
    ----------
    readings : Readings
        Where activity comes and goes most.
    timeline : Timeline
        Activity near them.
    sensor : Sensor
        Its ``window_sd_s`` says how far GPUs' windows differ; 0 where that is settled.
    around_s, prior_sd_s : float
        Where the timeline's offset is expected, and how sure. [s]
    worth : float
        Part of the levels' log likelihood that counts.

    Notes
    -----
    Posterior over the windows of such GPUs, each with its likeliest offset: a mean over a quarter of the
    time errs by as much as its window is taken wrong.
    """
    if sensor.window_sd_s <= 0 or len(readings) < _FEWEST or not len(timeline.start_s):
        return sensor, sensor.window_sd_s
    low, high = sensor.window_s + np.array(_REACH) * sensor.window_sd_s
    lengths = np.linspace(max(low, 0.2 * sensor.window_s), high, _LENGTHS)
    offsets = around_s + prior_sd_s * np.linspace(-2.0, 2.0, _OFFSETS)
    several = timeline.classes > 1

    def likelihood(length: float, offset: float) -> float:
        boxes = sensor_boxes(replace(sensor, window_s=length), readings.jitter_s)
        moved = replace(readings, time_s=readings.time_s - offset)
        if several:
            return class_likelihood(moved, timeline, boxes)
        return worth * fit_levels(moved, timeline, boxes).log_likelihood

    table = np.array([[likelihood(float(w), float(x)) for x in offsets] for w in lengths])
    table -= 0.5 * ((offsets - around_s) / prior_sd_s) ** 2
    value = np.logaddexp.reduce(table, axis=1) - 0.5 * ((lengths - sensor.window_s) / sensor.window_sd_s) ** 2
    weight: Floats = np.exp(value - value.max())
    weight /= weight.sum()
    mean = float(weight @ lengths)
    cell = float(lengths[1] - lengths[0])
    sd = float(np.sqrt(weight @ (lengths - mean) ** 2 + cell**2 / 12.0))
    return replace(sensor, window_s=mean), sd
