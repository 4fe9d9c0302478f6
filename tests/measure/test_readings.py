from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.hardware.load import load_gpu
from tracetool.measure.readings import _brackets, _refine, resolve_updates, update_period
from tracetool.measure.sensors import candidate_sensors
from tracetool.tables.scopes import device_readings, gpu_readings

from .jobs import CLASSES, job, sensor_log


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_the_update_period_is_found_from_the_log_alone(kind: int) -> None:
    time, power = sensor_log(job(kind, seconds=12.0).steps, kind, kind)
    for near in (CLASSES[kind][0], None):
        period, error, _ = update_period(time, power, near)
        assert period == pytest.approx(CLASSES[kind][0], rel=0.002)
        assert error < 0.01 * period


def test_one_reading_is_kept_of_each_update() -> None:
    time, power = sensor_log(job(1, seconds=10.0).steps, 1, 1)
    found = resolve_updates(time, power, 0.1)
    span = time[-1] - time[0]
    assert len(found) == pytest.approx(span / 0.1, abs=3)
    assert found.jitter_s == 0.0


def test_a_slow_poll_leaves_the_moment_of_the_update_open() -> None:
    time = np.arange(0.0, 60.0, 1.0)
    found = resolve_updates(time, 200.0 + 10 * np.sin(time), 0.1)
    assert found.jitter_s == pytest.approx(0.1)
    assert len(found) == 60


def test_nan_and_disorder_do_no_harm() -> None:
    random = np.random.default_rng(0)
    time, power = sensor_log(job(2, seconds=8.0).steps, 2, 2)
    mixed = random.permutation(len(time))
    spoilt = power[mixed].copy()
    spoilt[:20] = np.nan
    found = resolve_updates(time[mixed], spoilt, 0.1)
    assert np.isfinite(found.power_w).all()
    assert (np.diff(found.time_s) > 0).all()


def test_a_constant_log_has_no_period() -> None:
    assert np.isnan(update_period(np.arange(50.0), np.full(50, 80.0))[0])


def test_a_poll_at_the_very_moment_of_the_update_is_no_witness() -> None:
    random = np.random.default_rng(5)
    grid = np.arange(0.0606, 40.0, 0.1)
    updates = grid + random.normal(0, 4e-4, len(grid))
    values = random.uniform(100.0, 400.0, len(updates))
    polls = np.arange(0.08, 39.9, 0.02) + 0.0006  # every fifth falls on an update, before or after it
    power = values[np.searchsorted(updates, polls, side="right") - 1]
    found = resolve_updates(polls, power, 0.1)
    nearest = np.round((found.time_s - 0.0606) / 0.1).astype(int)
    inside = (nearest > 0) & (nearest < len(values) - 1)
    assert np.mean(np.abs(found.power_w - values[np.clip(nearest, 0, len(values) - 1)])[inside] < 1e-9) > 0.99


def test_polls_in_step_with_the_updates_leave_the_grid_open() -> None:
    random = np.random.default_rng(6)
    grid = np.arange(0.05, 30.0, 0.1)
    values = random.uniform(100.0, 400.0, len(grid))
    in_step = np.repeat(grid, 3) + np.tile([0.001, 0.034, 0.067], len(grid))
    beside = np.arange(0.06, 29.9, 0.0337)
    found = [
        resolve_updates(t, values[np.searchsorted(grid, t, side="right") - 1], 0.1) for t in (in_step, beside)
    ]
    assert found[0].grid_sd_s == pytest.approx(0.033 / np.sqrt(12.0), rel=0.15)
    assert found[1].grid_sd_s < 0.25 * found[0].grid_sd_s


def test_a_nominal_second_may_be_eleven_readings() -> None:
    windows = [
        s.window_s for s in candidate_sensors(load_gpu("rtx-3090", part="sensor"), "power.draw.average")
    ]
    assert windows == [1.1, 1.0]


def test_a_first_bracket_far_off_does_not_move_the_grid() -> None:
    """Updates every 100 ms; polls 10 ms to either side, the first bracket 16 ms late."""
    middle = 0.1 * np.arange(40.0)
    middle[0] += 0.016
    period, origin, miss = _refine(middle - 0.01, middle + 0.01, 0.1)
    assert period == pytest.approx(0.1, rel=1e-3)
    assert (origin + 0.05) % 0.1 - 0.05 == pytest.approx(0.0, abs=2e-3)
    assert miss[1:].max() == 0.0
    assert miss[0] == pytest.approx(0.006, abs=2e-3)


def test_a_change_across_missing_polls_brackets_nothing() -> None:
    """Polls every 10 ms: changes over 10 and 20 ms bracket an update, one over 40 ms does not."""
    time = np.array([0.0, 0.01, 0.02, 0.03, 0.05, 0.06, 0.10, 0.11, 0.12, 0.13])
    power = np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0, 4.0])
    low, high = _brackets(time, power)
    assert (low.tolist(), high.tolist()) == ([0.01, 0.03], [0.02, 0.05])


def test_each_update_is_witnessed_by_the_latest_poll_well_inside_its_period() -> None:
    """Ten polls a period of 0.1 s, the first and last two of which show what the next or last update held."""
    polls = 0.01 * np.arange(600.0) + 0.005
    update = np.floor(polls / 0.1 + 1e-9)
    place = np.round((polls / 0.1 - update) * 10.0 - 0.5)
    power = 100.0 + 10.0 * update
    power[place >= 8.5] += 5.0  # torn reads
    shuffled = np.random.default_rng(1).permutation(600)
    for order in (np.arange(600), shuffled):
        readings = resolve_updates(polls[order], power[order], 0.1)
        assert np.isin(readings.power_w, 100.0 + 10.0 * np.arange(60.0)).mean() > 0.95


def test_a_log_of_one_gpu_is_not_copied() -> None:
    log = pl.DataFrame({"device": [0, 0], "scope": ["gpu", None], "power_w": [1.0, 2.0]})
    assert gpu_readings(log) is log
    assert device_readings(log, 0) is log
    assert device_readings(log.with_columns(device=pl.Series([0, 1])), 1)["power_w"].to_list() == [2.0]
