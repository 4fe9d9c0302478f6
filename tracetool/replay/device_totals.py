"""Totals of each GPU of a replayed run, and the peak of all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.replay.activities import Activities
from tracetool.replay.power import PowerCurve
from tracetool.replay.timeline import Replayed

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
    for device, curve in drawn.items():
        members = np.flatnonzero(work.device == device)
        start, end, is_copy = replayed.start_ns[members], replayed.end_ns[members], copies[members]
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
    edges = np.unique(np.concatenate([c.edge_ns[:-1] for c in curves.values()]))
    together = np.zeros(len(edges))
    for curve in curves.values():
        place = np.searchsorted(curve.edge_ns, edges, side="right") - 1
        together += curve.power_w[np.clip(place, 0, len(curve.power_w) - 1)]
    return float(together.max(initial=0.0))


def _covered_ns(start: Floats, end: Floats) -> float:
    """Return the time covered by at least one of the activities. [ns]"""
    order = np.argsort(start, kind="stable")
    first, last = start[order], np.maximum.accumulate(end[order])
    before = np.concatenate([[-np.inf], last[:-1]])
    return float(np.maximum(last - np.maximum(first, before), 0.0).sum())
