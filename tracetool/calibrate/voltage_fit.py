"""A voltage curve through readings of the supply."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import least_squares

from tracetool.core.arrays import Floats
from tracetool.hardware.voltage import VoltageCurve

#: Lowest and highest supply of a core: outside, a reading is none of it, or not in millivolts. [V] A prior.
SUPPLY_V: Final = (0.3, 1.6)
#: Steepest rise of a core's voltage with its clock that a fit looks at. [V/GHz] A prior.
_STEEPEST = 20.0


def fit_voltage_readings(clock_mhz: Floats, supply_v: Floats) -> tuple[VoltageCurve, float]:
    """Return the curve through supply readings and its root mean square error.

    Parameters
    ----------
    clock_mhz, supply_v : array, shape (n,)
        Clocks and readings; readings that are not finite are left out. [MHz], [V]

    Returns
    -------
    curve : VoltageCurve
        Flat to its knee, then rising.
    rms_v : float
        Root mean square of the residuals. [V]
    """
    good = np.isfinite(supply_v) & np.isfinite(clock_mhz)
    clock, volt = clock_mhz[good], supply_v[good]
    low, span = float(volt.min()), float(np.ptp(clock))
    lowest, highest = SUPPLY_V

    def curve(x: Floats) -> VoltageCurve:
        return VoltageCurve(float(x[0]), float(x[1]), max(float(x[2]), 0.0), max(float(x[3]), 0.0), 2.0, True)

    best = None
    for share in (0.3, 0.5, 0.7):
        knee = float(clock.min()) + share * span
        rise = min(max(float(volt.max()) - low, 1e-3) / max((1 - share) * span / 1e3, 1e-3), _STEEPEST)
        optimum = least_squares(
            lambda x: curve(x).at(clock) - volt,
            np.array([low, knee, rise / 2, rise / 2]),
            bounds=([lowest, clock.min() - 1.0, 0.0, 0.0], [highest, clock.max() + 1.0, _STEEPEST, 50.0]),
            x_scale=[0.1, 100.0, 0.3, 0.5],
        )
        if best is None or optimum.cost < best.cost:
            best = optimum
    assert best is not None
    fitted_curve = curve(best.x)
    step = float(np.median(np.diff(np.unique(volt)))) if len(np.unique(volt)) > 1 else 0.0
    top = float(volt.max()) + step / 2
    cut = VoltageCurve(
        fitted_curve.floor_v,
        fitted_curve.knee_mhz,
        fitted_curve.slope_v_per_ghz,
        fitted_curve.curve_v_per_ghz2,
        top,
        measured=True,
    )
    return cut, float(np.sqrt(np.mean((cut.at(clock) - volt) ** 2)))
