"""The host of a recorded run: idle time between steps, and how fast it issues launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.replay.host import host_costs
from tracetool.replay.iterations import numbered_steps
from tracetool.tables.run import Run

#: A launch that follows this many usual distances after the one before waited for something else. [1]
_WAITED: Final = 10.0
#: Launches enough for a rate, and steps enough for an interval.
_LEAST_LAUNCHES: Final = 50
_LEAST_STEPS: Final = 3
#: Ends of what holds 90 % of the steps.
_ENDS: Final = (0.05, 0.95)


@dataclass(frozen=True)
class RecordedHost:
    """The host of a run.

    Parameters
    ----------
    idle_s : float or None
        Time of a step while nothing runs on the GPU, from one step's first activity to the next one's: the
        median; None where nothing repeats. [s]
    low_s, high_s : float
        What holds 90 % of the steps. [s]
    steps : int
        Steps it rests on.
    activities : float
        Kernels and copies of a step: few where layers repeat, not steps. [1]
    issue : float or None
        Time the host takes to issue a launch, over that of the usual host; None where launches are too few
        or replayed as graphs. [1]
    """

    idle_s: float | None
    low_s: float
    high_s: float
    steps: int
    activities: float
    issue: float | None


def recorded_host(run: Run) -> RecordedHost:
    """Return the host's costs as recorded in a run.

    Raises
    ------
    BadInput
        If it holds neither repeated steps nor launches one by one.
    """
    columns = ("start_ns", "duration_ns", "device", "launch_ns", "signature", "graph_node")
    kernels = run.table("kernels", columns)
    busiest = kernels["device"].value_counts(sort=True)["device"]
    kernels = kernels.filter(pl.col("device").eq_missing(busiest[0] if len(busiest) else None))
    idle, activities = _idle_s(run, kernels)
    issue = _issue(run, kernels)
    if not idle.size and issue is None:
        raise BadInput.in_file(
            run.path, "holds nothing of its host: no repeated steps, no launches", "give --host-us"
        )
    if not idle.size:
        return RecordedHost(None, 0.0, 0.0, 0, 0.0, issue)
    low, middle, high = np.quantile(idle, (_ENDS[0], 0.5, _ENDS[1]))
    return RecordedHost(float(middle), float(low), float(high), int(idle.size), activities, issue)


def _idle_s(run: Run, kernels: pl.DataFrame) -> tuple[Floats, float]:
    """Return idle times of steps, each to the next one's first activity, and the activities of one."""
    number, _ = numbered_steps(run.table("ranges"), run.table("operators"), kernels)
    if number is None:
        return np.zeros(0), 0.0
    start = kernels["start_ns"].to_numpy()
    begins = _begins(number, start)
    if len(begins) < _LEAST_STEPS:
        return np.zeros(0), 0.0
    order = np.argsort(start, kind="stable")
    first = start[order]
    last = np.maximum.accumulate(first + kernels["duration_ns"].to_numpy()[order])
    gap = np.maximum(first[1:] - last[:-1], 0)
    step = np.searchsorted(begins, first[1:], side="right") - 1  # a gap is the step's before its end
    at_edge = np.isin(first[1:], begins)
    step = np.where(at_edge, step - 1, step)
    inside = (step >= 0) & (step < len(begins) - 1)
    idle = np.bincount(step[inside], gap[inside], len(begins) - 1) * 1e-9
    return np.asarray(idle, np.float64), float(np.median(np.bincount(number[number >= 0])))


def _begins(number: Ints, start_ns: Ints) -> Ints:
    """Return when each step's first activity starts, in order. [ns]"""
    inside = number >= 0
    first = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, number[inside], start_ns[inside])
    return np.sort(first[first < np.iinfo(np.int64).max])


def _issue(run: Run, kernels: pl.DataFrame) -> float | None:
    """Return the mean time between launches relative to that of the usual host. [1]"""
    alone = kernels.filter(pl.col("launch_ns").is_not_null() & pl.col("graph_node").is_null()).sort(
        "launch_ns"
    )
    if alone.height <= _LEAST_LAUNCHES:
        return None
    apart = np.diff(alone["launch_ns"].to_numpy()) * 1e-9
    near = (apart > 0) & (apart <= _WAITED * np.median(apart))
    families = alone.select("signature").join(
        run.signatures.select("signature", "family"), on="signature", how="left", maintain_order="left"
    )["family"]
    usual = host_costs("eager").issue_s(families.fill_null("").to_numpy()[1:].astype(object))
    return float(apart[near].sum() / max(usual[near].sum(), 1e-12)) if near.any() else None
