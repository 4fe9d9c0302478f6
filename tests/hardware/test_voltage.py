"""The voltage curve: flat, then rising, and found again from its readings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetool.calibrate.voltage_fit import fit_voltage_readings
from tracetool.hardware.voltage import VoltageCurve

CURVES = st.builds(
    VoltageCurve,
    floor_v=st.floats(0.55, 0.85),
    knee_mhz=st.floats(600, 1300),
    slope_v_per_ghz=st.floats(0.05, 0.6),
    curve_v_per_ghz2=st.floats(0.0, 0.8),
    max_v=st.just(2.0),
    measured=st.just(True),
)


@given(CURVES)
def test_flat_to_the_knee_then_never_falls(curve: VoltageCurve) -> None:
    clocks = np.linspace(200, 2000, 181)
    volt = curve.at(clocks)
    assert np.allclose(volt[clocks <= curve.knee_mhz], curve.floor_v)
    assert (np.diff(volt) >= 0).all()


@pytest.mark.parametrize("step_v", [0.0, 0.00625])
def test_readings_give_the_curve_back(step_v: float) -> None:
    truth = VoltageCurve(0.694, 1004.0, 0.19, 0.74, 2.0, measured=True)
    clock = np.arange(210.0, 1411.0, 15.0)
    read = truth.at(clock)
    if step_v:
        read = np.ceil(read / step_v) * step_v
    found, rms = fit_voltage_readings(clock, read)
    assert rms < 0.003
    assert np.abs(found.at(clock) - truth.at(clock)).max() < 0.01
    assert abs(found.knee_mhz - truth.knee_mhz) < 60
