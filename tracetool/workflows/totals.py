"""Totals of a table's rows run in order: kernel time, makespan, energy and its parts, per clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tracetool.replay.host import HostCosts
from tracetool.replay.issue import issue
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.interval import Z90
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.prediction import Prediction
from tracetool.workflows.tables import InputTable

#: Half-width of the 90 % interval of idle power: temperature and boards differ. [1]
IDLE_ERROR: Final = 0.12
#: Share of the variance of times that shapes of one family have in common. [1]
TIME_COMMON: Final = 0.3
#: Parts of the energy, in the order they are reported; gaps are the idle time between kernels.
PARTS: Final = ("base", "clock", "compute", "onchip", "dram", "link")


@dataclass(frozen=True)
class Sums:
    """What the rows add up to, per clock, with the half-widths of 90 % intervals. All of shape (c,)."""

    kernel_s: Floats
    kernel_low_s: Floats
    kernel_high_s: Floats
    makespan_s: Floats
    makespan_low_s: Floats
    makespan_high_s: Floats
    weight: Floats  # (n,) launches of each row


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
    weight = np.bincount(place, weights=counts, minlength=len(rows)).astype(np.float64)
    duration = predicted.timing.duration_s[place]
    host = costs.issue_s(rows.family)[place]
    middle = issue(duration, counts, host, costs)
    spread = run_spread(weight, predicted, run_sd, own_share) if run_sd is not None else None
    below, above = spread.time_s if spread else _time_spread(rows, weight, predicted)
    factor = middle.kernel_s > 0
    shorter = 1.0 - np.divide(below, middle.kernel_s, out=np.zeros_like(below), where=factor)
    longer = 1.0 + np.divide(above, middle.kernel_s, out=np.zeros_like(above), where=factor)
    # Kernels may err together or the host may: two independent reasons for the makespan to differ.
    down = np.hypot(
        middle.makespan_s - issue(duration * shorter, counts, host, costs).makespan_s,
        middle.makespan_s - issue(duration, counts, host * costs.low, costs.scaled(costs.low)).makespan_s,
    )
    up = np.hypot(
        issue(duration * longer, counts, host, costs).makespan_s - middle.makespan_s,
        issue(duration, counts, host * costs.high, costs.scaled(costs.high)).makespan_s - middle.makespan_s,
    )
    sums = Sums(
        middle.kernel_s,
        middle.kernel_s - below,
        middle.kernel_s + above,
        middle.makespan_s,
        np.maximum(middle.makespan_s - down, 0.0),
        middle.makespan_s + up,
        weight,
    )
    return records(rows, predicted, sums, spread.energy_j if spread else None)


def kernel_totals(rows: OperatorColumns, predicted: Prediction, table: InputTable) -> list[dict[str, Any]]:
    """Totals of a kernel table: its rows one after another, without gaps."""
    counts = np.asarray(table.counts, dtype=np.float64)
    weight = np.bincount(table.index, weights=counts, minlength=len(rows)).astype(np.float64)
    busy = weight @ predicted.timing.duration_s
    below, above = _time_spread(rows, weight, predicted)
    sums = Sums(busy, busy - below, busy + above, busy, busy - below, busy + above, weight)
    return records(rows, predicted, sums)


def records(
    rows: OperatorColumns,
    predicted: Prediction,
    sums: Sums,
    energy_spread: tuple[Floats, Floats] | None = None,
) -> list[dict[str, Any]]:
    """One record per clock: energies are sums over launches plus idle power in the gaps."""
    timing, weight = predicted.timing, sums.weight
    energy = weight @ predicted.energy_j
    parts = {name: weight @ predicted.parts_j[name] for name in PARTS if name in predicted.parts_j}
    idle_s = np.maximum(sums.makespan_s - sums.kernel_s, 0.0)
    gap = predicted.idle_w * idle_s
    gap_low = predicted.idle_w * np.maximum(sums.makespan_low_s - sums.kernel_s, 0.0)
    gap_high = predicted.idle_w * np.maximum(sums.makespan_high_s - sums.kernel_s, 0.0)
    below, above = energy_spread or family_spread(
        rows,
        weight,
        predicted.energy_j,
        ratio(predicted.energy_low_j, predicted.energy_j),
        ratio(predicted.energy_high_j, predicted.energy_j),
    )
    throttled = weight @ (timing.duration_s * predicted.throttled)
    peak = np.max(np.where(weight[:, None] > 0, predicted.power_w, 0.0), axis=0, initial=0.0)
    made = []
    for i, clock in enumerate(predicted.asked_mhz):
        total, span, busy = energy[i] + gap[i], sums.makespan_s[i], sums.kernel_s[i]
        made.append(
            {
                "clock_mhz": float(clock),
                "kernel_time_ms": float(busy * 1e3),
                "kernel_time_low_ms": float(sums.kernel_low_s[i] * 1e3),
                "kernel_time_high_ms": float(sums.kernel_high_s[i] * 1e3),
                "makespan_ms": float(span * 1e3),
                "makespan_low_ms": float(sums.makespan_low_s[i] * 1e3),
                "makespan_high_ms": float(sums.makespan_high_s[i] * 1e3),
                "gap_ms": float(idle_s[i] * 1e3),
                "energy_j": float(total),
                "energy_low_j": float(total - _hypot(below[i], gap[i] - gap_low[i], IDLE_ERROR * gap[i])),
                "energy_high_j": float(total + _hypot(above[i], gap_high[i] - gap[i], IDLE_ERROR * gap[i])),
                "kernel_energy_j": float(energy[i]),
                "gap_energy_j": float(gap[i]),
                "energy_parts_j": {**{k: float(v[i]) for k, v in parts.items()}, "gaps": float(gap[i])},
                "idle_power_w": float(predicted.idle_w[i]),
                "mean_power_w": float(total / span) if span > 0 else 0.0,
                "peak_power_w": float(peak[i]),
                "throttled_share": float(throttled[i] / busy) if busy > 0 else 0.0,
            }
        )
    return made


@dataclass(frozen=True)
class Spread:
    """Half-widths below and above a run's sums, each of shape (c,)."""

    time_s: tuple[Floats, Floats]
    energy_j: tuple[Floats, Floats]


