"""A power cap acts on a program's busy phases, not on its mean."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows

GPU = load_gpu("a100-pcie-40gb")


def _program(power_w: float, seconds: float = 30.0) -> OperatorColumns:
    return OperatorColumns(
        np.array(["unknown"], dtype=object),
        {
            "name": np.array(["program"], dtype=object),
            "duration_us": np.array([seconds * 1e6]),
            "recorded_clock_mhz": np.array([1410.0]),
            "power_w": np.array([power_w]),
        },
    )


def _capped(rows: OperatorColumns, cap_w: float) -> Prediction:
    return predict_rows(rows, GPU, np.array([1410.0]), anchor=True, power_cap_w=cap_w)


def test_a_cap_above_the_mean_slows_the_busy_phases_of_a_program() -> None:
    capped = _capped(_program(180.0), 190.0)
    assert capped.clock_mhz[0, 0] < 1410.0
    assert capped.timing.duration_s[0, 0] > 30.0
    assert capped.power_w[0, 0] < 180.0
    # a kernel has no phases: its mean is under the cap
    kernel = _capped(_program(180.0, 1e-3), 190.0)
    assert not kernel.throttled.any()
    assert kernel.power_w[0, 0] == pytest.approx(180.0, rel=1e-6)


@pytest.mark.parametrize("power_w", [60.0, 120.0, 180.0, 230.0])
def test_a_lower_cap_is_never_faster_and_never_draws_more(power_w: float) -> None:
    caps = np.arange(250.0, 95.0, -5.0)
    predicted = [_capped(_program(power_w), cap) for cap in caps]
    time = np.array([p.timing.duration_s[0, 0] for p in predicted])
    power = np.array([p.power_w[0, 0] for p in predicted])
    assert (np.diff(time) >= -1e-9).all()
    assert (np.diff(power) <= 1e-9).all()
    assert (power <= caps).all()
    for p in predicted:
        assert sum(v[0, 0] for v in p.parts_j.values()) == pytest.approx(p.energy_j[0, 0])


def test_the_measured_point_is_met_and_its_interval_grows_with_the_cap() -> None:
    free = _capped(_program(200.0), 250.0)
    assert free.timing.duration_s[0, 0] == pytest.approx(30.0)
    assert free.power_w[0, 0] == pytest.approx(200.0)
    tight = _capped(_program(200.0), 150.0)
    assert tight.timing.high[0] > free.timing.high[0]
    assert tight.energy_high_j[0, 0] / tight.energy_j[0, 0] > free.energy_high_j[0, 0] / free.energy_j[0, 0]


def test_an_idle_program_keeps_its_time_under_any_cap() -> None:
    low = _capped(_program(45.0), 150.0)
    assert low.timing.duration_s[0, 0] == pytest.approx(30.0)
    assert not low.throttled.any()
