from __future__ import annotations

import numpy as np
import pytest

from tracetool.hardware.sensors import sensor_of
from tracetool.measure.characterize import characterize
from tracetool.measure.power_log import PowerLog
from tracetool.measure.timeline import build_timeline

from .invented_gpu import Steps
from .jobs import sensor_log

NOTHING = np.zeros(0)


def _square(seed: int, on_s: float, off_s: float, seconds: float = 20.0):
    random = np.random.default_rng(seed)
    start, end, now = [], [], 1.0
    while now < seconds:
        start.append(now)
        end.append(now + on_s * random.uniform(0.9, 1.1))
        now = end[-1] + off_s * random.uniform(0.9, 1.1)
    s, e = np.array(start), np.array(end)
    edges = np.concatenate([[-3.0], np.column_stack([s, e]).ravel(), [e[-1] + 2.0]])
    watts = np.full(len(edges) - 1, 120.0)
    watts[1::2] = 330.0
    timeline = build_timeline(s, e, np.zeros(len(s), np.int64), 1, 3e-4)
    return Steps(edges, watts), timeline


@pytest.mark.parametrize(("kind", "window", "on"), [(1, 0.025, 0.13), (2, 0.08, 0.17), (3, 1.0, 1.3)])
def test_the_window_is_found_within_a_tenth_and_the_period_within_two_percent(
    kind: int, window: float, on: float
) -> None:
    steps, timeline = _square(kind, on, 0.8 * on)
    time, power = sensor_log(steps, kind, 5, window_s=window)
    found = characterize(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, sensor_of("turing"))
    assert found.kind == "boxcar"
    assert found.window_s is not None
    assert found.update_s is not None
    assert found.window_s.value == pytest.approx(window, rel=0.10)
    assert found.update_s.value == pytest.approx(0.1, rel=0.02)
    assert found.window_s.low < found.window_s.value < found.window_s.high


def test_a_capacitor_is_told_from_a_window() -> None:
    steps, timeline = _square(3, 1.5, 1.5)
    time, power = sensor_log(steps, 5, 5)
    found = characterize(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, sensor_of("kepler"))
    assert found.kind == "lag"
    assert found.lag_s is not None
    assert found.lag_s.value == pytest.approx(0.8, rel=0.10)


def test_a_steady_load_tells_nothing_and_says_so() -> None:
    edges = np.array([-3.0, 30.0])
    timeline = build_timeline(np.array([-2.0]), np.array([29.0]), np.zeros(1, np.int64), 1)
    time, power = sensor_log(Steps(edges, np.array([250.0])), 2, 1)
    found = characterize(PowerLog("draw", time, power, NOTHING, NOTHING), timeline, sensor_of("turing"))
    assert found.kind == ""
    assert found.window_s is None
    assert "square-wave load" in found.reason
