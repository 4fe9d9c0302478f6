"""Time, energy and power of kernels, copies, gaps and the run: the one place where they are added up.

Every command takes its totals from here, so one word is one number; docs/numbers.md defines the words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts, per
from tracetool.core.operators import OperatorColumns, distinct_texts
from tracetool.core.prediction import Prediction
from tracetool.families.registry import families_where

#: Half-width of the 90 % interval of idle power: temperature and GPUs of one model differ. [1]
IDLE_ERROR: Final = 0.12
#: Share of the variance of times that shapes of one family have in common. [1]
TIME_COMMON: Final = 0.3
#: Parts of the energy of kernels and copies, in the order they are reported.
PARTS: Final = ("base", "clock", "compute", "onchip", "dram", "link")
#: Families whose activities are copies, not kernels.
COPIES: Final = tuple(families_where(lambda family: family.activity))


@dataclass(frozen=True)
class DeviceWork:
    """Time and energy of each row over all its launches, at c clocks.

    Parameters
    ----------
    rows : OperatorColumns
        n distinct rows.
    predicted : Prediction
        What the model says of one launch of each.
    time_s : array, shape (n, c)
        Sum of the durations of a row's launches. [s]
    energy_j : array, shape (n, c)
        Energy of those launches; where activities overlap, base power is shared among them. [J]
    """

    rows: OperatorColumns
    predicted: Prediction
    time_s: Floats
    energy_j: Floats

    @property
    def copies(self) -> Bools:
        """Which rows are copies. Shape (n,)."""
        return np.isin(self.rows.family.astype(str), COPIES)


@dataclass(frozen=True)
class Window:
    """Figures that are no sum over rows: the run from first start to last end. All of shape (c,)."""

    makespan_s: Floats
    makespan_low_s: Floats
    makespan_high_s: Floats
    busy_s: Floats  # time with at least one activity, summed over GPUs
    gap_s: Floats  # time without any, summed over GPUs
    gap_low_s: Floats
    gap_high_s: Floats
    peak_w: Floats  # highest power of one GPU at any moment


@dataclass(frozen=True)
class Spread:
    """Half-widths below and above sums over rows, each of shape (c,)."""

    time_s: tuple[Floats, Floats]
    energy_j: tuple[Floats, Floats]


def budget(
    work: DeviceWork,
    window: Window,
    *,
    anchored: bool,
    spread: Callable[[Bools], Spread] | None = None,
) -> list[dict[str, Any]]:
    r"""Return one record per clock: every scope's time, energy and power with 90 % intervals.

    Parameters
    ----------
    work : DeviceWork
        Kernels and copies.
    window : Window
        Makespan, gaps and peak.
    anchored : bool
        Whether times were scaled from measured ones.
    spread : callable, optional
        Returns the half-widths of the sums over the chosen rows; by default :func:`work_spread`.

    Notes
    -----
    With :math:`P_{idle}` the power with nothing running,

    .. math:: E_{run} = E_{kernels} + E_{copies} + E_{gaps}, \quad E_{gaps} = P_{idle}\, t_{gaps}

    Kernels and copies share coefficients and are combined as one; gaps err independently of them.
    """
    of = spread or (lambda which: work_spread(work, which))
    copies = work.copies
    columns: dict[str, Any] = {
        "clock_mhz": work.predicted.requested_mhz,
        "anchored": np.full(len(work.predicted.requested_mhz), anchored),
        **_work_columns("kernel_", work, ~copies, of(~copies)),
        **_work_columns("copy_", work, copies, of(copies)),
        **_gap_columns(work.predicted.idle_w, window),
        "busy_ms": window.busy_s * 1e3,
        "makespan_ms": window.makespan_s * 1e3,
        "makespan_low_ms": window.makespan_low_s * 1e3,
        "makespan_high_ms": window.makespan_high_s * 1e3,
    }
    columns |= _run_columns(columns, work, window, of(np.ones(len(work.rows), np.bool_)))
    throttled = (work.time_s * work.predicted.throttled_share)[~copies].sum(0)
    columns["throttled_share"] = per(throttled, columns["kernel_time_ms"] * 1e-3)
    return [
        {name: values[j].item() for name, values in columns.items()}
        for j in range(len(work.predicted.requested_mhz))
    ]


def _work_columns(stem: str, work: DeviceWork, which: Bools, spread: Spread) -> dict[str, Floats]:
    """Return time, energy and mean power of kernels or of copies."""
    time, energy = work.time_s[which].sum(0), work.energy_j[which].sum(0)
    below, above = power_spread(work, which)
    return {
        **_bounded(f"{stem}time{{}}_ms", time * 1e3, *(side * 1e3 for side in spread.time_s)),
        **_bounded(f"{stem}energy{{}}_j", energy, *spread.energy_j),
        **_bounded(f"{stem}power{{}}_w", per(energy, time), per(below, time), per(above, time)),
    }


def _gap_columns(idle_w: Floats, window: Window) -> dict[str, Floats]:
    shorter, longer = window.gap_s - window.gap_low_s, window.gap_high_s - window.gap_s
    energy, wrong = idle_w * window.gap_s, IDLE_ERROR * idle_w
    sides = [np.hypot(idle_w * side, wrong * window.gap_s) for side in (shorter, longer)]
    return {
        **_bounded("gap{}_ms", window.gap_s * 1e3, shorter * 1e3, longer * 1e3),
        **_bounded("gap_energy{}_j", energy, *sides),
        **_bounded("idle_power{}_w", idle_w, wrong, wrong),
    }


def _run_columns(
    scopes: dict[str, Floats], work: DeviceWork, window: Window, spread: Spread
) -> dict[str, Floats]:
    """Return energy, mean and peak power of the whole run."""
    gap = scopes["gap_energy_j"]
    energy = scopes["kernel_energy_j"] + scopes["copy_energy_j"] + gap
    gap_sides = (gap - scopes["gap_energy_low_j"], scopes["gap_energy_high_j"] - gap)
    sides = [np.hypot(side, gap_side) for side, gap_side in zip(spread.energy_j, gap_sides, strict=True)]
    idle = IDLE_ERROR * gap
    power = [np.hypot(side, idle) for side in power_spread(work, np.ones(len(work.rows), np.bool_))]
    span = window.makespan_s
    runs = np.where(work.time_s > 0, work.predicted.power_w, 0.0)
    top = np.argmax(runs, axis=0)[None] if len(work.rows) else np.zeros((1, 0), int)
    low, high = (
        np.take_along_axis(ratio(end, work.predicted.power_w), top, 0)[0] if len(work.rows) else 1.0
        for end in (work.predicted.power_low_w, work.predicted.power_high_w)
    )
    peak = window.peak_w
    return {
        **_bounded("energy{}_j", energy, *sides),
        **_bounded("mean_power{}_w", per(energy, span), *(per(side, span) for side in power)),
        **_bounded("peak_power{}_w", peak, peak * (1.0 - low), peak * (high - 1.0)),
    }


def _bounded(name: str, value: Floats, below: Floats, above: Floats) -> dict[str, Floats]:
    return {
        name.format(""): value,
        name.format("_low"): np.maximum(value - below, 0.0),
        name.format("_high"): value + above,
    }


def work_spread(work: DeviceWork, which: Bools) -> Spread:
    """Return the half-widths of the time and energy of the chosen rows, family by family.

    Where no clock was recorded, all rows ran at one unknown clock: that error adds up over all families.
    """
    family, timing = work.rows.family[which], work.predicted.timing
    time, energy = work.time_s[which], work.energy_j[which]
    low, high = timing.low[which], timing.high[which]
    clock_below = np.zeros(time.shape[1])
    if timing.clock_low is not None:
        clock_low = timing.clock_low[which, None]
        clock_below = (time * (1.0 - clock_low)).sum(0)
        low = np.exp(-np.sqrt(np.maximum(np.log(low) ** 2 - np.log(clock_low) ** 2, 0.0)))
    below, above = family_spread(family, time, low, high, common=TIME_COMMON)
    each = work.predicted.energy_j[which]
    ends = (
        ratio(work.predicted.energy_low_j[which], each),
        ratio(work.predicted.energy_high_j[which], each),
    )
    return Spread((np.hypot(below, clock_below), above), family_spread(family, energy, *ends))


def power_spread(work: DeviceWork, which: Bools) -> tuple[Floats, Floats]:
    """Return the half-widths of the energy of the chosen rows had their times been right. (c,) [J]"""
    family, power = work.rows.family[which], work.predicted.power_w[which]
    low, high = work.predicted.power_low_w[which], work.predicted.power_high_w[which]
    return family_spread(family, work.energy_j[which], ratio(low, power), ratio(high, power))


def family_spread(
    family: Texts, value: Floats, low: Floats, high: Floats, *, common: float = 1.0
) -> tuple[Floats, Floats]:
    r"""Half-widths of a sum over rows, each of shape (c,).

    Parameters
    ----------
    family : array of str, shape (n,)
        Family of each row.
    value : array, shape (n, c)
        What is summed, over all launches of a row.
    low, high : array, shape (n, c) or (n, 1)
        Interval of each row, as factors.
    common : float
        Share of the variance that rows of a family have in common: 1 for energies (the same
        coefficients), less for times (each shape errs its own way). Families err apart. [1]

    Notes
    -----
    .. math:: s^2 = \sum_{families} \left( c\,(\sum_i h_i)^2 + (1 - c) \sum_i h_i^2 \right)
    """
    _, number = distinct_texts(family)
    sides = []
    for side in (1.0 - low, high - 1.0):
        half = value * side
        together = np.zeros((int(number.max(initial=0)) + 1, value.shape[1]))
        np.add.at(together, number, half)
        sides.append(np.sqrt(common * (together**2).sum(0) + (1.0 - common) * (half**2).sum(0)))
    return sides[0], sides[1]


def energy_parts(parts_j: Sequence[dict[str, float]], records: list[dict[str, Any]]) -> None:
    """Add the parts of its energy to each record: those of kernels and copies, and gaps. [J]"""
    for clock_parts_j, record in zip(parts_j, records, strict=True):
        record["energy_parts_j"] = {**clock_parts_j, "gaps": record["gap_energy_j"]}


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return part over whole, 1 where the whole is zero."""
    return np.divide(numerator, denominator, out=np.ones_like(numerator), where=denominator > 0)
