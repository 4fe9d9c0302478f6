"""What a log's clock does against the trace's: planted offsets and drifts come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tracetool.hardware.sensors import Sensor
from tracetool.measure.power_check.clocks import clock, drift, load_period_s
from tracetool.measure.power_check.finding import LogCase
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline, build_timeline

UPDATE_S, WINDOW_S = 0.1, 0.1
SENSOR = Sensor("draw", "boxcar", UPDATE_S, WINDOW_S, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, "measured", "")


def _load(seconds: float, seed: int = 1) -> Timeline:
    """Work of random lengths with random gaps, from 0 s on."""
    random = np.random.default_rng(seed)
    count = int(seconds / 1.2)
    length, gap = random.uniform(0.3, 0.9, count), random.uniform(0.3, 0.9, count)
    end = np.cumsum(length + gap)
    return build_timeline(end - length, end, np.zeros(count, np.int64), 1)


def _case(load: Timeline, seconds: float, offset_s: float = 0.0, rate: float = 0.0) -> LogCase:
    """Return readings of 100 W idle and 300 W at work, their stamps ``offset_s + rate * time`` too late."""
    at = np.arange(-2.0, seconds + 2.0, UPDATE_S)
    busy = (load.busy(at) - load.busy(at - WINDOW_S)) / WINDOW_S
    time, power = at + offset_s + rate * at, 100.0 + 200.0 * busy
    readings = Readings(time, power, UPDATE_S, 1e-6, 0.0, len(time))
    log = PowerLog("draw", time, power, np.zeros(0), np.zeros(0))
    return LogCase(0, pl.DataFrame(), log, readings, SENSOR, None, load)


@pytest.mark.parametrize("rate", [2e-3, -2e-3])
def test_a_drift_is_found_with_its_sign(rate: float) -> None:
    """Thirds of a log of 184 s lie 122 s from one another: at 2 ms a second they move by 0.25 s."""
    seconds = 180.0
    finding = drift(_case(_load(seconds), seconds, -0.5 * rate * seconds, rate))
    assert finding.value == pytest.approx(1e6 * rate, rel=0.1)
    assert finding.verdict == "usable"  # more than 200 ppm, less than 5,000
    assert "ms in 12" in finding.reason


def test_clocks_that_run_alike_do_not_drift() -> None:
    finding = drift(_case(_load(60.0), 60.0))
    assert (finding.verdict, finding.value) == ("good", 0.0)
    moved_both = drift(_case(_load(60.0), 60.0, 0.3))  # an offset of all is no drift
    assert (moved_both.verdict, moved_both.value) == ("good", 0.0)


def test_a_late_log_is_found_late() -> None:
    finding = clock(_case(_load(60.0), 60.0, 4.2))
    assert finding.value == pytest.approx(4200.0, abs=1e3 * UPDATE_S)
    assert "late" in finding.reason
    assert clock(_case(_load(60.0), 60.0)).value == 0.0


def test_the_strongest_period_of_a_load_is_its_own() -> None:
    start = 0.25 * np.arange(40.0)
    load = build_timeline(start, start + 0.1, np.zeros(40, np.int64), 1)
    assert load_period_s(_case(load, 10.0)) == pytest.approx(0.25, rel=0.03)


def test_readings_that_fall_when_work_begins_are_of_another_gpu() -> None:
    own = _case(_load(60.0), 60.0)
    other = replace(own, readings=replace(own.readings, power_w=400.0 - own.readings.power_w))
    finding = clock(other)
    assert finding.verdict == "unusable"
    assert "readings fall when work begins" in finding.reason
    few = replace(
        other,
        readings=replace(
            other.readings, time_s=other.readings.time_s[:4], power_w=other.readings.power_w[:4]
        ),
    )
    assert clock(few).verdict == "good"  # four readings fall at random
