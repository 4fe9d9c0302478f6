"""Totals of a table's rows run in order: every scope's time and energy, per clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.model.operands import unstated_sd
from tracetool.replay.host import HostCosts
from tracetool.replay.operator_tables import InputTable
from tracetool.replay.scope_totals import (
    PARTS,
    DeviceWork,
    Spread,
    Window,
    budget,
    energy_parts,
    ratio,
    work_spread,
)

#: How sharply the longer of host and device takes over: idle times of a host at par with the device cost an
#: eighth, as its time varies from operator to operator and the queue runs dry now and then.
_SHARPNESS: Final = 6.0
#: Idle time of a launch that is none: what profilers resolve. Less is what the norm leaves of a host far
#: quicker than the device, or what sums of floating-point numbers round. [s] By definition of their stamps.
RESOLVED_S: Final = 1e-9


@dataclass(frozen=True)
class Issued:
    """One stream fed by one host thread, at c clocks. Times of one pass in seconds."""

    kernel_s: Floats  # (c,) sum of the kernels' times
    makespan_s: Floats  # (c,) from one pass to the next
    idle_s: Floats  # (c,) makespan less kernel time
    host_s: float  # time the host needs to issue everything


def beside_host_s(device_s: Floats, host_s: float) -> Floats:
    """Return the time of a pass whose device and host work beside each other: the longer, and some. (c,) [s]

    See :func:`issue` for the equation.
    """
    longest = np.maximum(device_s, host_s)
    ratio = np.divide(np.minimum(device_s, host_s), longest, out=np.zeros_like(longest), where=longest > 0)
    return np.asarray(longest * (1.0 + ratio**_SHARPNESS) ** (1.0 / _SHARPNESS))


def issue(duration_s: Floats, counts: Floats, issue_s: Floats, costs: HostCosts) -> Issued:
    r"""Makespan of rows launched in order on one stream, one pass behind the other.

    Parameters
    ----------
    duration_s : array, shape (n, c)
        Time of one launch of each row at each clock. [s]
    counts : array, shape (n,)
        Launches of each row. [1]
    issue_s : array, shape (n,)
        Host time of one launch; it does not scale with the clock. [s]
    costs : HostCosts
        Start of a pass, gap between queued kernels.

    Returns
    -------
    Issued
        Kernel time, makespan and idle time per clock. [s]

    Notes
    -----
    The host does not wait for a pass to end before it issues the next. Where it is the faster, it runs
    ahead and its start of a pass is hidden; where the device is, each kernel waits for its launch. With
    the host's time :math:`H = h_0 + \sum_i q_i h_i` and the device's :math:`K = \sum_i q_i (d_i + g)`,

    .. math:: T = (H^6 + K^6)^{1/6}

    Examples
    --------
    Two kernels of 10 us, 25 us of host each: the device waits for the host.

    >>> from tracetool.replay.host import HostCosts
    >>> costs = HostCosts(0.0, 0.0, 0.0, {}, 1.0, 1.0, "")
    >>> made = issue(np.full((2, 1), 10e-6), np.ones(2), np.full(2, 25e-6), costs)
    >>> round(float(made.makespan_s[0] * 1e6), 1), round(float(made.kernel_s[0] * 1e6), 1)
    (50.0, 20.0)
    """
    host = costs.start_s + float(np.sum(issue_s * counts))
    kernel = counts @ duration_s
    device = kernel + costs.gap_s * counts.sum()
    makespan = beside_host_s(device, host)
    makespan = np.where(makespan - kernel > RESOLVED_S * counts.sum(), makespan, kernel)
    return Issued(kernel, makespan, makespan - kernel, host)


def sequence_totals(
    rows: OperatorColumns,
    predicted: Prediction,
    table: InputTable,
    costs: HostCosts,
    *,
    run_sd: float | None = None,
    own_share: float = 1.0,
) -> list[dict[str, Any]]:
    """Totals of a table's rows issued in order on one stream by one host thread, per clock.

    ``run_sd`` is what the times of one run's rows err by in common (ln), where that is known, and
    ``own_share`` how much of its own error each keeps beside it; see :func:`run_spread`.
    """
    place, counts = table.index, np.asarray(table.counts, dtype=np.float64)
    work, weight = _work(rows, predicted, table)
    duration = predicted.timing.duration_s[place]
    host = costs.issue_s(rows.family)[place]
    middle = issue(duration, counts, host, costs)

    def spread(which: Bools) -> Spread:
        if run_sd is None:
            return work_spread(work, which)
        return run_spread(weight * which, predicted, run_sd, own_share, Z90 * unstated_sd(rows))

    below, above = spread(np.ones(len(rows), np.bool_)).time_s
    factor = middle.kernel_s > 0
    shorter = 1.0 - np.divide(below, middle.kernel_s, out=np.zeros_like(below), where=factor)
    longer = 1.0 + np.divide(above, middle.kernel_s, out=np.zeros_like(above), where=factor)
    # Kernels may err together or the host may: two independent reasons for the makespan to differ.
    faster = issue(duration * shorter, counts, host, costs)
    slower = issue(duration * longer, counts, host, costs)
    quick_host = issue(duration, counts, host * costs.low, costs.scaled(costs.low))
    slow_host = issue(duration, counts, host * costs.high, costs.scaled(costs.high))
    down = np.hypot(middle.makespan_s - faster.makespan_s, middle.makespan_s - quick_host.makespan_s)
    up = np.hypot(slower.makespan_s - middle.makespan_s, slow_host.makespan_s - middle.makespan_s)
    span = (middle.makespan_s, np.maximum(middle.makespan_s - down, 0.0), middle.makespan_s + up)
    # longer kernels hide more of the host's time
    narrower = np.hypot(middle.idle_s - slower.idle_s, middle.idle_s - quick_host.idle_s)
    wider = np.hypot(faster.idle_s - middle.idle_s, slow_host.idle_s - middle.idle_s)
    gap = (middle.idle_s, np.maximum(middle.idle_s - narrower, 0.0), middle.idle_s + wider)
    records = budget(work, _window(work, middle.kernel_s, span, gap), anchored=False, spread=spread)
    energy_parts(_energy_parts(predicted, weight), records)
    return records


def kernel_totals(
    rows: OperatorColumns, predicted: Prediction, table: InputTable, *, anchored: bool
) -> list[dict[str, Any]]:
    """Totals of a kernel table: its rows one after another, without gaps."""
    work, weight = _work(rows, predicted, table)
    busy = work.time_s.sum(0)
    below, above = work_spread(work, np.ones(len(rows), np.bool_)).time_s
    none = np.zeros_like(busy)
    window = _window(work, busy, (busy, busy - below, busy + above), (none, none, none))
    records = budget(work, window, anchored=anchored, spread=partial(work_spread, work))
    energy_parts(_energy_parts(predicted, weight), records)
    return records


def _work(rows: OperatorColumns, predicted: Prediction, table: InputTable) -> tuple[DeviceWork, Floats]:
    """Return time and energy of the rows over all launches, and the launches of each, shape (n,)."""
    counts = np.asarray(table.counts, dtype=np.float64)
    weight = np.bincount(table.index, weights=counts, minlength=len(rows)).astype(np.float64)
    time, energy = weight[:, None] * predicted.timing.duration_s, weight[:, None] * predicted.energy_j
    return DeviceWork(rows, predicted, time, energy), weight


_Bounded = tuple[Floats, Floats, Floats]


def _window(work: DeviceWork, busy_s: Floats, span_s: _Bounded, gap_s: _Bounded) -> Window:
    """Return the window of rows on one stream: ``span_s`` the makespan, ``gap_s`` its idle time, each with
    its interval.
    """
    runs = work.time_s > 0
    peak = np.max(np.where(runs, work.predicted.power_w, 0.0), axis=0, initial=0.0)
    return Window(*span_s, busy_s, *gap_s, peak)


def _energy_parts(predicted: Prediction, weight: Floats) -> list[dict[str, float]]:
    """Return the parts of the energy of kernels and copies, per clock."""
    sums = {name: weight @ predicted.parts_j[name] for name in PARTS if name in predicted.parts_j}
    return [{name: float(values[j]) for name, values in sums.items()} for j in range(len(predicted.idle_w))]


def run_spread(
    weight: Floats,
    predicted: Prediction,
    run_sd: float,
    own_share: float = 1.0,
    unstated: Floats | float = 0.0,
) -> Spread:
    r"""Half-widths of the kernels' time and energy of one run.

    Parameters
    ----------
    weight : array, shape (n,)
        Launches of each row. [1]
    predicted : Prediction
        The rows, among others.
    run_sd : float
        Spread of a run's time that its rows have in common. [ln]
    own_share : float
        Share of its own error a row keeps beside it. [1]
    unstated : array, shape (n,), optional
        Part of each row's half-width of ln power that is for unstated operands. The error of
        coefficients fitted to whole runs holds it already, so it does not count in their sum.

    Notes
    -----
    Each row's time errs its own way, :math:`h_i`, of which it keeps a share :math:`a`, and all together
    by :math:`z s`:

    .. math:: w_t^2 = a^2 \frac{\sum_i (t_i h_i)^2}{(\sum t_i)^2} + (z s)^2

    Coefficients of power were fitted at measured times: their error, :math:`c_i`, is one of power, the
    same GPU's for all rows. A run that takes longer does more than its rows say, or the same more slowly,
    which costs the base's share :math:`b` alone; either is as likely:

    .. math:: w_E^2 = \left(\frac{\sum E_i c_i}{\sum E_i}\right)^2 + \left(\frac{1 + b}{2} w_t\right)^2
    """
    timing, w = predicted.timing, weight[:, None]
    time, energy = w * timing.duration_s, w * predicted.energy_j
    base = w * predicted.parts_j["base"]
    costing = (1.0 + np.clip(ratio(base.sum(0), energy.sum(0)), 0.0, 1.0)) / 2.0
    content = np.broadcast_to(unstated, weight.shape)[:, None]
    each = np.sqrt(np.maximum(predicted.power_half**2 - content**2, 0.0))
    power = ratio((energy * each).sum(0), energy.sum(0))
    times, energies = [], []
    for sign, bound in ((-1.0, timing.low), (1.0, timing.high)):
        log_bound = np.abs(np.log(bound))
        apart = own_share * ratio(np.sqrt(((time * log_bound) ** 2).sum(0)), time.sum(0))
        wide = np.hypot(apart, Z90 * run_sd)
        times.append(sign * time.sum(0) * np.expm1(sign * wide))
        energies.append(sign * energy.sum(0) * np.expm1(sign * np.hypot(costing * wide, power)))
    return Spread((times[0], times[1]), (energies[0], energies[1]))
