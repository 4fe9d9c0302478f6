"""Why the energy of matched work differs: an exact split into work, traffic, efficiency, power and clock.

References
----------
.. [1] B. W. Ang, "The LMDI approach to decomposition analysis: a practical guide", Energy Policy 33(7),
   2005: additive logarithmic mean Divisia index, residual 0.
.. [2] S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.compare.decomposition import log_mean
from tracetool.core.arrays import Bools, Floats

#: Why energies per unit of work differ, in the order of the output.
CAUSES: Final = ("work", "traffic", "efficiency", "power", "clock", "GPU", "idle", "waiting")
#: Error of what a model says between two ways to do one thing: bytes moved, what a clock does. [1] Priors.
_TRAFFIC_SD: Final = 0.15
_CLOCK_SD: Final = 0.15


@dataclass(frozen=True)
class MatchedWork:
    """Matched pieces of work of two runs, shape (n,) each; zero on the side where one is absent.

    Parameters
    ----------
    energy_base, energy_head : array
        Per unit of work. [J]
    time_base, time_head : array
        Per unit of work. [s]
    work : array
        Work of the head over that of the base. [1]
    roof : array
        Time the roofline leaves the head's work over that of the base's, each on its GPU; NaN where a
        shape is not known. [1]
    gpu : array
        What the other GPU's peaks alone do to that time, head over base. [1]
    clock_time, clock_power : array
        What the clock alone does to time and power, head over base. [1]
    """

    energy_base: Floats
    energy_head: Floats
    time_base: Floats
    time_head: Floats
    work: Floats
    roof: Floats
    gpu: Floats
    clock_time: Floats
    clock_power: Floats

    @property
    def whole(self) -> Bools:
        """Pieces with time and energy on each side. Shape (n,)."""
        positive = [self.energy_base, self.energy_head, self.time_base, self.time_head, self.work]
        return np.asarray(np.all([v > 0 for v in positive], axis=0))


def split(pairs: MatchedWork, errors: Floats | None = None) -> dict[str, Floats]:
    r"""Return each piece's energy change by cause. Shape (n,) per cause; they sum to the change. [J]

    Parameters
    ----------
    pairs : MatchedWork
        The pieces.
    errors : array, shape (2, n), optional
        Standard normal draws: by how much the model errs in traffic and in what a clock does.

    Notes
    -----
    Energy is :math:`e = w\,\frac{r}{w}\,\frac{t}{r}\,\frac{e}{t}`: work w, the time r that the roofline [2]_
    leaves it, the time t it took, power. The change goes to each factor x as
    :math:`L(e_1, e_0)\ln(x_1/x_0)` with the logarithmic mean L [1]_: w is *work*, r/w *traffic* (bytes per
    operation, and the rate of the number format) and *GPU* (its peaks), t/r *efficiency*, e/t *power*; the
    *clock* takes from efficiency and power what the model says it does to time and power. Work of one run
    only is work as a whole, the limit of the formula. Where shapes are not known, r follows w.

    Examples
    --------
    >>> one = np.ones(1)
    >>> parts = split(MatchedWork(one, 2.4 * one, one, 2 * one, 2 * one, 2 * one, one, one, one))
    >>> {k: float(v[0].round(3)) for k, v in parts.items() if abs(v[0]) > 1e-12}
    {'work': 1.108, 'power': 0.292}
    """
    base, head, is_complete = pairs.energy_base, pairs.energy_head, pairs.whole
    comparable = (
        is_complete & np.isfinite(pairs.roof) & (pairs.roof > 0) & np.isfinite(pairs.gpu) & (pairs.gpu > 0)
    )

    def log(ratio: Floats, where: Bools = is_complete) -> Floats:
        return np.asarray(np.log(np.where(where, ratio, 1.0)))

    mean = np.where(
        is_complete, log_mean(np.where(is_complete, head, 1.0), np.where(is_complete, base, 1.0)), 0.0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        time = log(pairs.time_head / pairs.time_base)
    work, gpu = log(pairs.work), log(pairs.gpu, comparable)
    traffic = np.where(comparable, log(pairs.roof, comparable) - work - gpu, 0.0)
    clock_time, clock_power = log(pairs.clock_time), log(pairs.clock_power)
    if errors is not None:
        traffic = traffic * (1.0 + _TRAFFIC_SD * errors[0])
        clock_time, clock_power = ((1.0 + _CLOCK_SD * errors[1]) * c for c in (clock_time, clock_power))
    change = head - base
    changes = {
        "work": np.where(is_complete, mean * work, change),
        "traffic": mean * traffic,
        "efficiency": mean * (time - work - traffic - gpu - clock_time),
        "clock": mean * (clock_time + clock_power),
        "GPU": mean * gpu,
    }
    # power is what is left, so that the sum is the change to the last bit of the arithmetic
    changes["power"] = np.where(is_complete, change - np.sum(list(changes.values()), axis=0), 0.0)
    nothing = np.zeros_like(change)
    return {name: changes.get(name, nothing) for name in CAUSES}
