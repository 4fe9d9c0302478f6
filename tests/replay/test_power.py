"""Power over time adds up to the energies and passes the sensor's window."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.hardware.load import load_gpu
from tracetool.replay.power import power_curve, sensor_view

spans = st.lists(
    st.tuples(st.floats(0, 1e6), st.one_of(st.just(0.0), st.floats(1, 1e6)), st.floats(0, 2e3)),
    min_size=1,
    max_size=30,
)


@given(spans, st.floats(0, 100))
@settings(max_examples=200, deadline=None)
def test_the_curve_holds_kernels_and_gaps(rows: list[tuple[float, float, float]], idle: float) -> None:
    start, length, watts = (np.array(c) for c in zip(*rows, strict=True))
    end, energy = start + length, watts * length * 1e-9
    curve = power_curve(start, end, energy, idle, (0.0, 3e6))
    edges = np.unique(np.concatenate([start, end, [0.0, 3e6]]))
    on = length > 0
    empty = sum(b - a for a, b in itertools.pairwise(edges) if not ((start <= a) & (end >= b) & on).any())
    expected = energy.sum() + idle * empty * 1e-9
    assert curve.energy_j == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_a_reading_is_the_mean_over_the_window() -> None:
    sensor = load_gpu("a100-sxm").sensor("draw")
    curve = power_curve(np.array([0.0]), np.array([1e9]), np.array([300.0]), 50.0, (0.0, 2e9))
    time, power = sensor_view(curve, sensor, 50.0)
    assert np.all(np.diff(time) > 0)
    inside = (time > (sensor.window_s + sensor.delay_s) * 1e9) & (time < 1e9)
    np.testing.assert_allclose(power[inside], sensor.gain * 300.0 + sensor.offset_w)
    assert power[-1] == pytest.approx(sensor.gain * 50.0 + sensor.offset_w)
