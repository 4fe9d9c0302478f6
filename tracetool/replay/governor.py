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
from tracetool.replay.power import PowerCurve

#: Windows of one time constant: the clock is decided on once in each window.
_WINDOWS: Final = 8
#: Windows of a timeline at most; a longer one is decided on in longer windows.
_MOST_WINDOWS: Final = 100_000
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
        """Return a GPU's: its sheet's ``cap_time_constant_ms``, else the prior of GPUs nobody measured."""
        number = gpu.numbers.get("cap_time_constant_ms")
        burst = prior_number("power.cap_burst")
        if number is not None:
            return cls(number.value * 1e-3, number.low * 1e-3, number.high * 1e-3, burst, number.kind)
        low, high = prior_bands("power.cap_time_constant_band")["ms"]
        return cls(prior_number("power.cap_time_constant") * 1e-3, low * 1e-3, high * 1e-3, burst)


@dataclass(frozen=True)
class Windows:
    """A device's timeline in windows of equal length, at the clock asked for and at clocks under the cap."""

    first_ns: float
    length_ns: float
    free_w: Floats  # (w,) mean power at the clock asked for
    held_w: Floats  # (w,) mean power of the same work at clocks under the cap
    longer: Floats  # (w,) time under the cap over the time at the clock asked for, at least 1 [1]


def windows_of(free: PowerCurve, held: PowerCurve, longer: PowerCurve, time_constant_s: float) -> Windows:
    """Cut a timeline into windows that are short beside the governor's time constant.

    Parameters
    ----------
    free, held : PowerCurve
        Power at the clock asked for, and of the same work at clocks under the cap; both over the timeline
        at the clock asked for.
    longer : PowerCurve
        Factor on the time of what runs, in place of a power. [1]
    time_constant_s : float
        Of the governor. [s]
    """
    first, last = float(free.edge_ns[0]), float(free.edge_ns[-1])
    span = max(last - first, 1.0)
    count = int(np.clip(np.ceil(span / (time_constant_s * 1e9 / _WINDOWS)), 1, _MOST_WINDOWS))
    edges = np.linspace(first, first + span, count + 1)

    def means(curve: PowerCurve) -> Floats:
        return np.asarray(np.diff(curve.energy_until(edges, 0.0)) * 1e9 / (span / count))

    stretched = PowerCurve(held.edge_ns, held.power_w * longer.power_w)
    factor = np.maximum(means(longer), 1.0)
    return Windows(first, span / count, means(free), means(stretched) / factor, factor)


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
    held: Floats,
    longer: Floats,
    length: float,
    limit: float,
    tau: float,
    mean: float,
    share: Floats,
) -> None:
    """Step through the windows in order; fills ``share`` in place."""
    for w in range(len(share)):
        power, left = free[w], length
        if mean < limit:
            # At the clock asked for until the mean reaches the cap, or to the end of the window.
            until = left
            if power > limit * (1.0 + _SETTLED):
                until = min(tau * np.log((power - mean) / (power - limit)), left)
            mean = power + (mean - power) * np.exp(-until / tau)
            left -= until
        if left <= 0.0:
            continue
        least, factor = held[w], longer[w]
        if power <= limit * (1.0 + _SETTLED):
            # The mean is at the cap, the window is not: nothing is held, and the mean falls.
            mean = power + (mean - power) * np.exp(-left / tau)
        elif least <= limit:
            # The clock hunts about the cap: its mean is the cap.
            over, under = power - limit, factor * (limit - least)
            share[w] = over / (over + under) * left / length
            mean = limit
        else:
            share[w] = left / length
            mean = least + (mean - least) * np.exp(-left * factor / tau)


def held_of_each(windows: Windows, share: Floats, start_ns: Floats, end_ns: Floats) -> Floats:
    """Return the share of each activity's work that is held under the cap. Shape (n,). [1]

    Examples
    --------
    >>> windows = Windows(0.0, 10.0, np.zeros(2), np.zeros(2), np.ones(2))
    >>> held_of_each(windows, np.array([0.0, 1.0]), np.array([0.0, 5.0]), np.array([5.0, 15.0]))
    array([0. , 0.5])
    """
    total = np.concatenate([[0.0], np.cumsum(share)])
    edge = np.arange(len(total), dtype=np.float64)
    begin, stop = ((t - windows.first_ns) / windows.length_ns for t in (start_ns, end_ns))
    held = np.interp(stop, edge, total) - np.interp(begin, edge, total)
    at_start = share[np.clip(begin.astype(np.int64), 0, len(share) - 1)]
    long_enough = stop - begin > 1e-9
    mean = np.divide(held, stop - begin, out=at_start.astype(np.float64), where=long_enough)
    return np.asarray(np.clip(mean, 0.0, 1.0))
