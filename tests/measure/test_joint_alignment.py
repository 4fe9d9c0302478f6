"""A log is placed where it was made: an offset, a window and a drift that were planted come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracetool.core.arrays import Floats
from tracetool.hardware.sensors import Sensor
from tracetool.measure import joint_alignment
from tracetool.measure.joint_alignment import Placement, place_log
from tracetool.measure.observe import _place
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import build_timeline
from tracetool.measure.window_length import fit_window

SENSOR = Sensor("instant", "boxcar", 0.1, 0.05, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, "measured", "", 0.005)
PRIOR_SD_S = 0.01
WATTS, IDLE_W = np.array([150.0, 350.0, 260.0]), 60.0


def _job(count: int, seed: int = 3) -> tuple[Floats, Floats, np.ndarray]:
    """Start and end of activities of three classes, and their classes; what lies between is idle."""
    random = np.random.default_rng(seed)
    length, gap = random.uniform(0.02, 0.12, count), random.uniform(0.005, 0.06, count)
    end = 1.0 + np.cumsum(length + gap)
    return end - length, end, random.integers(0, len(WATTS), count)


def _logged(count: int, offset_s: float, window_s: float, drift: float) -> Readings:
    """Return readings of the job by a GPU whose clock lies ``offset_s`` behind and drifts."""
    start, end, label = _job(count)
    edges = np.column_stack([start, end]).ravel()
    watts = np.full(len(edges) - 1, IDLE_W)
    watts[::2] = WATTS[label]
    edges, watts = np.append(np.append(0.0, edges), 1e3), np.append(np.append(IDLE_W, watts), IDLE_W)
    joules = np.append(0.0, np.cumsum(watts * np.diff(edges)))
    time = np.arange(0.5, end[-1] + 0.5, SENSOR.update_s)
    at = time - offset_s - drift * (time - time.mean())
    power = (np.interp(at, edges, joules) - np.interp(at - window_s, edges, joules)) / window_s
    noise = np.random.default_rng(8).normal(0.0, 0.5, len(time))
    return Readings(time, power + noise, SENSOR.update_s, 1e-6, 0.0, len(time))


@pytest.fixture(scope="module")
def placed() -> Placement:
    readings = _logged(180, 0.013, 0.046, 4e-5)
    joint_alignment._placed.clear()  # one that is remembered is not placed
    return place_log(
        readings, build_timeline(*_job(180), classes=3), SENSOR, around_s=0.0, prior_sd_s=PRIOR_SD_S
    )


def test_what_was_planted_lies_within_what_is_stated(placed: Placement) -> None:
    offset_s, window_s, drift = placed.mean
    offset_sd_s, window_sd_s, drift_sd = placed.deviation
    assert abs(offset_s - 0.013) < min(3.0 * offset_sd_s, 0.1 * PRIOR_SD_S)
    assert abs(window_s - 0.046) < min(3.0 * window_sd_s, 0.2 * SENSOR.window_sd_s)
    assert abs(drift - 4e-5) < 3.0 * drift_sd
    assert offset_sd_s < 0.1 * PRIOR_SD_S
    assert window_sd_s < 0.4 * SENSOR.window_sd_s


def test_places_drawn_stand_for_all(placed: Placement) -> None:
    """They have the mean of the weighted ones, and their spread but for that within a cell."""
    assert placed.weight.sum() == pytest.approx(1.0)
    drawn = placed.drawn(500)
    within = placed.deviation**2 - placed.cell**2 / 12.0
    np.testing.assert_allclose(drawn.mean(axis=0), placed.mean, atol=0.1 * placed.deviation.max())
    np.testing.assert_allclose(drawn[:, 0].var(), within[0], rtol=0.1)


def test_a_window_alone_is_fitted_as_well() -> None:
    readings = _logged(60, 0.0, 0.046, 0.0)
    sensor, sd_s = fit_window(
        readings, build_timeline(*_job(60), classes=3), SENSOR, around_s=0.0, prior_sd_s=0.004, worth=1.0
    )
    assert sensor.window_s == pytest.approx(0.046, abs=3.0 * sd_s)
    assert sd_s < 0.4 * SENSOR.window_sd_s


def test_only_many_readings_of_a_sensor_that_averages_place_a_log() -> None:
    """A load in step with the updates leaves places open: a lag has no window, 60 readings are few."""
    start = 0.03 + 0.1 * np.arange(120.0)
    work = build_timeline(start, start + 0.04, np.arange(120) % 2, 2)
    at = np.arange(0.0, 12.0, SENSOR.update_s)
    power = 60.0 + 200.0 * (work.busy(at) - work.busy(at - 0.05)) / 0.05 + np.arange(len(at)) % 2
    readings = Readings(at, power, SENSOR.update_s, 1e-6, 0.0, len(at))
    assert _place(readings, work, SENSOR, 0.0, 0.004) is not None
    lag = replace(SENSOR, kind="lag", window_s=np.nan, lag_s=0.02, window_sd_s=0.0)
    assert _place(readings, work, lag, 0.0, 0.004) is None
    few = replace(readings, time_s=at[:60], power_w=power[:60])
    assert _place(few, work, SENSOR, 0.0, 0.004) is None
