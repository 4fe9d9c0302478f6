"""Length of a short window: GPUs of one model differ, and a log of intermittent work shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.hardware.sensors import Sensor
from tracetool.measure.design_matrix import design
from tracetool.measure.filters import Boxes, sensor_boxes
from tracetool.measure.fit_levels import fit_levels
from tracetool.measure.prior import prior_of
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline

#: Noise tried, relative to the readings' spread.
NOISE = np.geomspace(3e-3, 1.0, 12)


def compact_classes(timeline: Timeline) -> Timeline:
    """Return the timeline with its classes numbered without holes."""
    present, label = np.unique(timeline.label, return_inverse=True)
    return replace(timeline, label=label.astype(np.int64), classes=len(present))


def class_likelihood(readings: Readings, timeline: Timeline, boxes: Boxes) -> float:
    r"""Return the log marginal likelihood of readings under a timeline on the same clock.

    Notes
    -----
    With powers :math:`x \sim N(m, D)` the readings are :math:`N(A m, A D A^T + \sigma^2)`: no power is
    fitted, so that many classes explain nothing by their number alone. The eigenvalues of
    :math:`A D A^T` give the best of a grid of :math:`\sigma` at once. One scale shared by all classes
    of work is part of :math:`D`.
    """
    class_design = design(readings, boxes, timeline)
    prior = prior_of(readings.power_w, class_design, None, np.nan)
    rows = class_design.matrix.toarray()
    lead = rows @ (prior.shared * prior.mean_w)
    kernel = (rows * prior.sd_w**2) @ rows.T + prior.scale_sd**2 * np.outer(lead, lead)
    size, turn = np.linalg.eigh(kernel)
    miss = turn.T @ (readings.power_w - rows @ prior.mean_w)
    spread = max(float(np.std(readings.power_w)), 0.3)
    variance = np.maximum(size, 0.0)[None, :] + (NOISE[:, None] * spread) ** 2
    value = -0.5 * (np.log(variance) + miss**2 / variance).sum(axis=1)
    return float(value.max())


#: Windows and offsets tried.
_LENGTHS, _OFFSETS = 9, 9
#: Shortest and longest window tried, from the usual one, in standard deviations: GPUs' are rarely longer.
_REACH = (-2.5, 0.4)
#: Fewest readings that determine a window.
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
    """Return the sensor with its window fitted to the log, and the window's standard deviation.

    Parameters
    ----------
    readings : Readings
        Readings where activity varies most.
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
