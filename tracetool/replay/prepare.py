"""Prepare a run for replay: read its timeline, find its dependencies, apply what-ifs."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.kernels.collective_matching import alike_collectives, meetings
from tracetool.replay.activities import KERNEL_COLUMNS, read_activities, without_pauses
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.governed_replay import governed_speed
from tracetool.replay.governor import Governor
from tracetool.replay.host import host_costs
from tracetool.replay.overlap import Rates
from tracetool.replay.prepared_replay import Launching, RunReplay
from tracetool.replay.timeline import Cap, overlapping, recorded_speed
from tracetool.replay.timeline_variants import launched_as_graphs, launched_one_by_one, without_host_time
from tracetool.tables.run import Run


def prepare(
    run: Run,
    rows: OperatorColumns,
    predicted: Prediction,
    *,
    launch: Launching = "recorded",
    drop: Sequence[str] = (),
    anchored: bool = True,
    cap_w: float = np.inf,
    recorded: Callable[[], tuple[Rates, float]] | None = None,
    governor: Governor | None = None,
) -> RunReplay:
    """Build the dependencies of a run and apply what-ifs to them.

    Parameters
    ----------
    run : Run
        The run.
    rows, predicted : OperatorColumns, Prediction
        Its signatures and what the model says of them.
    launch : {"recorded", "eager", "graph"}
        As recorded; graph nodes call by call; or all launches between two waits as one.
    drop : sequence of str
        Ranges to leave out with all they launched; ``*`` stands for any text.
    anchored : bool
        Whether the predicted times are scaled from the recorded ones, waits of collectives included;
        otherwise they are the model's, without any wait.
    cap_w : float
        Power limit that activities running at once keep together. [W]
    recorded : callable, optional
        Returns the power of each signature while it was recorded and the limit it was under; called
        where activities overlap.
    governor : Governor, optional
        What kept that limit; by default it was kept at every moment.

    Raises
    ------
    BadInput
        If the run holds no activity, or no range is called as one to drop.
    """
    kernels = run.table("kernels", KERNEL_COLUMNS)
    if not kernels.height:
        raise BadInput.in_file(run.path, "holds no GPU activity to replay", "ingest the trace again")
    work, calls = read_activities(kernels, run.table("host_calls"))
    work, pauses = without_pauses(work)
    met = meetings(work.start_ns, work.end_ns, work.device, alike_collectives(run))
    graph, _ = dependency_graph(work, calls, met=met)
    if launch == "graph":
        graph = launched_as_graphs(graph, calls, host_costs("graph"))
    elif launch == "eager":
        issue = host_costs("eager").issue_s(rows.family) * 1e9
        graph = launched_one_by_one(graph, work, calls, issue[work.signature])
    in_replay = np.ones(len(work), np.bool_)
    for pattern in drop:
        inside = _in_range(run, kernels, pattern)
        in_replay &= ~inside
        dropped_calls = np.zeros(len(calls), np.bool_)
        dropped_calls[work.call[inside & (work.call >= 0)]] = True
        graph = without_host_time(graph, calls, dropped_calls)
    launches = np.bincount(work.signature, minlength=len(rows))
    own_ns = work.duration_ns.copy()
    if not anchored:
        own_ns[met.member] = work.end_ns[met.member] - met.arrived_ns
    took = np.bincount(work.signature, weights=own_ns, minlength=len(rows)) * 1e-9
    mean = np.divide(took, launches, out=np.zeros_like(took), where=launches > 0)
    speed = None
    if recorded is not None and overlapping(work):
        rates, limit_w = recorded()
        speed = recorded_speed(work, rates, limit_w, met.member)
        if speed is not None and governor is not None:
            speed = governed_speed(work, rates, limit_w, speed, governor)
    cap = Cap(cap_w, speed)
    return RunReplay(run, work, calls, graph, rows, predicted, mean, in_replay, met, cap, pauses)


def _in_range(run: Run, kernels: pl.DataFrame, pattern: str) -> Bools:
    """Which activities were launched inside a range called like ``pattern``. Shape (n,)."""
    ranges = run.table("ranges")
    called = ranges.filter(
        pl.Series([bool(fnmatch.fnmatchcase(n, pattern)) for n in ranges["name"].to_list()], dtype=pl.Boolean)
    )
    if not called.height:
        range_names = ranges["name"].unique(maintain_order=True).head(5).to_list()
        hint = f"some of its ranges: {', '.join(range_names)}" if range_names else "it holds no ranges"
        raise BadInput.in_file(run.path, f"has no range called {pattern!r}", hint)
    inside = set(called["range"].to_list())
    # Whatever lies in a dropped range goes with it: level by level down.
    while True:
        more = ranges.filter(pl.col("parent").is_in(inside) & ~pl.col("range").is_in(inside))
        if not more.height:
            break
        inside |= set(more["range"].to_list())
    return kernels["range"].is_in(inside).fill_null(value=False).to_numpy()
