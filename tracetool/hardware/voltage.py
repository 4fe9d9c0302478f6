"""Core voltage against clock: flat to a knee, then rising and slightly convex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Numbers


@dataclass(frozen=True)
class VoltageCurve:
    r"""Supply voltage of the core domain as a function of its clock.

    .. math:: V(f) = V_{min} + a (f - f_k)^+ + b ((f - f_k)^+)^2

    Below the knee :math:`f_k` the regulator sits at its floor, so lowering the clock further
    saves no voltage; above it every step of the clock costs some. Holds between the lowest
    and the highest supported clock.

    Parameters
    ----------
    floor_v : float
        Voltage up to the knee. [V]
    knee_mhz : float
        Highest clock at the floor. [MHz]
    slope_v_per_ghz, curve_v_per_ghz2 : float
        Rise above the knee. [V/GHz], [V/GHz^2]
    max_v : float
        Highest voltage the GPU reaches: the curve is cut there. [V]
    measured : bool
        Whether the curve was read from a GPU of this kind, not assumed from its family.

    Examples
    --------
    >>> curve = VoltageCurve(0.7, 1000.0, 0.2, 0.6, 0.9, True)
    >>> curve.at([500.0, 1000.0, 1400.0]).round(3)
    array([0.7  , 0.7  , 0.876])
    """

    floor_v: float
    knee_mhz: float
    slope_v_per_ghz: float
    curve_v_per_ghz2: float
    max_v: float
    measured: bool

    def at(self, clock_mhz: Numbers | float) -> Floats:
        """Return the voltage at each clock. [V]"""
        above = np.maximum(np.asarray(clock_mhz, np.float64) - self.knee_mhz, 0.0) / 1e3
        risen = self.floor_v + self.slope_v_per_ghz * above + self.curve_v_per_ghz2 * above**2
        return np.asarray(np.minimum(risen, self.max_v))
