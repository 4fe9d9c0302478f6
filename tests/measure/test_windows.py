"""Energy of windows: a square wave through a sensor that sees a quarter of it, and real logs on a meter."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import linalg

from benchmarks.plain_integral import naive_energy
from tracetool.core.interval import Z90
from tracetool.hardware.sensors import sensor_of
from tracetool.measure.attribute import attribute_activity
from tracetool.measure.class_energy import attribute_classes
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.sensors import calibrated
from tracetool.measure.timeline import build_timeline
from tracetool.measure.windows import window_energy

from .invented_gpu import Steps
from .jobs import job, sensor_log

NOTHING = np.zeros(0)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "sensor"
LOGS = {
    "5050_3090": "rtx-3090",
    "transient_response_3090": "rtx-3090",
    "transient_response_k40m": "tesla-k40m",
}


def _wave(seed: int):
    noise = np.random.default_rng(seed)
    start = 1.0 + np.cumsum(0.1031 + noise.normal(0, 3e-4, 80))
    end = start + 0.0501 + noise.normal(0, 3e-4, 80)
    edges = np.concatenate([[-2.0], np.column_stack([start, end]).ravel(), [end[-1] + 2.0]])
    watts = np.full(len(edges) - 1, 130.0)
    watts[1::2] = 400.0
    return start, end, Steps(edges, watts)


def test_a_fast_square_wave_through_a_sensor_that_sees_a_quarter() -> None:
    ours, plain = [], []
    for seed in range(3):
        start, end, steps = _wave(seed)
        time, power = sensor_log(steps, 1, seed, shift_s=0.0)
        timeline = build_timeline(start, end, np.zeros(80, np.int64), 1, 3e-4)
        sensor = replace(sensor_of("ampere-ga100"), gain_sd=0.01, offset_sd_w=1.0)
        seen = observe(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, [sensor])
        first = np.random.default_rng(seed).uniform(start[2], end[-12] - 0.0, 40)
        for span, limit in ((0.05, 0.06), (0.1, 0.06), (0.8, 0.03)):
            truth = steps.energy(first + span) - steps.energy(first)
            found = window_energy(seen, first, first + span)
            error = np.abs(found.energy_j / truth - 1)
            assert error.mean() < limit, (seed, span)
            ours.append(error.mean())
            plain.append(np.abs(naive_energy(time, power, first, first + span) / truth - 1).mean())
            assert np.mean((found.low_j <= truth) & (truth <= found.high_j)) > 0.7
    assert np.mean(ours) < 0.4 * np.mean(plain)


def test_windows_add_up() -> None:
    start, end, steps = _wave(4)
    time, power = sensor_log(steps, 2, 1)
    timeline = build_timeline(start, end, np.zeros(80, np.int64), 1, 3e-4)
    seen = observe(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, [sensor_of("turing")])
    cuts = np.array([2.0, 2.3, 2.31, 4.0, 7.0])
    parts = window_energy(seen, cuts[:-1], cuts[1:]).energy_j
    whole = window_energy(seen, cuts[:1], cuts[-1:]).energy_j
    assert parts.sum() == pytest.approx(whole[0], rel=1e-9)


def test_a_window_beyond_the_log_has_no_energy() -> None:
    start, end, steps = _wave(5)
    time, power = sensor_log(steps, 1, 1)
    timeline = build_timeline(start, end, np.zeros(80, np.int64), 1)
    seen = observe(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, [sensor_of("ampere-ga100")])
    found = window_energy(seen, np.array([500.0, 3.0]), np.array([501.0, 4.0]))
    assert np.isnan(found.energy_j[0])
    assert found.coverage[0] == 0.0
    assert 0.2 < found.coverage[1] < 0.35


@pytest.mark.parametrize("window_s", [0.0185, 0.025])
def test_a_short_window_that_differs_between_boards_is_read_off_the_log(window_s: float) -> None:
    errors = []
    for seed in range(2):
        start, end, steps = _wave(seed)
        time, power = sensor_log(steps, 1, seed, shift_s=0.0, window_s=window_s)
        timeline = build_timeline(start, end, np.zeros(80, np.int64), 1, 3e-4)
        sensor = replace(sensor_of("ampere-ga100"), gain_sd=0.01, offset_sd_w=1.0)
        seen = observe(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, [sensor])
        assert seen.sensor.window_s == pytest.approx(window_s, rel=0.1)
        first = np.random.default_rng(seed).uniform(start[2], end[-12], 40)
        found = window_energy(seen, first, first + 0.8)
        errors.append(np.abs(found.energy_j / (steps.energy(first + 0.8) - steps.energy(first)) - 1).mean())
        known = observe(
            PowerLog("draw", time, power, NOTHING, NOTHING),
            timeline,
            [calibrated(sensor, {"window_s": window_s})],
        )
        assert known.sensor.window_s == window_s  # measured on this GPU: not fitted again
    assert np.mean(errors) < 0.03


@pytest.mark.data
@pytest.mark.parametrize("name", LOGS)
def test_real_logs_agree_with_a_physical_meter(name: str, tmp_path: Path) -> None:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip("the measured data is not here")
    meter = pl.read_parquet(folder / "meter.parquet")
    t, w = meter["time_us"].to_numpy().astype(float), meter["power_w"].to_numpy()
    marks = sorted({int(x) for x in (folder / "load_timestamps_us.csv").read_text().split()[1:]})
    pairs = list(zip(marks[::2], marks[1::2], strict=False))
    pl.DataFrame(
        {"name": "load", "start_us": [a for a, _ in pairs], "end_us": [b for _, b in pairs]}
    ).write_csv(tmp_path / "activity.csv")
    low, high = max(t[0], marks[0]), min(t[-1], marks[-1])
    chance = random.Random(17)
    spans = (50e3, 100e3, 1e6, 3e6)
    windows = [(a, a + s, s) for s in spans for a in (chance.uniform(low, high - s) for _ in range(40))]
    frame = pl.DataFrame(
        {"start_us": [int(a) for a, _, _ in windows], "end_us": [int(b) for _, b, _ in windows]}
    )
    frame.write_csv(tmp_path / "windows.csv")
    found = attribute_activity(
        tmp_path / "activity.csv",
        power=[folder / "nvidia_smi.csv"],
        tz="+01:00",
        gpu=LOGS[name],
        windows=tmp_path / "windows.csv",
    ).windows
    assert found is not None
    truth = np.array(
        [np.trapezoid(w[(t >= a) & (t <= b)], t[(t >= a) & (t <= b)]) * 1e-6 for a, b, _ in windows]
    )
    energy = found["energy_j"].to_numpy()
    raw = np.abs(energy / truth - 1)
    gained = np.abs(np.median(truth / energy) * energy / truth - 1)
    span = np.array([s for _, _, s in windows])
    for length in (1e6, 3e6):
        assert raw[span == length].mean() < 0.08
        assert gained[span == length].mean() < 0.03
    for length in (50e3, 100e3):
        assert gained[span == length].mean() < 0.06


def test_deviations_of_a_stretch_are_those_of_the_whole_system() -> None:
    start, end, steps = _wave(6)
    time, power = sensor_log(steps, 2, 1)
    timeline = build_timeline(start, end, np.zeros(80, np.int64), 1, 3e-4)
    seen = observe(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, [sensor_of("turing")])
    levels = seen.levels()
    first = np.random.default_rng(0).uniform(1.0, 5.0, 60)
    last = first + np.tile([0.03, 0.4, 3.0], 20)
    _, deviation = levels.energy(first, last)
    dense = (levels.weights(first, last) @ levels.mixing).toarray()
    solved = linalg.cho_solve_banded((levels.factor, True), dense.T)
    assert deviation == pytest.approx(np.sqrt((dense * solved.T).sum(axis=1)), rel=0.02)


def test_what_ran_says_how_power_moved_between_readings() -> None:
    made = job(12, classes=5, seconds=25.0)
    time, power = sensor_log(made.steps, 2, 12, shift_s=0.0, drift=0.0)
    timeline = build_timeline(made.start_s, made.end_s, made.label, 5, 2e-5)
    sensor = replace(sensor_of("ampere-ga10x", "instant"), gain_sd=0.005, offset_sd_w=0.5)
    seen = observe(PowerLog("instant", time, power, NOTHING, NOTHING), timeline, [sensor])
    first = np.random.default_rng(3).uniform(2.0, 20.0, 150)
    truth = made.steps.energy(first + 0.05) - made.steps.energy(first)
    blind = window_energy(seen, first, first + 0.05)
    told = window_energy(seen, first, first + 0.05, attribute_classes(seen))
    assert np.abs(told.energy_j / truth - 1).mean() < 0.7 * np.abs(blind.energy_j / truth - 1).mean()
    assert np.mean((told.low_j <= truth) & (truth <= told.high_j)) > 0.75


def test_an_offset_of_a_sensor_errs_by_its_watts_in_every_second() -> None:
    """10 W of deviation of what is shown are 5 W where 2 W are shown of each: squares of errors add up."""
    start, end, steps = _wave(4)
    time, power = sensor_log(steps, 2, 1)
    timeline = build_timeline(start, end, np.zeros(80, np.int64), 1)
    log = PowerLog("draw", time, power, NOTHING, NOTHING)
    half = []
    for deviation in (0.0, 10.0):
        sensor = replace(sensor_of("turing"), gain=2.0, gain_sd=0.0, offset_w=0.0, offset_sd_w=deviation)
        seen = observe(log, timeline, [sensor])
        found = window_energy(seen, np.array([3.0]), np.array([7.0]))
        half.append(float(found.high_j[0] - found.energy_j[0]) / Z90)
    assert half[1] ** 2 - half[0] ** 2 == pytest.approx((4.0 * 5.0) ** 2)


def test_windows_lie_at_their_stamps_where_polls_are_in_step_with_updates() -> None:
    """Polls every 50 ms bracket an update to 50 ms; work on the same clock tells where it was."""
    made = job(4, classes=3, seconds=9.0, mean_s=0.012)
    updates = np.arange(made.steps.edges_s[0] + 0.3, made.steps.edges_s[-1], 0.1)
    shown = np.round(made.steps.mean(updates, 0.025), 2)
    first = np.arange(2.0, 8.0, 0.11)
    truth = made.steps.energy(first + 0.05) - made.steps.energy(first)
    timeline = build_timeline(made.start_s, made.end_s, made.label, 3, 2e-5)
    sensor = replace(sensor_of("ampere-ga100"), gain_sd=1e-3, offset_sd_w=0.1)
    for after_s in (0.004, 0.046):
        polls = np.arange(updates[0] + after_s, updates[-1], 0.05)
        values = shown[np.searchsorted(updates, polls + 1e-6, side="right") - 1]
        seen = observe(PowerLog("draw", polls - 0.003, values, NOTHING, NOTHING), timeline, [sensor])
        found = window_energy(seen, first, first + 0.05, attribute_classes(seen, limit_w=400.0))
        assert np.abs(found.energy_j / truth - 1.0).mean() < 0.05
        assert ((found.low_j <= truth) & (truth <= found.high_j)).mean() > 0.85
        assert abs(seen.grid[0] - (after_s - 0.025)) < 2.5 * seen.grid[1]
