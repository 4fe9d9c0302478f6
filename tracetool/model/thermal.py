"""Temperature: where a steady load leaves the chip, and what that does to leakage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Numbers
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table

_RISE_AT_LIMIT_K, _MOST_GROWTH = prior_table("thermal.rise_at_limit"), prior_number("thermal.most_growth")
#: Temperature above which the governor slows the GPU down, which the model does not describe. [C]
HOTTEST_C = prior_number("thermal.hottest")
#: Newton steps toward the power of a chip that its own leakage warms; each squares the error. [1] By
#: definition of the numerical method: where it stops.
_STEPS = 4
#: The least slope those steps divide by. [1]
_LEAST_SLOPE = prior_number("thermal.least_slope")


@dataclass(frozen=True)
class Surroundings:
    """Temperature of a GPU: its chip's if that is known, else that of the air around it.

    Parameters
    ----------
    temperature_c : float, optional
        Chip temperature, held. [C]
    ambient_c : float, optional
        Inlet air; the chip settles above it in proportion to its power. [C]
    """

    temperature_c: float | None = None
    ambient_c: float | None = None


def thermal_resistance_c_per_w(gpu: Gpu) -> float:
    """Return the rise of the chip per watt: a cooler sized for the GPU's limit. [K/W]"""
    cooling = "server" if gpu.memory_type.startswith("hbm") else "card"
    return _RISE_AT_LIMIT_K[cooling] / gpu.power_limit_w


def leakage_growth(power_w: Floats, idle_w: Floats, per_w: Floats | float) -> Floats:
    r"""Return leakage under a steady load over that of the idle chip: :math:`e^{g (P - P_{idle})}`.

    The chip settles above its idle temperature by :math:`R (P - P_{idle})`, and leakage grows by a
    factor e every :math:`1/k`; ``per_w`` is :math:`g = k R`. [1/W]
    """
    return np.asarray(np.exp(_folds(power_w, idle_w, per_w)))


def _folds(power_w: Floats, idle_w: Floats, per_w: Floats | float) -> Floats:
    return np.clip(per_w * (power_w - idle_w), 0.0, _MOST_GROWTH)


def self_heating_w(cold_w: Floats, idle_w: Floats, leakage_w: Floats, per_w: Floats | float) -> Floats:
    r"""Return the power a warm chip leaks beyond the cold one at its own power: a fixed point. [W]

    .. math:: P = P_{cold} + L (e^{g (P - P_{idle})} - 1)

    Parameters
    ----------
    cold_w, idle_w, leakage_w : array
        Power at idle temperature under load, power with nothing running, and leakage in it; any
        shapes that broadcast. [W]
    per_w : float or array
        :math:`g`. [1/W]

    Examples
    --------
    >>> made = self_heating_w(np.array([200.0]), np.array([50.0]), np.array([30.0]), 0.004)
    >>> growth = leakage_growth(200.0 + made, np.array([50.0]), 0.004)
    >>> bool(np.allclose(made, 30.0 * (growth - 1.0), atol=0.01))
    True
    """
    power = np.asarray(cold_w, np.float64)
    # Newton's steps. The curve is convex: from below, none passes the least fixed point, which the power
    # follows where the cold one rises. Growth that is cut off is constant.
    for _ in range(_STEPS):
        folds = _folds(power, idle_w, per_w)
        growth = np.exp(folds)
        slope = per_w * leakage_w * growth * (folds < _MOST_GROWTH)
        power = power + (cold_w + leakage_w * (growth - 1.0) - power) / np.maximum(1.0 - slope, _LEAST_SLOPE)
    return np.asarray(np.maximum(power - cold_w, 0.0))


def steady_temperature_c(power_w: Numbers | float, gpu: Gpu, surroundings: Surroundings) -> Floats | None:
    r"""Return the steady chip temperature at a power, or None where no temperature is stated.

    .. math:: T = \min(T_a + R P, T_{max})

    The first-order answer to a step of power settles here after some tens of seconds.

    Examples
    --------
    >>> from tracetool.hardware.load import load_gpu
    >>> float(steady_temperature_c(250.0, load_gpu("a100-pcie-40gb"), Surroundings(ambient_c=25.0)))
    53.0
    """
    power = np.asarray(power_w, np.float64)
    if surroundings.temperature_c is not None:
        return np.full(power.shape, float(surroundings.temperature_c))
    if surroundings.ambient_c is None:
        return None
    return np.asarray(np.minimum(surroundings.ambient_c + thermal_resistance_c_per_w(gpu) * power, HOTTEST_C))
