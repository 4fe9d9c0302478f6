"""Why the energy changed: an exact split of the difference into its causes.

References
----------
.. [1] B. W. Ang, "The LMDI approach to decomposition analysis: a practical guide", Energy Policy 33(7),
   2005: additive logarithmic mean Divisia index, residual 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats

#: Causes in the order of the output.
FACTORS = ("more work", "longer duration", "higher power", "clock", "idle gaps")


def log_mean(a: Floats, b: Floats) -> Floats:
    r"""Return the logarithmic mean of two positive figures, element by element.

    Notes
    -----
    .. math:: L(a, b) = \frac{a - b}{\ln a - \ln b}, \quad L(a, a) = a

    >>> log_mean(np.array([2.0, 4.0]), np.array([2.0, 1.0])).round(4)
    array([2.   , 2.164])
    """
    x = np.log(a / b)
    small = np.abs(x) < 1e-8
    safe = np.where(small, 1.0, x)
    return np.asarray(np.where(small, b * (1.0 + x / 2.0), b * np.expm1(safe) / safe))


@dataclass(frozen=True)
class Pairs:
    """Matched pieces of work of two runs, shape (n,) each; zero on the side where one is absent.

    Parameters
    ----------
    count_base, count_head : array
        How often it ran.
    time_base, time_head : array
        Time of all of it. [s]
    energy_base, energy_head : array
        Energy of all of it. [J]
    work_ratio : array
        Work of one execution, head over base, where shapes changed; else 1.
    clock_time_ratio, clock_power_ratio : array
        What the change of clock alone does to time and power, head over base; 1 at equal clocks.
    """

    count_base: Floats
    count_head: Floats
    time_base: Floats
    time_head: Floats
    energy_base: Floats
    energy_head: Floats
    work_ratio: Floats
    clock_time_ratio: Floats
    clock_power_ratio: Floats


def decompose(pairs: Pairs) -> Mapping[str, Floats]:
    r"""Return each pair's energy change by cause. Shape (n,) per cause; they sum to the change exactly. [J]

    Notes
    -----
    With :math:`E = n\,w\,\tau\,p` (executions, work of each, time per work, power), the cause of factor
    :math:`x` is :math:`L(E_1, E_0)\,\ln(x_1/x_0)` [1]_. The clock takes from time and power what the
    model says it does to them. A piece that is on one side only is more (or less) work as a whole, the
    limit of the formula; where only time or only energy is zero on one side, that factor takes it all.

    Examples
    --------
    >>> one = np.ones(1)
    >>> made = decompose(Pairs(one, 2 * one, one, 2 * one, one, 2.4 * one, one, one, one))
    >>> {k: float(v[0].round(3)) for k, v in made.items() if v[0]}
    {'more work': 1.108, 'higher power': 0.292}
    """
    base, head = pairs.energy_base, pairs.energy_head
    change = head - base
    counted = (pairs.count_base > 0) & (pairs.count_head > 0)
    timed = counted & (pairs.time_base > 0) & (pairs.time_head > 0)
    is_complete = timed & (base > 0) & (head > 0)

    def log_ratio(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.log(np.where(is_complete, a, 1.0) / np.where(is_complete, b, 1.0)))

    mean = np.where(
        is_complete, log_mean(np.where(is_complete, head, 1.0), np.where(is_complete, base, 1.0)), 0.0
    )
    count = log_ratio(pairs.count_head, pairs.count_base)
    work = np.log(np.where(is_complete, pairs.work_ratio, 1.0))
    clock_time = np.log(np.where(is_complete, pairs.clock_time_ratio, 1.0))
    clock_power = np.log(np.where(is_complete, pairs.clock_power_ratio, 1.0))
    time = log_ratio(pairs.time_head, pairs.time_base)
    energy = log_ratio(head, base)
    causes = {
        "more work": mean * (count + work) + np.where(counted, 0.0, change),
        "longer duration": mean * (time - count - work - clock_time)
        + np.where(counted & ~timed, change, 0.0),
        "clock": mean * (clock_time + clock_power),
    }
    # the last cause is what is left, so that the sum is the change to the last bit of the arithmetic
    causes["higher power"] = np.where(
        is_complete, mean * (energy - time - clock_power), np.where(timed, change, 0.0)
    )
    return {name: causes[name] for name in FACTORS if name in causes}
