"""Energy counters alone: ticks at their moments, steps between them as whole windows, ends that stay open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.measure.jobs import Steps, job
from tests.measure.jobs import counter_log as polled
from tracetool.hardware.load import load_gpu
from tracetool.hardware.sensors import sensor_of
from tracetool.measure.attributed_work import Work
from tracetool.measure.characterize import characterize
from tracetool.measure.counter import counter_readings, counter_ticks, counter_totals
from tracetool.measure.meter_calibration import gain_against
from tracetool.measure.observe import observe
from tracetool.measure.power_check.check import check_telemetry
from tracetool.measure.power_log import PowerLog
from tracetool.measure.timeline import build_timeline
from tracetool.measure.windows import window_energy
from tracetool.tables.schema import load_schema

S = 1_000_000_000


def _log(time: np.ndarray, joules: np.ndarray) -> PowerLog:
    return PowerLog("counter", time, time, time, joules)


def test_ticks_are_put_where_they_happened_and_the_first_poll_tells_none() -> None:
    """250 W, ticks of 0.1 s from 0.03 s on, polled every 20.3 ms from 0.31 s on."""
    polls = np.arange(0.31, 30.0, 0.0203)
    joules = 25.0 * np.floor((polls - 0.03) / 0.1)
    ticks = counter_ticks(polls, joules)
    assert ticks.period_s == pytest.approx(0.1, rel=1e-4)
    assert ticks.time_s[0] == pytest.approx(0.33, abs=2e-3)  # the tick of 0.23 s is seen 80 ms late
    assert np.abs((ticks.time_s - 0.03) / 0.1 - np.round((ticks.time_s - 0.03) / 0.1)).max() < 0.02
    readings = counter_readings(_log(polls, joules), 0.1)
    assert readings.power_w == pytest.approx(250.0, rel=1e-3)
    assert (readings.jitter_s, readings.tick_sd_s) == (0.0, 0.0)


def test_a_gap_between_polls_is_no_reading() -> None:
    polls = np.arange(0.31, 30.0, 0.0203)
    joules = 25.0 * np.floor((polls - 0.03) / 0.1)
    kept = (polls < 10.0) | (polls > 12.0)
    readings = counter_readings(_log(polls[kept], joules[kept]), 0.1)
    assert readings.power_w == pytest.approx(250.0, rel=1e-3)
    assert not ((readings.time_s > 10.0) & (readings.time_s < 12.0)).any()
    ((begin, end, energy, _),) = counter_totals(_log(polls[kept], joules[kept]), 5.0, 15.0)
    assert energy == pytest.approx(250.0 * (end - begin), rel=1e-3)  # the counter ran on


def test_polls_slower_than_ticks_leave_both_ends_of_a_window_open() -> None:
    made = job(10, classes=3, seconds=25.0)
    time, joules = polled(made.steps, 4)
    sensor = replace(sensor_of("hopper", "counter"), gain_sd=1e-4, offset_sd_w=0.01)
    timeline = build_timeline(made.start_s, made.end_s, made.label, 3, 2e-5)
    first = np.arange(3.0, 23.0, 1.1)
    truth = made.steps.energy(first + 0.5) - made.steps.energy(first)
    widths = []
    for every in (1, 6):
        seen = observe(_log(time[::every], joules[::every]), timeline, [sensor])
        windows = window_energy(seen, first, first + 0.5)
        widths.append(float(np.median(windows.high_j - windows.low_j)))
        assert ((windows.low_j <= truth) & (truth <= windows.high_j)).mean() > 0.8
        assert np.abs(windows.energy_j / truth - 1.0).mean() < (0.01 if every == 1 else 0.08)
    open_j = 2.0 * 1.645 * np.sqrt(2.0) * (0.1 / np.sqrt(12.0)) * float(np.median(truth)) / 0.5
    assert widths[0] < 0.3 * open_j < open_j < widths[1]


def test_a_counter_alone_is_checked_by_what_it_gained_from_tick_to_tick() -> None:
    """Power from poll to poll is nothing, nothing, nothing and then five times what was drawn."""
    made = job(3, classes=3, seconds=20.0)
    time, joules = polled(made.steps, 4)
    nothing = {"power_w": [None] * len(time)}
    telemetry = load_schema("telemetry").conform(
        pl.DataFrame(
            {
                "time_ns": np.round(time * S).astype(np.int64) + S,
                "device": 0,
                "energy_j": joules,
                "source": "log",
                **nothing,
            }
        )
    )
    start, end = (np.round(s * S).astype(np.int64) + S for s in (made.start_s, made.end_s))
    work = Work(["a", "b", "c"], [None] * 3, [None] * 3, made.label, start, end, 2e-5)
    checked = check_telemetry(telemetry, {0: work}, {0: load_gpu("h100-sxm", part="sensor")})
    rows = {r["check"]: r for r in checked.findings.iter_rows(named=True)}
    assert (rows["range"]["verdict"], rows["idle"]["verdict"]) == ("good", "good")
    assert rows["range"]["value"] == pytest.approx(made.steps.mean(made.end_s, 0.1).max(), rel=0.05)
    assert checked.verdict == "usable"  # for nothing checks the counter's rate


def test_a_counter_is_identified_and_set_against_a_meter_as_any_sensor_is() -> None:
    random = np.random.default_rng(8)
    edges = np.concatenate([[-3.0], 1.0 + np.cumsum(random.uniform(0.15, 0.6, 60))])
    watts = np.where(np.arange(len(edges) - 1) % 2, 330.0, 80.0)
    steps = Steps(edges, watts)
    shown = Steps(edges, 1.05 * watts + 3.0)  # its gain and offset
    polls, joules = polled(shown, 5)
    log = _log(polls - 0.003, joules)  # lines are stamped before the driver is asked
    busy = watts > 100.0
    timeline = build_timeline(edges[:-1][busy], edges[1:][busy], np.zeros(int(busy.sum()), np.int64), 1)
    found = characterize(log, timeline, sensor_of("hopper", "counter"))
    assert found.window_s is not None
    assert found.update_s is not None
    assert found.window_s.value == pytest.approx(0.1, rel=0.03)
    assert found.update_s.value == pytest.approx(0.1, rel=1e-3)
    sensor = replace(sensor_of("hopper", "counter"), kind="boxcar", window_s=0.1)
    at = np.arange(edges[0] + 0.01, edges[-1] - 0.01, 0.002)
    metered = gain_against(log, sensor, at, steps.mean(at, 0.001))
    assert metered.gain == pytest.approx(1.05, abs=4.0 * metered.gain_sd)
    assert metered.gain_sd < 0.005