def run_spread(weight: Floats, predicted: Prediction, run_sd: float, own_share: float = 1.0) -> Spread:
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

    Notes
    -----
    Each row's time errs its own way, :math:`h_i`, of which it keeps a share :math:`a`, and all together
    by :math:`z s`:

    .. math:: w_t^2 = a^2 \frac{\sum_i (t_i h_i)^2}{(\sum t_i)^2} + (z s)^2

    Coefficients of power were fitted at measured times: their error, :math:`c_i`, is one of power, the
    same board's for all rows. A run that takes longer does more than its rows say, or the same more slowly,
    which costs the base's share :math:`b` alone; either is as likely:

    .. math:: w_E^2 = \left(\frac{\sum E_i c_i}{\sum E_i}\right)^2 + \left(\frac{1 + b}{2} w_t\right)^2
    """
    timing, w = predicted.timing, weight[:, None]
    time, energy = w * timing.duration_s, w * predicted.energy_j
    base = w * predicted.parts_j["base"]
    costing = (1.0 + np.clip(ratio(base.sum(0), energy.sum(0)), 0.0, 1.0)) / 2.0
    times, energies = [], []
    for sign, bound, limit in (
        (-1.0, timing.low, predicted.energy_low_j),
        (1.0, timing.high, predicted.energy_high_j),
    ):
        own = np.abs(np.log(bound))[:, None]
        apart = own_share * ratio(np.sqrt(((time * own) ** 2).sum(0)), time.sum(0))
        wide = np.hypot(apart, Z90 * run_sd)
        # What is left of a row's interval of energy without its time: that of its coefficients.
        whole = np.abs(np.log(ratio(w * limit, energy)))
        each = np.sqrt(np.maximum(whole**2 - (own * ratio(base, energy)) ** 2, 0.0))
        power = ratio((energy * each).sum(0), energy.sum(0))
        times.append(sign * time.sum(0) * np.expm1(sign * wide))
        energies.append(sign * energy.sum(0) * np.expm1(sign * np.hypot(costing * wide, power)))
    return Spread((times[0], times[1]), (energies[0], energies[1]))


def family_spread(
    rows: OperatorColumns,
    weight: Floats,
    value: Floats,
    low: Floats,
    high: Floats,
    *,
    common: float = 1.0,
) -> tuple[Floats, Floats]:
    r"""Half-widths of a sum, each of shape (c,).

    Parameters
    ----------
    rows : OperatorColumns
        n distinct rows.
    weight : array, shape (n,)
        Launches of each. [1]
    value : array, shape (n, c)
        What is summed.
    low, high : array, shape (n, c) or (n, 1)
        Interval of each row, as factors.
    common : float
        Share of the variance that rows of a family have in common: 1 for energies (the same
        coefficients), less for times (each shape errs its own way). Families err apart. [1]

    Notes
    -----
    .. math:: s^2 = \sum_{families} \left( c\,(\sum_i w_i h_i)^2 + (1 - c) \sum_i (w_i h_i)^2 \right)
    """
    _, family = np.unique(rows.family.astype(str), return_inverse=True)
    sides = []
    for side in (1.0 - low, high - 1.0):
        half = weight[:, None] * value * side
        together = np.zeros((int(family.max(initial=0)) + 1, value.shape[1]))
        np.add.at(together, family, half)
        sides.append(np.sqrt(common * (together**2).sum(0) + (1.0 - common) * (half**2).sum(0)))
    return sides[0], sides[1]


def _time_spread(rows: OperatorColumns, weight: Floats, predicted: Prediction) -> tuple[Floats, Floats]:
    timing = predicted.timing
    low, high = timing.low[:, None], timing.high[:, None]
    return family_spread(rows, weight, timing.duration_s, low, high, common=TIME_COMMON)


def _hypot(*sides: float) -> float:
    return float(np.sqrt(np.sum(np.square(sides))))


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part over whole, 1 where the whole is nothing."""
    return np.divide(part, whole, out=np.ones_like(part), where=whole > 0)
