"""Intervals of time, power and energy of rows at clocks."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats, by_row, root_sum
from tracetool.core.interval import Z90
from tracetool.core.prediction import Prediction
from tracetool.hardware.priors import prior_number
from tracetool.model.phases import Governed

#: How the errors of a program's time and power go together; a kernel's follow from its base share.
_TIME_AND_POWER = prior_number("anchor.time_and_power")
#: What a power held at the limit may read over it. [1]
_CAP_READING = prior_number("power.cap_reading")


#: A time this near its least, or below it, says that the count or the rate is another: it bounds nothing. [1]
_NEAR = prior_number("time.near_least")


def _log_above(least_s: Floats, duration_s: Floats) -> Floats:
    """Return ln of how far each row's shortest time is above its least, infinite where none binds. (n, 1)."""
    shortest_s = duration_s.min(axis=1, initial=np.inf)
    bounds = (least_s > 0) & (shortest_s > _NEAR * least_s)
    above = np.full(len(least_s), np.inf)
    np.log(shortest_s / np.where(bounds, least_s, 1.0), out=above, where=bounds)
    return above[:, None]


def with_intervals(
    governed: Governed,
    clocks_mhz: Floats,
    idle_w: Floats,
    limit_w: float,
    programs: Bools,
    least_s: Floats,
) -> Prediction:
    r"""Return the prediction of governed rows with 90 % intervals.

    An error of the coefficients and an error of the time are independent. If a kernel takes :math:`e^x`
    times as long as predicted, its counts cost the same: the base energy, a share :math:`b` of the whole,
    grows with the time, and the power of the counts falls, never below that of the base,

    .. math:: \ln \frac{E}{E_0} = \ln (b e^x + 1 - b), \qquad \ln \frac{P}{P_0} = \ln (b + (1 - b) e^{-x})

    A program that takes longer may as well wait as work: its errors of time and power hardly cancel,

    .. math:: s_E^2 = s_t^2 + s_P^2 + 2 \rho s_t s_P

    Parameters
    ----------
    governed : Governed
        n rows at c clocks.
    clocks_mhz, idle_w : array, shape (c,)
        Requested clocks, and the power with nothing running there. [MHz], [W]
    limit_w : float
        No power stands above it. [W]
    programs : array of bool, shape (n,)
        Rows that are programs, measured with their power.
    least_s : array, shape (n,)
        Time below which no interval reaches, whatever its coefficients' error. [s]
    """
    timing, parts = governed.timing, governed.parts
    energy = parts.total()
    with np.errstate(divide="ignore", invalid="ignore"):
        base_share = np.where(energy > 0, parts.joules["base"] / energy, 1.0)
    base_share = np.clip(base_share, 0.0, 1.0)
    working = 1.0 - base_share
    # spreads that no clock changes stay one column: (n, 1)
    coefficients = Z90 * root_sum(by_row(parts.relative_sd), by_row(governed.power_sd))
    phases = Z90 * by_row(governed.time_sd)
    slower, faster = (root_sum(np.log(by_row(side)), phases) for side in (timing.high, timing.low))
    faster = np.minimum(faster, _log_above(least_s, timing.duration_s))
    program = programs[:, None] if programs.any() else None

    def power_half(log_time: Floats) -> Floats:
        of_time = np.log(base_share + working * np.exp(-log_time))
        of_kernel = root_sum(coefficients, of_time)
        return of_kernel if program is None else np.where(program, coefficients, of_kernel)

    def energy_half(log_time: Floats) -> Floats:
        of_time = np.log(base_share * np.exp(log_time) + working)
        of_kernel = root_sum(coefficients, of_time)
        if program is None:
            return of_kernel
        together = log_time**2 + coefficients**2 + 2.0 * _TIME_AND_POWER * np.abs(log_time) * coefficients
        return np.where(program, np.sqrt(together), of_kernel)

    power_w = parts.power_w(timing)
    # The governor lets no power stand above the limit, whatever the error of the coefficients; what it holds
    # there may read some percent more.
    most = np.maximum(power_w, _CAP_READING * limit_w)
    return Prediction(
        requested_mhz=clocks_mhz,
        clock_mhz=governed.clock_mhz,
        timing=governed.timing_within(np.exp(-faster), np.exp(slower)),
        power_w=power_w,
        power_low_w=power_w * np.exp(-power_half(slower)),
        power_high_w=np.minimum(power_w * np.exp(power_half(-faster)), most),
        energy_j=energy,
        energy_low_j=energy * np.exp(-energy_half(-faster)),
        energy_high_j=energy * np.exp(energy_half(slower)),
        parts_j=parts.joules,
        throttled=governed.throttled,
        idle_w=idle_w,
    )
