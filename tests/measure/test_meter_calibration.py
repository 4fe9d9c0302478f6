"""A GPU's gain and offset from a meter beside its log, and the intervals that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.hardware.sensors import sensor_of
from tracetool.measure.meter_calibration import gain_against
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog, power_logs
from tracetool.measure.sensors import calibrated, candidate_sensors, read_sensor_file
from tracetool.measure.timeline import build_timeline
from tracetool.measure.windows import window_energy
from tracetool.sources.telemetry.logs import read_telemetry
from tracetool.tables.activity_table import read_meter

from .invented_gpu import Steps
from .jobs import job, sensor_log

NOTHING = np.zeros(0)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "sensor" / "transient_response_k40m"


def _metered(steps: Steps, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """A meter of 2 kHz whose clock is 6 ms off and loses 0.9 ms a second."""
    at = np.arange(0.2, seconds, 5e-4)
    return (at - 0.006) / (1 + 9e-4), steps.mean(at, 5e-4)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_gain_and_offset_are_found_beside_a_meter_of_another_clock(kind: int) -> None:
    made = job(kind, seconds=20.0, classes=3)
    time, power = sensor_log(made.steps, kind, kind, gain=0.93, offset_w=6.0, shift_s=0.0, drift=0.0)
    name = {1: "ampere-ga100", 2: "turing", 3: "hopper", 4: "volta"}[kind]
    sensor = replace(sensor_of(name), window_s={1: 0.025, 2: 0.1, 3: 1.0, 4: 0.01}[kind])
    found = gain_against(PowerLog("draw", time, power, NOTHING, NOTHING), sensor, *_metered(made.steps, 19.0))
    assert abs(found.gain - 0.93) < 3.0 * found.gain_sd
    at_load = found.offset_w + found.gain * 250.0
    assert abs(at_load - (6.0 + 0.93 * 250.0)) < 3.0 * np.hypot(
        found.offset_sd_w, found.gain_sd * (250.0 - found.pivot_w)
    )
    assert found.drift == pytest.approx(9e-4, abs=4e-4)


def test_steady_power_tells_no_gain() -> None:
    steps = Steps(np.array([-3.0, 20.0]), np.array([200.0]))
    time, power = sensor_log(steps, 2, 1)
    with pytest.raises(BadInput, match="hardly changed"):
        gain_against(
            PowerLog("draw", time, power, NOTHING, NOTHING), sensor_of("turing"), *_metered(steps, 19.0)
        )


def test_with_a_known_gain_intervals_are_narrow_and_hold() -> None:
    held, width = [], []
    for seed in range(3):
        made = job(seed, seconds=14.0, classes=4)
        time, power = sensor_log(made.steps, 2, seed, gain=0.93, offset_w=6.0, shift_s=0.0, drift=0.0)
        told = {"gain": 0.93, "gain_sd": 0.001, "offset_w": 6.0, "offset_sd_w": 0.2, "pivot_w": 200.0}
        sensor = calibrated(sensor_of("turing"), told)
        work = build_timeline(made.start_s, made.end_s, np.zeros(len(made.start_s), np.int64), 1, 2e-5)
        seen = observe(PowerLog("draw", time, power, NOTHING, NOTHING), work, [sensor])
        first = np.random.default_rng(seed).uniform(2.0, 11.0, 30)
        found = window_energy(seen, first, first + 1.0)
        truth = made.steps.energy(first + 1.0) - made.steps.energy(first)
        held.append((found.low_j <= truth) & (truth <= found.high_j))
        width.append((found.high_j - found.low_j) / 2 / found.energy_j)
    assert 0.8 < np.mean(held) <= 1.0
    assert np.mean(width) < 0.015


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda w: np.random.default_rng(0).permutation(w), "does not follow"),
        (lambda w: 500.0 - w, "-1 of the meter"),
        (lambda w: 1000.0 * w, "0.001 of the meter"),
    ],
)
def test_a_meter_of_something_else_tells_no_gain(wrong: Any, said: str) -> None:
    made = job(2, seconds=20.0, classes=3)
    time, power = sensor_log(made.steps, 2, 2, shift_s=0.0, drift=0.0)
    sensor = replace(sensor_of("turing"), window_s=0.1)
    at, true = _metered(made.steps, 19.0)
    with pytest.raises(BadInput, match=said):
        gain_against(PowerLog("draw", time, power, NOTHING, NOTHING), sensor, at, wrong(true))


def test_a_meters_table_may_have_spaces_and_odd_rows(tmp_path: Path) -> None:
    table = tmp_path / "meter.csv"
    rows = [f"{1_700_000_000_000_000 + 500 * i}, {200 + i}.5" for i in range(12)]
    table.write_text("\n".join(["time_us, power_w", *rows, "1, nan", "N/A, 3"]) + "\n")
    found = read_meter(table)
    assert found.height == 12
    assert found["power_w"][1] == 201.5


@pytest.mark.data
def test_the_first_half_of_a_meters_log_foretells_the_second() -> None:
    if not DATA.is_dir():
        pytest.skip("the measured data is not here")
    meter = pl.read_parquet(DATA / "meter.parquet")
    marks = sorted({int(x) for x in (DATA / "load_timestamps_us.csv").read_text().split()[1:]})
    middle = 0.5 * (marks[0] + marks[1])
    origin = int(meter["time_us"][0])
    time, true = (meter["time_us"].to_numpy() - origin) * 1e-6, meter["power_w"].to_numpy()
    smi = power_logs(read_telemetry(DATA / "nvidia_smi.csv", "+01:00"), 0, origin * 1000)[0]
    start, end = np.array([(marks[0] - origin) * 1e-6]), np.array([(marks[1] - origin) * 1e-6])
    work = build_timeline(start, end, np.zeros(1, np.int64), 1, 3e-4)
    sensor = candidate_sensors(load_gpu("tesla-k40m", part="sensor"), smi.field)[0]
    half = time < (middle - origin) * 1e-6
    told = gain_against(smi, sensor, time[half], true[half])
    known = {k: getattr(told, k) for k in ("gain", "gain_sd", "offset_w", "offset_sd_w", "pivot_w")}
    seen = observe(smi, work, [calibrated(sensor, known)])
    first = np.random.default_rng(0).uniform((middle - origin) * 1e-6, time[-1] - 0.6, 60)
    found = window_energy(seen, first, first + 0.3)
    joules = np.concatenate([[0.0], np.cumsum(0.5 * (true[1:] + true[:-1]) * np.diff(time))])
    truth = np.interp(first + 0.3, time, joules) - np.interp(first, time, joules)
    assert np.abs(found.energy_j / truth - 1).mean() < 0.01
    assert np.mean((found.low_j <= truth) & (truth <= found.high_j)) > 0.8
    assert np.mean((found.high_j - found.low_j) / 2 / found.energy_j) < 0.01


@pytest.mark.data
def test_the_command_writes_a_calibration_that_sensor_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DATA.with_name("5050_3090")
    if not folder.is_dir():
        pytest.skip("the measured data is not here")
    marks = sorted({int(x) for x in (folder / "load_timestamps_us.csv").read_text().split()[1:]})
    pairs = list(zip(marks[::2], marks[1::2], strict=False))
    activity, sensor_file = tmp_path / "activity.csv", tmp_path / "sensor.toml"
    pl.DataFrame(
        {"name": "load", "start_us": [a for a, _ in pairs], "end_us": [b for _, b in pairs]}
    ).write_csv(activity)
    log = tmp_path / "instant.csv"  # one field of the log
    rows = [line.split(", ") for line in (folder / "nvidia_smi.csv").read_text().splitlines()]
    log.write_text("\n".join(f"{row[0]}, {row[-1]}" for row in rows) + "\n")
    common = [str(activity), "--power", str(log), "--tz", "+01:00", "--gpu", "rtx-3090"]
    meter = ["--meter", str(folder / "meter.parquet"), "-o", str(sensor_file)]
    assert command(["sensor", "identify", *common, *meter]) == 0
    said = capsys.readouterr().out
    assert "gain" in said
    assert "meter" in said
    known = read_sensor_file(sensor_file)
    assert known["gain"] == pytest.approx(0.949, abs=0.01)
    assert known["gain_sd"] < 0.01
    assert known["window_s"] == pytest.approx(0.0998, rel=0.1)


def test_of_places_that_fit_alike_the_one_near_the_stamps_is_taken() -> None:
    """Work every 60 ms: a meter 8 ms late fits as well 52 ms early."""
    edges = np.arange(-1.0, 12.0, 0.03)
    steps = Steps(edges, np.where(np.arange(len(edges) - 1) % 2, 300.0, 100.0))
    time, power = sensor_log(steps, 4, 1, shift_s=0.0, drift=0.0, noise_w=0.1)
    at = np.arange(0.0, 11.0, 1e-3)
    kept = time < 10.0
    log = PowerLog("draw", time[kept], power[kept], NOTHING, NOTHING)
    found = gain_against(log, replace(sensor_of("volta"), window_s=0.01), at + 0.008, steps.mean(at, 1e-3))
    assert abs(found.clock_s) == pytest.approx(0.008, abs=0.004)
    assert found.gain == pytest.approx(1.0, abs=0.02)


def test_one_step_places_a_meter_and_tells_no_drift() -> None:
    """Late by an offset or by a drift is the same there: the least of both that fits is taken."""
    steps = Steps(np.array([-3.0, 10.0, 21.0]), np.array([100.0, 300.0]))
    time, power = sensor_log(steps, 2, 1, gain=0.93, offset_w=6.0, shift_s=0.0, drift=0.0)
    at = np.arange(0.2, 19.0, 5e-4)
    log = PowerLog("draw", time, power, NOTHING, NOTHING)
    found = gain_against(log, sensor_of("turing"), at, steps.mean(at, 5e-4))
    assert found.gain == pytest.approx(0.93, abs=0.005)
    assert (abs(found.clock_s), abs(found.drift)) < (0.005, 5e-4)
