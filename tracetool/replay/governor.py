r"""The governor that keeps a power cap: it acts on the mean power of some milliseconds, not on each kernel.

It is modeled as a limit on the power's moving mean :math:`A` with time constant :math:`\tau`,

.. math:: \tau \dot A = P - A, \qquad A \le C.

While :math:`A` is below the cap the clock stays as asked for: a burst of power :math:`P` that begins at
:math:`A_0` runs for :math:`\tau \ln((P - A_0) / (P - C))`, limited by the power supply alone
(``burst_share``). From then on the clock hunts between those whose power is above and under the cap, so
that their mean keeps it: in a long phase that is the steady solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.compiled import compiled
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_bands, prior_number
from tracetool.replay.governor_windows import Windows

#: Powers this close to the cap keep it. [1]
_SETTLED: Final = 1e-9


@dataclass(frozen=True)
class Governor:
    """The time constant of a GPU's power governor and its 90 % interval."""

    time_constant_s: float
    low_s: float
    high_s: float
    burst_share: float  # highest power of a burst over the cap [1]
    basis: str = "prior"  # kind of evidence of the time constant

    @classmethod
    def of(cls, gpu: Gpu) -> Governor:
        """Return a GPU's: its sheet's ``cap_time_constant_ms``, else the prior."""
        number = gpu.numbers.get("cap_time_constant_ms")
        burst = prior_number("power.cap_burst")
        if number is not None:
            return cls(number.value * 1e-3, number.low * 1e-3, number.high * 1e-3, burst, number.kind)
        low, high = prior_bands("power.cap_time_constant_band")["ms"]
        return cls(prior_number("power.cap_time_constant") * 1e-3, low * 1e-3, high * 1e-3, burst)


def held_share(windows: Windows, limit_w: float, time_constant_s: float, start_w: float) -> Floats:
    """Return the share of each window's work that the governor holds under the cap. Shape (w,). [1]

    Parameters
    ----------
    windows : Windows
        The timeline.
    limit_w : float
        What the governor holds the mean power under. [W]
    time_constant_s : float
        Of its mean. [s]
    start_w : float
        That mean before the first window. [W]

    Examples
    --------
    A burst of 20 ms at 450 W under a cap of 350 W: a slow governor lets it pass, a fast one holds most of it.

    >>> burst = Windows(0.0, 1e6, np.full(20, 450.0), np.full(20, 350.0), np.full(20, 1.2))
    >>> held_share(burst, 350.0, 0.025, 80.0).mean().item()
    0.0
    >>> round(held_share(burst, 350.0, 0.002, 80.0).mean().item(), 2)
    0.87
    """
    share = np.zeros(len(windows.free_w))
    compiled(_scan, len(share))(
        windows.free_w,
        windows.held_w,
        windows.longer,
        windows.length_ns * 1e-9,
        float(limit_w),
        float(time_constant_s),
        float(start_w),
        share,
    )
    return share


def _scan(
    free: Floats,
    held_w: Floats,
    longer: Floats,
    length: float,
    limit: float,
    tau: float,
    mean: float,
    share: Floats,
) -> None:
    """Step through the windows in order; fills ``share`` in place."""
    for w in range(len(share)):
        power, remaining = free[w], length
        if mean < limit:
            # At the clock asked for until the mean reaches the cap, or to the end of the window.
            until = remaining
            if power > limit * (1.0 + _SETTLED):
                until = min(tau * np.log((power - mean) / (power - limit)), remaining)
            mean = power + (mean - power) * np.exp(-until / tau)
            remaining -= until
        if remaining <= 0.0:
            continue
        least, factor = held_w[w], longer[w]
        if power <= limit * (1.0 + _SETTLED):
            # The mean is at the cap, the window is not: nothing is held, and the mean falls.
            mean = power + (mean - power) * np.exp(-remaining / tau)
        elif least <= limit:
            # The clock hunts about the cap: its mean is the cap.
            over, under = power - limit, factor * (limit - least)
            share[w] = over / (over + under) * remaining / length
            mean = limit
        else:
            share[w] = remaining / length
            mean = least + (mean - least) * np.exp(-remaining * factor / tau)
