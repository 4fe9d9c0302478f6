"""The GPU's clock on the host's: read delay and drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput


@dataclass(frozen=True)
class ClockMap:
    """Host time as a straight line of GPU time."""

    pivot_gpu_s: float  # GPU time the line is given at [s]
    pivot_host_s: float  # host time there [s]
    drift: float  # host seconds per GPU second, minus 1 [1]
    pivot_sd_s: float  # standard error at the pivot [s]
    drift_sd: float  # standard error of the drift [1]
    points: int

    def host(self, gpu_s: Floats) -> Floats:
        """Return host time of GPU stamps, shape of ``gpu_s``. [s]"""
        away = np.asarray(gpu_s, dtype=np.float64) - self.pivot_gpu_s
        return np.asarray(self.pivot_host_s + away * (1.0 + self.drift))

    def error(self, gpu_s: Floats) -> Floats:
        """Return the standard error of ``host``, shape of ``gpu_s``. [s]"""
        away = np.asarray(gpu_s, dtype=np.float64) - self.pivot_gpu_s
        return np.asarray(np.hypot(self.pivot_sd_s, self.drift_sd * away))


def fit_clock(host_s: Floats, gpu_s: Floats, delay_s: Floats, *, drift_sd: float = 1e-4) -> ClockMap:
    r"""Return the map from sync points.

    Parameters
    ----------
    host_s : array, shape (p,)
        Host time just before each read of the GPU's timestamp counter. [s]
    gpu_s : array, shape (p,)
        What the read returned. [s]
    delay_s : array, shape (p,)
        How long each read took on the host; or one delay benchmarked apart, repeated. [s]
    drift_sd : float
        Drift assumed possible where one point leaves it open. [1]

    Notes
    -----
    The counter is read about halfway through the call, so :math:`t = t_c + d/2` with a standard error
    of :math:`d/\sqrt{12}`; slow reads count little. Two points or more give the drift, which a single
    point leaves open.

    Raises
    ------
    BadInput
        If there is no sync point.
    """
    if not len(host_s):
        raise BadInput(
            "there is no sync point", "read the GPU's timestamp at least twice, with the host time"
        )
    middle = host_s + 0.5 * delay_s
    error = np.maximum(delay_s / np.sqrt(12.0), 1e-7)
    weight = 1.0 / error**2
    pivot = float(weight @ gpu_s / weight.sum())
    shift = middle - gpu_s
    base = float(weight @ shift / weight.sum())
    away = gpu_s - pivot
    lever = float(weight @ away**2)
    prior = 1.0 / drift_sd**2
    drift = float(weight @ (away * (shift - base))) / (lever + prior) if len(host_s) > 1 else 0.0
    miss = (shift - base - drift * away) / error
    spare = max(len(host_s) - 2, 1)
    worse = max(1.0, float(miss @ miss) / spare) if len(host_s) > 2 else 1.0
    return ClockMap(
        pivot,
        pivot + base,
        drift,
        float(np.sqrt(worse / weight.sum())),
        float(np.sqrt(worse / (lever + prior))),
        len(host_s),
    )
