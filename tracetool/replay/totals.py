"""Totals of a replayed timeline: time and energy of each signature, gaps by reason, per clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Numbers
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.replay.activities import Activities
from tracetool.replay.gap_causes import NAMES
from tracetool.replay.overlap import Rates
from tracetool.replay.power import PowerCurve
from tracetool.replay.scope_totals import PARTS, DeviceWork, Window, budget, energy_parts, ratio, work_spread
from tracetool.replay.timeline import Replayed

#: Parts that are counts of operations and bytes times an energy each: they do not depend on the time.
COUNTED = ("compute", "onchip", "dram", "link")


@dataclass(frozen=True)
class ClockTotals:
    """One clock of a replay, summed over the launches of each signature."""

    time_s: Floats  # (s,) sum of durations
    energy_j: Floats  # (s,) base power shared among those that ran at once
    parts_j: dict[str, float]
    makespan_s: float
    busy_s: float
    gap_s: Floats  # (reasons,)
    gap_count: Floats  # (reasons,)
    waiting_s: float
    moving_s: float
    slowed_s: float
    peak_w: float
    devices: Sequence[dict[str, Any]] = ()  # of each GPU, where there are several


@dataclass(frozen=True)
class RunTotals:
    """A run at c clocks: time and energy of its signatures, and one record per clock."""

    time_s: Floats  # (s, c)
    energy_j: Floats  # (s, c)
    records: list[dict[str, Any]]


def _part_j(predicted: Prediction, name: str, j: int) -> Floats:
    """Energy of one part per launch, scaled so that the parts add up to the launch's energy. (s,) [J]"""
    parts_sum = sum(predicted.parts_j[p][:, j] for p in PARTS)
    return np.asarray(predicted.parts_j[name][:, j] * ratio(predicted.energy_j[:, j], np.asarray(parts_sum)))


def rates_at(predicted: Prediction, j: int) -> Rates:
    """Return the power of each signature while it runs, at clock j."""
    duration = predicted.timing.duration_s[:, j]
    counts = np.sum([_part_j(predicted, p, j) for p in COUNTED], axis=0)

    def watts(name: str) -> Floats:
        energy = _part_j(predicted, name, j)
        return np.divide(energy, duration, out=np.zeros_like(duration), where=duration > 0)

    drawn = np.divide(counts, duration, out=np.zeros_like(duration), where=duration > 0)
    return Rates(predicted.timing.sm_active[:, j], watts("base"), watts("clock"), counts, drawn)


def clock_totals(
    predicted: Prediction, counted: Floats, signature: Numbers, replayed: Replayed, j: int
) -> ClockTotals:
    """Return the totals of clock j.

    Parameters
    ----------
    predicted : Prediction
        What the model says of one launch of each signature.
    counted : array, shape (s,)
        Launches of each signature, less what a cap on those that ran at once took off their power.
    signature : array of int, shape (n,)
        Signature of each activity.
    replayed : Replayed
        The timeline at that clock.
    """
    rates = rates_at(predicted, j)
    base, clock = (
        power * time * 1e-9
        for power, time in ((rates.base_w, replayed.base_ns), (rates.clock_w, replayed.clock_ns))
    )
    parts = {
        "base": float(base.sum()),
        "clock": float(clock.sum()),
        **{p: float(counted @ _part_j(predicted, p, j)) for p in COUNTED},
    }
    time = np.bincount(signature, weights=replayed.end_ns - replayed.start_ns, minlength=len(counted))
    idle_w = float(predicted.idle_w[j])
    return ClockTotals(
        time_s=np.asarray(time * 1e-9),
        energy_j=base + clock + counted * rates.counts_j,
        parts_j=parts,
        makespan_s=replayed.makespan_ns * 1e-9,
        busy_s=replayed.busy_ns * 1e-9,
        gap_s=replayed.gap_ns * 1e-9,
        gap_count=replayed.gap_count,
        waiting_s=replayed.waiting_ns * 1e-9,
        moving_s=replayed.moving_ns * 1e-9,
        slowed_s=replayed.slowed_ns * 1e-9,
        peak_w=max(replayed.peak_w, idle_w if replayed.idle_ns > 0 else 0.0),
    )


def run_totals(
    rows: OperatorColumns,
    predicted: Prediction,
    clocks: Sequence[ClockTotals],
    *,
    devices: int,
    anchored: bool,
) -> RunTotals:
    """Return a run's totals from those of each clock; ``devices``: how many GPUs it ran on."""
    work = DeviceWork(
        rows,
        predicted,
        np.stack([c.time_s for c in clocks], axis=1),
        np.stack([c.energy_j for c in clocks], axis=1),
    )
    records = budget(work, _window(work, clocks, devices), anchored=anchored)
    energy_parts([c.parts_j for c in clocks], records)
    records_of_run = [
        {**record, **_replay_fields(clock, record["idle_power_w"])}
        for clock, record in zip(clocks, records, strict=True)
    ]
    return RunTotals(work.time_s, work.energy_j, records_of_run)


