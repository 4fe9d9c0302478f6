"""Peaks, ramps and the spectrum of a power curve are those of the signal it was made from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.replay.power import PowerCurve
from tracetool.replay.power_over_time import power_over_time
from tracetool.replay.power_swing import HIGHEST_HZ, LOWEST_HZ, means_over, spectrum, swing_record
from tracetool.report.pictures.power_swing import swing_picture


def _curve(power: np.ndarray, step_ms: float) -> PowerCurve:
    return PowerCurve(np.arange(len(power) + 1) * step_ms * 1e6, power)


def _square(period_ms: float, low: float, high: float, periods: int) -> PowerCurve:
    return _curve(np.tile([high, low], periods), period_ms / 2)


@given(st.floats(0.3, 18.0), st.floats(5.0, 200.0), st.floats(20.0, 60.0))
@settings(max_examples=40, deadline=None)
def test_a_sine_has_its_amplitude_at_its_frequency(hertz: float, amplitude: float, seconds: float) -> None:
    edge = np.arange(int(seconds * 100) + 1) * 0.01
    turns = 2 * np.pi * hertz
    means = 300.0 + amplitude * -np.diff(np.cos(turns * edge)) / (turns * 0.01)
    found = spectrum(means, 0.01)
    assert found.strongest_hz == pytest.approx(hertz, abs=1.0 / seconds)
    assert found.strongest_w == pytest.approx(amplitude / np.sqrt(2), rel=0.03)
    assert np.sqrt(np.nansum(found.swing_w**2)) == pytest.approx(amplitude / np.sqrt(2), rel=0.03)
    band = np.searchsorted(found.edge_hz, hertz) - 1
    near = found.swing_w[max(band - 1, 0) : band + 2]
    assert np.sqrt(np.nansum(near**2)) > 0.9 * amplitude / np.sqrt(2)


def test_a_square_wave_has_its_peak_mean_and_ramp() -> None:
    record = swing_record({0: _square(200.0, 100.0, 500.0, 100)}, 0.9, 1.2)
    assert record["mean_w"] == pytest.approx(300.0)
    assert (record["mean_low_w"], record["mean_high_w"]) == pytest.approx((270.0, 360.0))
    by = {w["window_ms"]: w for w in record["windows"]}
    for window in (1.0, 10.0, 100.0):
        assert by[window]["peak_w"] == pytest.approx(500.0)
        assert by[window]["lowest_w"] == pytest.approx(100.0)
        assert by[window]["ramp_up_w_per_ms"] == pytest.approx(400.0 / window)
        assert by[window]["ramp_down_low_w_per_ms"] == pytest.approx(0.9 * 400.0 / window)
    assert by[1000.0]["peak_w"] == pytest.approx(300.0)
    # A square wave of amplitude 200 W: its first harmonic is 4 / pi of it, at 5 Hz.
    assert record["spectrum"]["strongest_hz"] == pytest.approx(5.0, abs=0.05)
    assert record["spectrum"]["strongest_w"] == pytest.approx(200.0 * 4 / np.pi / np.sqrt(2), rel=0.03)


def test_gpus_in_step_add_up_and_gpus_in_turns_cancel() -> None:
    one = _square(200.0, 100.0, 500.0, 100)
    turned = PowerCurve(one.edge_ns, one.power_w[::-1].copy())
    together, in_turns = (swing_record({0: one, 1: other}, 1.0, 1.0) for other in (one, turned))
    alone = swing_record({0: one}, 1.0, 1.0)
    assert together["spectrum"]["swing_w"] == pytest.approx(2 * alone["spectrum"]["swing_w"])
    assert in_turns["spectrum"]["swing_w"] == pytest.approx(0.0, abs=1e-6)
    assert in_turns["windows"][0]["peak_w"] == pytest.approx(600.0)
    assert in_turns["windows"][0]["ramp_up_w_per_ms"] == pytest.approx(0.0, abs=1e-6)


def test_what_is_too_short_has_no_figure() -> None:
    record = swing_record({0: _square(20.0, 100.0, 500.0, 2)}, 1.0, 1.0)
    assert [w["window_ms"] for w in record["windows"]] == [1.0, 10.0]
    assert record["spectrum"]["swing_w"] is None
    longer = swing_record({0: _square(20.0, 100.0, 500.0, 50)}, 1.0, 1.0)["spectrum"]["bands"]
    assert longer[0]["from_hz"] == pytest.approx(LOWEST_HZ)
    assert longer[-1]["to_hz"] == pytest.approx(HIGHEST_HZ)
    known = [b["swing_w"] is not None for b in longer]
    assert known == sorted(known)  # of one second: nothing below 2 Hz
    assert not known[0]
    assert known[-1]


def test_means_hold_the_energy() -> None:
    curve = _curve(np.random.default_rng(1).uniform(50, 700, 5000), 1.7)
    means = means_over({0: curve}, 10.0)
    edges = np.array([0.0, len(means) * 10e6])
    assert means.sum() * 10e-3 == pytest.approx(float(np.diff(curve.energy_until(edges, 0.0))[0]), rel=1e-9)


def test_the_picture_draws_what_was_predicted_and_what_was_measured() -> None:
    curve = _square(200.0, 100.0, 500.0, 100)
    record = {"clock_mhz": 1410.0, **swing_record({0: curve}, 0.9, 1.1)}
    time = curve.edge_ns[:-1] * 1e-6
    frame = pl.DataFrame({"time_ms": time, "device": 0, "power_w": curve.power_w, "measured_w": None})
    alone = swing_picture(frame, record)
    assert alone.count("<polyline") == 1
    assert alone.count("<rect") == sum(b["swing_w"] is not None for b in record["spectrum"]["bands"])
    measured = frame.with_columns(pl.when(pl.col("time_ms") > 500).then(pl.lit(300.0)).alias("measured_w"))
    assert swing_picture(measured, record).count("<polyline") == 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_of_several_gpus_is_told_beside_all_of_them(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs of 100, 200 and 300 W: together their sum, each by itself where there is more than one."""
    monkeypatch.setattr("tracetool.replay.power_over_time.PredictedRun", SimpleNamespace)
    curves = {d: _curve(np.full(40, 100.0 * (d + 1)), 50.0) for d in range(count)}
    total = {"clock_mhz": 1410.0, "makespan_ms": 2000.0} | {
        f"mean_power{end}_w": 100.0 * factor for end, factor in (("", 1.0), ("_low", 0.9), ("_high", 1.2))
    }
    run: Any = SimpleNamespace(
        totals=[total], info={}, replays=SimpleNamespace(curves=lambda _: curves, work=None, run=None)
    )
    (record,) = power_over_time(run).records
    assert record["mean_w"] == pytest.approx(100.0 * sum(range(1, count + 1)))
    each = [(one["device"], one["mean_w"]) for one in record.get("devices", [])]
    assert each == ([(d, pytest.approx(100.0 * (d + 1))) for d in range(count)] if count > 1 else [])
