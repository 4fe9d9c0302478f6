"""One pass on one GPU: its rows, the gaps between them and the host's own time, under a power cap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.forecast.pricing import PricedPass
from tracetool.replay.scope_totals import IDLE_ERROR, TIME_COMMON, family_spread
from tracetool.replay.table_totals import RESOLVED_S, beside_host_s


@dataclass(frozen=True)
class HostTime:
    """Host time of a step: while the GPU works, and while the GPU waits for it.

    ``beside_s`` runs while the kernels do, ``before_s`` when none does; ``launch_s`` is the idle time of the
    GPU between two kernels. ``less_s`` and ``more_s`` are what other hosts take less or more, at 90 %. [s]
    """

    beside_s: float = 0.0
    before_s: float = 0.0
    launch_s: float = 0.0
    less_s: float = 0.0
    more_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """A pass as it runs: time and energy of one GPU, and of each of its r rows.

    Half-widths are relative, of 90 % intervals: of the time (``time_down``, ``time_up``) and of the power
    had the time been right.
    """

    time_s: float
    energy_j: float
    kernel_s: float
    idle_w: float
    clock_mhz: float
    time_down: float
    time_up: float
    power_down: float
    power_up: float
    covered: float  # share of the kernels' time that rests on kernels measured on this GPU
    row_s: Floats  # (r,) all launches of each row
    row_j: Floats  # (r,)
    priced: PricedPass

    @property
    def power_w(self) -> float:
        """Mean power of one GPU. [W]"""
        return self.energy_j / self.time_s if self.time_s > 0 else 0.0

    @property
    def waiting_s(self) -> float:
        """Time without a kernel; none where it is less than launches are resolved to. [s]"""
        waiting = self.time_s - self.kernel_s
        return waiting if waiting > RESOLVED_S * float(self.priced.counts.sum()) else 0.0


#: Least time of a pass: one without rows has a power, too. [s] By definition.
_LEAST_S: Final = 1e-12
#: How a basis begins whose coefficients were measured on the very GPU.
_MEASURED: Final = "calibrated"


def makespan_s(device_s: Floats, host: HostTime) -> Floats:
    r"""Return the time of a step whose kernels take ``device_s`` beside its host. Any shape. [s]

    Notes
    -----
    .. math:: T = (K^6 + H^6)^{1/6} + h

    as of a table's totals: the longer of device and host beside it, and what runs alone.
    """
    together = beside_host_s(np.maximum(device_s, _LEAST_S), host.beside_s)
    return np.asarray(together + host.before_s, np.float64)


def step_power_w(priced: PricedPass, host: HostTime) -> Floats:
    """Return the mean power of a step at each clock, uncapped. Shape (c,). [W]"""
    kernel, energy, device = _sums(priced, host)
    span = makespan_s(device, host)
    return np.asarray((energy + priced.idle_w * (span - kernel)) / span)


def compose(priced: PricedPass, host: HostTime, cap_w: float) -> Step:
    """Return the step at the highest clock whose mean power is no more than ``cap_w``.

    Where not even the lowest clock keeps the cap the step is that of the lowest clock.

    Parameters
    ----------
    priced : PricedPass
        Its rows at falling clocks; between two of them figures are interpolated.
    host : HostTime
        Time of the host.
    cap_w : float
        Power the governor holds the mean of a step to. [W]
    """
    kernel, energy, device = _sums(priced, host)
    span = makespan_s(device, host)
    joules = energy + priced.idle_w * (span - kernel)
    place, share = _settled(joules, span, cap_w)

    def at(values: Floats) -> Floats:
        if share == 0.0:
            return np.asarray(values[..., place])
        return np.asarray(values[..., place] * (1.0 - share) + values[..., place + 1] * share)

    counts = priced.counts
    time, total = float(at(span)), float(at(joules))
    row_s, row_j = counts * at(priced.duration_s), counts * at(priced.energy_j)
    busy = float(row_s.sum())
    gap_j = max(total - float(row_j.sum()), 0.0)
    waits = time - busy > RESOLVED_S * float(counts.sum())
    down, up = _time_spread(priced, row_s, float(at(device)), host, time)
    low, high = family_spread(
        priced.family, row_j[:, None], at(priced.power_low)[:, None], at(priced.power_high)[:, None]
    )
    measured = np.array([str(b).startswith(_MEASURED) for b in priced.basis], np.bool_)
    return Step(
        time_s=time,
        energy_j=total,
        kernel_s=busy,
        idle_w=gap_j / (time - busy) if waits else float(at(priced.idle_w)),
        clock_mhz=float(at(priced.clocks_mhz)),
        time_down=down,
        time_up=up,
        power_down=float(np.hypot(low[0], IDLE_ERROR * gap_j)) / total,
        power_up=float(np.hypot(high[0], IDLE_ERROR * gap_j)) / total,
        covered=float(row_s[measured].sum()) / busy if busy else 0.0,
        row_s=row_s,
        row_j=row_j,
        priced=priced,
    )


def _sums(priced: PricedPass, host: HostTime) -> tuple[Floats, Floats, Floats]:
    """Return kernel time, kernel energy and the time of kernels and the gaps between them. (c,) each."""
    kernel = priced.counts @ priced.duration_s
    return kernel, priced.counts @ priced.energy_j, kernel + host.launch_s * priced.counts.sum()


def _settled(energy_j: Floats, time_s: Floats, cap_w: float) -> tuple[int, float]:
    """Return the clock a governor settles at: a place among falling clocks, and the share of the next.

    Time and energy interpolated by the share have the cap as their ratio.
    """
    excess_j = energy_j - cap_w * time_s
    allowed = np.flatnonzero(excess_j <= 0.0)
    if not allowed.size:
        return len(excess_j) - 1, 0.0
    first = int(allowed[0])
    if first == 0:
        return 0, 0.0
    above, below = excess_j[first - 1], -excess_j[first]
    return first - 1, float(above / (above + below))


def _time_spread(
    priced: PricedPass, row_s: Floats, device_s: float, host: HostTime, time_s: float
) -> tuple[float, float]:
    """Return the relative half-widths of the time: kernels err, and so does the host."""
    below, above = family_spread(
        priced.family, row_s[:, None], priced.low[:, None], priced.high[:, None], common=TIME_COMMON
    )

    def span(device: float) -> float:
        return float(makespan_s(np.array(device), host))

    down = np.hypot(time_s - span(max(device_s - below[0], 0.0)), host.less_s)
    up = np.hypot(span(device_s + above[0]) - time_s, host.more_s)
    return float(min(down / time_s, 1.0)), float(up / time_s)
