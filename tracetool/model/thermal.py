"""Temperature: where a steady load leaves the chip, and what that does to leakage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Floats, Numbers

#: Rise of a chip over its inlet air at the power limit: coolers are sized for about this. [K]
_RISE_AT_LIMIT_K = 40.0
#: Beyond this the governor slows the GPU down; the model does not follow it there. [C]
HOTTEST_C = 95.0


@dataclass(frozen=True)
class Surroundings:
    """How warm a GPU is: its chip's temperature if that is known, else the air it breathes.

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
    """Return the rise of the chip per watt: a cooler sized for the board's limit. [K/W]"""
    return _RISE_AT_LIMIT_K / gpu.power_limit_w


def steady_temperature_c(power_w: Numbers | float, gpu: Gpu, around: Surroundings) -> Floats | None:
    r"""Return the chip temperature a steady power leads to, or None where nothing is said of it.

    .. math:: T = \min(T_a + R P, T_{max})

    The first-order answer to a step of power settles here after some tens of seconds.

    Examples
    --------
    >>> from tracetool.hardware.load import load_gpu
    >>> float(steady_temperature_c(250.0, load_gpu("a100-pcie-40gb"), Surroundings(ambient_c=25.0)))
    65.0
    """
    power = np.asarray(power_w, np.float64)
    if around.temperature_c is not None:
        return np.full(power.shape, float(around.temperature_c))
    if around.ambient_c is None:
        return None
    return np.asarray(np.minimum(around.ambient_c + thermal_resistance_c_per_w(gpu) * power, HOTTEST_C))
