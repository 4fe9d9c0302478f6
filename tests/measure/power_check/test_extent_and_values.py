"""Where a log lies, how it is stamped and where its values stand still: verdicts on logs of a few lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tracetool.core.arrays import Floats
from tracetool.hardware.sensors import Sensor
from tracetool.measure.power_check.check import check_run
from tracetool.measure.power_check.conditions import reason_bits
from tracetool.measure.power_check.extent import coverage, polling, stamps
from tracetool.measure.power_check.finding import LogCase
from tracetool.measure.power_check.values import stuck
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.tables.run import Run

UPDATE_S = 0.1
SENSOR = Sensor("draw", "boxcar", UPDATE_S, UPDATE_S, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, "measured", "")


def _work(start_s: float, end_s: float) -> Timeline:
    return build_timeline(np.array([start_s]), np.array([end_s]), np.zeros(1, np.int64), 1)


def _case(time: Floats, power: Floats, work: Timeline | None, stamp_ns: int = 1) -> LogCase:
    frame = pl.DataFrame({"time_ns": (time * 1e9).astype(np.int64) // stamp_ns * stamp_ns})
    readings = Readings(time, power, UPDATE_S, 1e-6, 0.0, len(time))
    log = PowerLog("draw", time, power, np.zeros(0), np.zeros(0))
    return LogCase(0, frame, log, readings, SENSOR, None, work)


@pytest.mark.parametrize(
    ("start_s", "words"),
    [
        (-7300.0, "the log begins 7,300 s after the trace): the time zone is 2 h too far west?"),
        (7300.0, "the log begins 7,300 s before the trace): the time zone is 2 h too far east?"),
        (120.0, "the log begins 120 s before the trace)"),
    ],
)
def test_a_log_beside_the_trace_says_which_way(start_s: float, words: str) -> None:
    time = np.arange(0.0, 60.0, UPDATE_S)
    finding = coverage(_case(time, np.full(len(time), 100.0), _work(start_s, start_s + 30.0)))
    assert (finding.verdict, finding.value) == ("unusable", 0.0)
    assert words in finding.reason


def test_the_share_of_the_work_that_is_logged() -> None:
    """The log goes on for 30 s of 40 s of work and the 0.1 s up to its next reading."""
    time = np.arange(0.0, 40.05, UPDATE_S)
    finding = coverage(_case(time, np.full(len(time), 100.0), _work(10.0, 50.0)))
    assert (finding.verdict, finding.value) == ("usable", pytest.approx(100.0 * 30.1 / 40.0))


def test_readings_after_the_trace_are_not_counted_inside_it() -> None:
    """Ten readings a second, work of half a second: those up to a window after it look back on it."""
    time = np.arange(0.0, 30.0, 0.1) + 0.05
    case = replace(
        _case(time, np.full(len(time), 100.0), _work(10.0, 10.5)), sensor=replace(SENSOR, window_s=1.0)
    )
    finding = polling(case)
    assert "5 readings inside the trace and 10 after it whose windows reach into it" in finding.reason
    assert (finding.verdict, finding.value) == ("usable", 15)


def test_whole_seconds_are_named_where_the_sensor_is_quicker() -> None:
    time = np.arange(0.0, 20.0, UPDATE_S) + 0.013
    power = np.full(len(time), 100.0)
    assert stamps(_case(time, power, None)).verdict == "good"
    finding = stamps(_case(time, power, None, stamp_ns=10**9))
    assert (finding.verdict, finding.value, finding.unit) == ("usable", 1000.0, "ms")
    assert "whole seconds" in finding.reason


@pytest.mark.parametrize(
    ("step_w", "still_s", "share"), [(0.1, 1.9, 0), (0.1, 2.1, 1), (1.0, 7.9, 0), (1.0, 8.1, 1)]
)
def test_a_value_that_stands_still_for_long_is_stuck(step_w: float, still_s: float, share: int) -> None:
    """Two seconds are twenty updates: no sensor at work; steps of 1 W may stand so four times as long."""
    time = np.arange(0.0, 40.0, UPDATE_S)
    power = 200.0 + step_w * (np.arange(len(time)) % 7)
    power[100 : 101 + round(still_s / UPDATE_S)] = 150.0
    finding = stuck(_case(time, power, _work(0.0, 39.9)))
    assert finding.value == pytest.approx(share * 100.0 * still_s / 39.9)
    assert ("s at 150.00 W: stuck" in finding.reason) == bool(share)
    assert stuck(_case(time, power, _work(0.0, 5.0))).verdict == "good"  # idle meanwhile


@pytest.mark.parametrize(
    ("asked", "of_run", "name", "loaded"),
    [("h100-sxm", "a100-sxm", "NVIDIA L4", "h100-sxm"), (None, "a100-sxm", "NVIDIA L4", "a100-sxm"),
     (None, None, "NVIDIA L4", "l4"), (None, None, None, None)],
)  # fmt: skip
def test_a_log_is_checked_as_of_the_gpu_asked_for_then_of_the_runs_then_by_its_name(
    asked: str | None,
    of_run: str | None,
    name: str | None,
    loaded: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = object.__new__(Run)
    telemetry = pl.DataFrame({"device": [0], "power_w": [90.0]})
    devices = pl.DataFrame(
        {"device": [0], "gpu": [of_run], "name": [name]}, schema_overrides={"gpu": pl.String}
    )
    for what, value in (
        ("telemetry", telemetry), ("kernels", pl.DataFrame({"device": []})), ("devices", devices)
    ):  # fmt: skip
        monkeypatch.setattr(Run, what, value)
    monkeypatch.setattr("tracetool.measure.power_check.check.telemetry_devices", lambda _: [0])
    asked_of = []
    monkeypatch.setattr(
        "tracetool.measure.power_check.check.check_telemetry", lambda _, __, gpus: asked_of.append(gpus)
    )
    check_run(run, gpu=asked)
    assert [None if one is None else one.name for one in asked_of[0].values()] == [loaded]


def test_a_number_of_no_64_bits_names_no_reason() -> None:
    assert reason_bits("-4") == reason_bits(str(1 << 64)) == reason_bits("") == 0
    assert reason_bits("6") == 6