def _window(work: DeviceWork, clocks: Sequence[ClockTotals], devices: int) -> Window:
    """Return the window of a replay.

    Errors of kernels reach the makespan as far as kernels, not the host, set it; the rest widens or
    narrows the gaps.
    """

    def column(name: str) -> Floats:
        return np.array([float(np.sum(getattr(c, name))) for c in clocks])

    span, busy, gap = column("makespan_s"), column("busy_s"), column("gap_s")
    below, above = work_spread(work, np.ones(len(work.rows), np.bool_)).time_s
    reach = np.minimum(1.0, np.divide(busy, devices * span, out=np.zeros_like(span), where=span > 0))
    return Window(
        span,
        np.maximum(span - below * reach, 0.0),
        span + above * reach,
        busy,
        gap,
        np.maximum(gap - above * (1.0 - reach), 0.0),
        gap + np.where(gap > 0, below * (1.0 - reach), 0.0),
        column("peak_w"),
    )


def _replay_fields(clock: ClockTotals, idle_w: float) -> dict[str, Any]:
    """Return the fields only a timeline has: gaps by reason, waits, kernels slowed together."""
    return {
        "collective_wait_ms": clock.waiting_s * 1e3,
        "collective_transfer_ms": clock.moving_s * 1e3,
        "slowed_together_ms": clock.slowed_s * 1e3,
        "gaps_ms": {name: float(clock.gap_s[i]) * 1e3 for i, name in enumerate(NAMES)},
        "gaps_j": {name: idle_w * float(clock.gap_s[i]) for i, name in enumerate(NAMES)},
        "gap_counts": {name: int(clock.gap_count[i]) for i, name in enumerate(NAMES)},
    }


#: Sums of powers this close may be one, rounded differently. [1] By definition without effect on results.
_ROUNDING: Final = 1e-6
_FIGURES: Final = ("kernel_time_ms", "copy_time_ms", "busy_ms", "energy_j", "mean_power_w", "peak_power_w")


def only_device(device: int, total: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a run's only GPU: its figures are the run's."""
    return {"device": device, **{figure: total[figure] for figure in _FIGURES}}


def device_totals(
    work: Activities,
    replayed: Replayed,
    copies: Bools,
    drawn: Mapping[int, PowerCurve],
    capped: Mapping[int, PowerCurve],
) -> list[dict[str, Any]]:
    """Return one record per GPU, all over the makespan of the run.

    Parameters
    ----------
    work, replayed : Activities, Replayed
        The timeline.
    copies : array of bool, shape (n,)
        Which activities are copies, not kernels.
    drawn : mapping of int to PowerCurve
        Power of each device, whose integral is its energy.
    capped : mapping of int to PowerCurve
        Its power at full counts, whose highest moment is its peak: never above the power limit.

    Returns
    -------
    list of dict
        ``device``, ``kernel_time_ms``, ``copy_time_ms``, ``busy_ms``, ``energy_j``, ``mean_power_w`` and
        ``peak_power_w``; times, energies and means add up to the run's.
    """
    span_s = replayed.makespan_ns * 1e-9
    records = []
    for device, members in work.by_device:
        curve, chosen = drawn[device], slice(None) if members is None else members
        start, end, is_copy = replayed.start_ns[chosen], replayed.end_ns[chosen], copies[chosen]
        records.append(
            {
                "device": device,
                "kernel_time_ms": float((end - start)[~is_copy].sum()) * 1e-6,
                "copy_time_ms": float((end - start)[is_copy].sum()) * 1e-6,
                "busy_ms": _covered_ns(start, end) * 1e-6,
                "energy_j": curve.energy_j,
                "mean_power_w": curve.energy_j / span_s if span_s > 0 else 0.0,
                "peak_power_w": float(capped[device].power_w.max(initial=0.0)),
            }
        )
    return records


def peak_together_w(curves: Mapping[int, PowerCurve]) -> float:
    """Return the highest power that devices draw together at any moment. [W]

    Examples
    --------
    >>> edge = np.array([0.0, 10.0, 20.0])
    >>> one, other = PowerCurve(edge, np.array([300.0, 100.0])), PowerCurve(edge, np.array([90.0, 250.0]))
    >>> peak_together_w({0: one, 1: other})
    390.0
    """
    edges = _highest_edges(list(curves.values()))
    together = np.zeros(len(edges))
    for curve in curves.values():
        place = np.searchsorted(curve.edge_ns, edges, side="right") - 1
        together += curve.power_w[np.clip(place, 0, len(curve.power_w) - 1)]
    return float(together.max(initial=0.0))


def _highest_edges(curves: Sequence[PowerCurve]) -> Floats:
    """Return the edges at which the sum of the curves may be highest. [ns]"""
    edge_ns = np.concatenate([c.edge_ns[:-1] for c in curves])
    order = np.argsort(edge_ns, kind="stable")
    last = np.append(np.diff(edge_ns[order]) > 0, True)  # powers of no time are none
    later = np.concatenate([np.diff(c.power_w, prepend=c.power_w[:1]) for c in curves])
    first_w = sum(float(c.power_w[0]) for c in curves)
    together = first_w + np.cumsum(later[order])[last]
    most = together.max(initial=0.0)
    return np.asarray(edge_ns[order[last]][together >= most * (1.0 - _ROUNDING)])


def _covered_ns(start: Floats, end: Floats) -> float:
    """Return the time covered by at least one of the activities. [ns]"""
    order = np.argsort(start, kind="stable")
    first, last = start[order], np.maximum.accumulate(end[order])
    before = np.concatenate([[-np.inf], last[:-1]])
    return float(np.maximum(last - np.maximum(first, before), 0.0).sum())
