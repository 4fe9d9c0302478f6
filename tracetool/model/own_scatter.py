"""Scatter of the readings of a kernel, measured at three clocks or more, about its smooth curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.model.anchor import Anchor
from tracetool.model.anchor_groups import BETWEEN_SD, Between, kernels
from tracetool.model.power import PowerParts

#: Prior of no further scatter, in readings. [1] By definition of that mean: its start.
_PRIOR_READINGS = 1.0

#: Timing and energy of the chosen rows at clocks of shape (r, c).
At = Callable[[Ints, Floats], tuple[Timing, PowerParts]]


@dataclass(frozen=True)
class OwnScatter:
    """Standard deviation of ln time and ln power of a row's kernel beyond that of all kernels; (n,) each."""

    time: Floats
    power: Floats

    def beside(self, place: Between) -> tuple[Floats, Floats]:
        """Return both as those of a reading about the joined prediction of two, at each clock. (n, c)"""
        readings = np.sqrt(1.0 + place.weight**2 + (1.0 - place.weight) ** 2)
        return self.time[:, None] * readings, self.power[:, None] * readings


def own_scatter(
    rows: OperatorColumns, anchor: Anchor, at: At, log_sd_per_octave: Floats, *, voltage_read: bool
) -> OwnScatter:
    r"""Return the scatter of the readings of kernels measured at three clocks or more.

    Each reading but a kernel's first and last is predicted from its two neighbors, interpolated with weight w
    of the upper one. Its error r contains the model's error m at that distance from the nearer neighbor, the
    usual scatter :math:`s_0` of a reading, and the further scatter s of the three readings:

    .. math:: s^2 = \frac{1}{n + 1} \max\left(\sum_i \frac{r_i^2 - m_i^2}{1 + w_i^2 + (1 - w_i)^2} - n s_0^2,
       0\right)

    Parameters
    ----------
    at : callable
        Timing and energies of some rows at some clocks, scaled from each row's own measurement.
    log_sd_per_octave : array, shape (n,)
        The model's standard deviation of ln time per doubling of the clock.
    voltage_read : bool
        Whether the GPU's voltage over its clocks was measured.
    """
    inner, below, above = _inner(kernels(rows, anchor), anchor.clock_mhz)
    nothing = np.zeros(len(rows))
    if not len(inner):
        return OwnScatter(nothing, nothing)
    clock = anchor.clock_mhz
    weight = np.log(clock[inner] / clock[below]) / np.log(clock[above] / clock[below])
    octaves = np.minimum(np.log2(clock[inner] / clock[below]), np.log2(clock[above] / clock[inner]))
    logs = [_log_time_and_power(at, side, clock[inner]) for side in (below, above)]
    share = 1.0 + weight**2 + (1.0 - weight) ** 2
    group = kernels(rows, anchor)
    spreads = []
    usual_power = anchor.take(inner).power_sd(octaves[:, None], voltage_read=voltage_read)[:, 0]
    usual_time = log_sd_per_octave[inner] * octaves
    of_time = anchor.duration_s, usual_time, anchor.reading_sd()[inner]
    of_power = anchor.power_w, usual_power, np.full(len(inner), BETWEEN_SD)
    for which, (measured, usual, reading) in enumerate((of_time, of_power)):
        joined = (1.0 - weight) * logs[0][which] + weight * logs[1][which]
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.nan_to_num(np.log(measured[inner]) - joined, posinf=0.0, neginf=0.0)
        beyond = (away**2 - usual**2) / share - reading**2
        _, number = np.unique(group, return_inverse=True)
        total = np.bincount(number[inner], beyond, number.max() + 1)
        count = np.bincount(number[inner], minlength=number.max() + 1)
        spreads.append(np.sqrt(np.maximum(total, 0.0) / (count + _PRIOR_READINGS))[number])
    return OwnScatter(*spreads)


def _inner(kernel: Ints, clock_mhz: Floats) -> tuple[Ints, Ints, Ints]:
    """Return the rows between two of their kernel in clock, and these: the next lower and upper one."""
    order = np.lexsort((clock_mhz, kernel))
    order = order[np.isfinite(clock_mhz[order])]
    # of a kernel's rows at one clock the first stands for all
    same = (np.diff(kernel[order]) == 0) & (np.diff(clock_mhz[order]) == 0)
    order = order[np.r_[True, ~same]] if len(order) else order
    if len(order) < 3:
        none = np.zeros(0, np.int64)
        return none, none, none
    inside = (kernel[order][:-2] == kernel[order][1:-1]) & (kernel[order][1:-1] == kernel[order][2:])
    return order[1:-1][inside], order[:-2][inside], order[2:][inside]


def _log_time_and_power(at: At, rows: Ints, clock_mhz: Floats) -> tuple[Floats, Floats]:
    """Return ln of time and mean power of some rows, each at one clock."""
    timing, parts = at(rows, clock_mhz[:, None])
    duration, power = timing.duration_s[:, 0], parts.power_w(timing)[:, 0]
    return np.log(np.maximum(duration, 1e-15)), np.log(np.maximum(power, 1e-15))
