"""A power cap acts on a program's busy phases, not on its mean."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.load import load_gpu
from tracetool.model.phases import PhaseCurves, programs_under_cap
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
    assert tight.timing.high[0, 0] > free.timing.high[0, 0]
    assert tight.energy_high_j[0, 0] / tight.energy_j[0, 0] > free.energy_high_j[0, 0] / free.energy_j[0, 0]


def test_an_idle_program_keeps_its_time_under_any_cap() -> None:
    low = _capped(_program(45.0), 150.0)
    assert low.timing.duration_s[0, 0] == pytest.approx(30.0)
    assert not low.throttled.any()


def test_a_cap_counts_as_throttling_from_what_two_runs_differ_by() -> None:
    for cap_w in np.arange(250.0, 95.0, -10.0):
        free, capped = _capped(_program(150.0), 250.0), _capped(_program(150.0), cap_w)
        longer = capped.timing.duration_s[0, 0] / free.timing.duration_s[0, 0]
        weaker = capped.power_w[0, 0] / free.power_w[0, 0]
        assert bool(capped.throttled[0, 0]) == bool(longer >= 1.02 or weaker <= 0.97)


def test_a_program_at_its_limit_was_clipped_when_measured() -> None:
    clock = np.linspace(700.0, 1400.0, 71)
    ones = np.ones((2, len(clock)))
    waiting = 40.0 * ones
    mean = np.array([[120.0], [240.0]])
    curves = PhaseCurves(
        clock, 1400.0 / clock * ones, np.zeros(2), 40.0 + (mean - 40.0) * (clock / 1400.0) ** 3, waiting,
        np.array([70, 70]),
    )  # fmt: skip
    free = programs_under_cap(curves, np.array([70]), 250.0, 250.0)
    assert not free.throttled.any()
    assert free.longer == pytest.approx(1.0)
    assert free.weaker == pytest.approx(1.0)
    # at 240 of 250 W the busy phases asked for more, so the same cap leaves them less of the way to go
    tight = programs_under_cap(curves, np.array([70]), 200.0, 250.0)
    waits = tight.longer[0, 1, 0]
    steady = tight.longer[-1, 1, 0]
    assert tight.throttled[:, 1].all()
    assert 1.0 < waits < steady * 1.25
    assert (tight.weaker[:, 1, 0] * 240.0 <= 200.0 + 1e-9).all()
