"""A run's timeline ready to be replayed: its dependencies, what-ifs applied, and the model's prediction."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.families import names
from tracetool.replay.activities import (
    KERNEL_COLUMNS,
    Activities,
    HostCalls,
    Pauses,
    read_activities,
    without_pauses,
)
from tracetool.replay.budget import COPIES
from tracetool.replay.dependencies import Meetings, dependency_graph, meetings
from tracetool.replay.graph import Graph
from tracetool.replay.host import host_costs
from tracetool.replay.overlap import Rates
from tracetool.replay.power import PowerCurve, count_weights, power_curve
from tracetool.replay.scratch import Memory, at_each
from tracetool.replay.timeline import Cap, Replayed, at_full_speed, overlapping, recorded_speed, replay
from tracetool.replay.totals import (
    ClockTotals,
    RunTotals,
    clock_totals,
    device_totals,
    only_device,
    peak_together_w,
    rates_at,
    run_totals,
)
from tracetool.replay.tree import Costs
from tracetool.replay.whatif import launched_as_graphs, launched_one_by_one, without_host_time
from tracetool.tables.run import Run

Launching = Literal["recorded", "eager", "graph"]


@dataclass(frozen=True)
class RunReplay:
    """Everything one run's replays share."""

    run: Run
    work: Activities
    calls: HostCalls
    graph: Graph
    rows: OperatorColumns
    predicted: Prediction
    longer_than_s: Floats  # (s,) recorded time of each signature that the predicted one stands for, mean
    in_replay: Bools  # (n,) activities that were not dropped
    met: Meetings  # collectives that waited for one another across devices
    cap: Cap  # the power limit that activities running at once keep together
    pauses: Pauses  # silences left out of the timeline
    memory: Memory = field(default_factory=Memory, repr=False)

    @property
    def launches(self) -> Floats:
        """Launches of each signature that still run. Shape (s,)."""
        count = np.bincount(self.work.signature[self.in_replay], minlength=len(self.rows))
        return count.astype(np.float64)

    @property
    def collective(self) -> Bools:
        """Which activities are collectives. Shape (n,)."""
        return np.asarray((self.rows.family == names.COLLECTIVE)[self.work.signature])

    @property
    def _counted(self) -> Floats:
        """Share of its energy by counts that each activity draws: less where a cap lowered it. (n,)"""
        full = np.ones(len(self.work)) if self.cap.speed is None else self.cap.speed
        return np.where(self.in_replay, full, 0.0)

    def at(self, j: int, *, each: bool = False, memory: Memory | None = None) -> Replayed:
        """Replay at clock j; ``each`` keeps every activity's shares of the base and clock power.

        Without ``each`` the next call overwrites the starts and ends that this one returned.
        """
        predicted = self.predicted.timing.duration_s[:, j]
        mean = self.longer_than_s
        longer = np.divide(predicted, mean, out=np.ones_like(mean), where=mean > 0)
        duration = self.work.duration_ns * longer[self.work.signature]
        duration[~self.in_replay] = 0.0
        return replay(
            self.graph,
            self.work,
            duration,
            rates_at(self.predicted, j),
            self.collective,
            cap=self.cap,
            each=each,
            memory=None if each else memory or self.memory,
        )

    def totals(self, *, anchored: bool) -> RunTotals:
        """Return what the run takes and costs at every clock; ``anchored`` is what the records say."""
        clocks = at_each(len(self.predicted.requested_mhz), self._totals, self.memory, len(self.work))
        totals = run_totals(self.rows, self.predicted, clocks, devices=self.work.devices, anchored=anchored)
        for record, clock in zip(totals.records, clocks, strict=True):
            record["devices"] = clock.devices or [only_device(int(self.work.device[0]), record)]
        return totals

    def _totals(self, j: int, memory: Memory) -> ClockTotals:
        counted = np.bincount(self.work.signature, weights=self._counted, minlength=len(self.rows))
        replayed = self.at(j, memory=memory)
        totals = clock_totals(self.predicted, counted.astype(np.float64), self.work.signature, replayed, j)
        if self.work.devices == 1:
            return totals
        capped = self._curves(replayed, j)
        copies = np.isin(self.rows.family.astype(str), COPIES)[self.work.signature]
        devices = device_totals(self.work, replayed, copies, self._curves(replayed, j, weighted=True), capped)
        # the peak is that of all GPUs, as the mean beside it
        return replace(totals, peak_w=peak_together_w(capped), devices=devices)

    def curves(self, j: int) -> dict[int, PowerCurve]:
        """Return the power of each device over time at clock j, within the span of the timeline."""
        return self._curves(self.at(j, each=True), j, weighted=True)

    def recorded_curves(self, j: int) -> dict[int, PowerCurve]:
        """Return the power of each device over the recorded times, from the run's first start, at clock j."""
        rows = self.run.table("kernels", ["start_ns", "duration_ns"])
        start = (rows["start_ns"] - rows["start_ns"].min()).cast(pl.Float64).to_numpy()
        return self._drawn(start, start + rows["duration_ns"].cast(pl.Float64).to_numpy(), j, None)

    def _curves(self, replayed: Replayed, j: int, *, weighted: bool = False) -> dict[int, PowerCurve]:
        """Return each device's power over a replayed timeline; ``weighted``: its integral is the energy."""
        weight = None
        if weighted:
            rates = rates_at(self.predicted, j)
            done = at_full_speed(self.work, replayed, rates, self.cap.limit_w)
            weight = count_weights(done, self._counted, self.work.signature, rates)
        return self._drawn(replayed.start_ns, replayed.end_ns, j, weight)

    def _drawn(
        self, start_ns: Floats, end_ns: Floats, j: int, weight: Floats | None
    ) -> dict[int, PowerCurve]:
        span = float(start_ns.min(initial=np.inf)), float(end_ns.max(initial=-np.inf))
        return {
            int(device): power_curve(
                start_ns,
                end_ns,
                self.work.signature,
                rates_at(self.predicted, j),
                idle_w=float(self.predicted.idle_w[j]),
                span_ns=span,
                members=np.flatnonzero(self.work.device == device),
                cap_w=self.cap.limit_w,
                weight=weight,
            )
            for device in np.unique(self.work.device)
        }

    def costs(self, j: int) -> Costs:
        """Return when every activity runs at clock j and the energy it answers for."""
        replayed = self.at(j, each=True)
        rates, s = rates_at(self.predicted, j), self.work.signature
        shares = rates.base_w[s] * replayed.each_base_ns + rates.clock_w[s] * replayed.each_clock_ns
        energy = shares * 1e-9 + self._counted * rates.counts_j[s]
        return Costs(replayed.start_ns, replayed.end_ns, energy)


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
    met = meetings(work, _alike(run, rows)[work.signature])
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
    own = work.duration_ns.copy()
    if not anchored:
        own[met.member] = work.end_ns[met.member] - met.arrived_ns
    took = np.bincount(work.signature, weights=own, minlength=len(rows)) * 1e-9
    mean = np.divide(took, launches, out=np.zeros_like(took), where=launches > 0)
    speed = None
    if recorded is not None and overlapping(work):
        speed = recorded_speed(work, *recorded(), met.member)
    cap = Cap(cap_w, speed)
    return RunReplay(run, work, calls, graph, rows, predicted, mean, in_replay, met, cap, pauses)


def _alike(run: Run, rows: OperatorColumns) -> Ints:
    """Number the collectives that may be one across devices: same operation, same size; else -1. (s,)"""
    signatures = run.signatures.sort("signature")
    number = signatures.select(
        pl.struct("name", "bytes", "input_dims", "input_list_dims", "input_types").rank("dense")
    )
    group_number = number.to_series().cast(pl.Int64).to_numpy()
    return np.where(rows.family == names.COLLECTIVE, group_number, -1)


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
