"""A recorded timeline at other durations: when everything runs, why the device waits, what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.replay.activities import Activities
from tracetool.replay.gaps import Gap, gap_reasons
from tracetool.replay.graph import Graph
from tracetool.replay.longest import solve
from tracetool.replay.overlap import Rates, share
from tracetool.replay.scratch import Scratch
from tracetool.vocabulary.arrays import Bools, Floats

#: Differences of sums below this share of the makespan are rounding. [1]
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Replayed:
    """The timeline at one clock."""

    makespan_ns: float  # first start to last end of any activity
    kernel_ns: float  # sum of all activities' times
    waiting_ns: float  # of it, what collectives waited for other devices
    moving_ns: float  # of it, what those collectives then took
    busy_ns: float  # time with at least one activity, summed over devices
    gap_ns: Floats  # (reasons,) idle time by reason (:class:`Gap`), summed over devices
    gap_count: Floats  # (reasons,)
    base_ns: Floats  # (s,) time each signature answers for the base power
    clock_ns: Floats  # (s,) time each signature's clock tree is paid for
    peak_w: float  # highest power of one device
    start_ns: Floats  # (n,) start of each activity
    end_ns: Floats  # (n,)
    each_base_ns: Floats  # (n,) base_ns of each activity, empty unless asked for
    each_clock_ns: Floats  # (n,)

    @property
    def idle_ns(self) -> float:
        """Idle time, summed over devices. [ns]"""
        return float(self.gap_ns.sum())


def replay(
    graph: Graph,
    work: Activities,
    duration_ns: Floats,
    rates: Rates,
    collective: Bools,
    *,
    each: bool = False,
    scratch: Scratch | None = None,
) -> Replayed:
    """Replay a timeline with other durations.

    Parameters
    ----------
    graph : Graph
        From :func:`tracetool.replay.dependencies.dependency_graph`.
    work : Activities
        The recorded activities.
    duration_ns : array, shape (n,)
        Their durations now. [ns]
    rates : Rates
        Power of each signature now.
    collective : array of bool, shape (n,)
        Which activities are collectives.
    each : bool
        Also return every activity's shares of base and clock power.
    scratch : Scratch, optional
        Memory of an earlier replay to overwrite, the starts and ends it returned included.
    """
    memory, n = scratch or Scratch(), len(work)
    node_ns = memory.take("node", len(graph))
    node_ns.fill(0.0)
    node_ns[graph.node] = duration_ns
    _split(graph, work, duration_ns, node_ns)
    time, binding, released = solve(graph, node_ns, memory)
    start, end = memory.take("start", n), memory.take("end", n)
    np.take(time, graph.node, out=start)
    np.add(start, duration_ns, out=end)
    moving = node_ns[graph.transfer]
    end[graph.met] = time[graph.transfer] + moving
    kernels = float(duration_ns.sum())
    waiting = float((end[graph.met] - start[graph.met]).sum() - moving.sum())
    kernels += waiting + float(moving.sum() - duration_ns[graph.met].sum())
    first, last = float(start.min(initial=np.inf)), float(end.max(initial=-np.inf))
    makespan = max(last - first, 0.0)
    s = len(rates.active)
    base_ns, clock_ns = np.zeros(s), np.zeros(s)
    gap_ns, gap_count = np.zeros(len(Gap)), np.zeros(len(Gap))
    each_base, each_clock = np.zeros((2, len(work) if each else 0))
    busy = peak = 0.0
    devices = np.unique(work.device)
    for device in devices:
        members = None if len(devices) == 1 else np.flatnonzero(work.device == device)
        made = share(start, end, work.signature, rates, members=members, each=each, scratch=memory)
        reason = gap_reasons(graph, binding, released, made.gap_next, made.gap_from_ns, collective)
        gap_ns += np.bincount(reason, weights=made.gap_ns, minlength=len(Gap))
        gap_count += np.bincount(reason, minlength=len(Gap))
        # Before this device's first activity and after its last one, others set the span.
        tail = makespan - made.busy_ns - float(made.gap_ns.sum())
        if tail > _ROUNDING * makespan:
            gap_ns[Gap.TAIL] += tail
            gap_count[Gap.TAIL] += 1
        base_ns += made.base_ns
        clock_ns += made.clock_ns
        busy += made.busy_ns
        peak = max(peak, made.peak_w)
        if each:
            each_base += made.each_base_ns
            each_clock += made.each_clock_ns
    return Replayed(
        makespan,
        kernels,
        waiting,
        float(moving.sum()),
        busy,
        gap_ns,
        gap_count,
        base_ns,
        clock_ns,
        peak,
        start,
        end,
        each_base,
        each_clock,
    )


def _split(graph: Graph, work: Activities, duration_ns: Floats, node_ns: Floats) -> None:
    """Give collectives that met others the time of their transfer alone, in place."""
    if len(graph.met):
        whole = work.duration_ns[graph.met]
        longer = np.divide(duration_ns[graph.met], whole, out=np.zeros(len(whole)), where=whole > 0)
        node_ns[graph.node[graph.met]] = 0.0
        node_ns[graph.transfer] = graph.duration_ns[graph.transfer] * longer
