"""Waits of the host: for the call before, the device, another thread; and the least time of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.dense_ids import grouped
from tracetool.replay.graph import Edge, Edges, Graph, LongLaunches

#: Clock skew between host and device records that is still read as "at the same time". [ns]
SKEW_NS: Final = 1_000.0
#: How soon after the device finishes a waiting call returns, or a dependent kernel starts. [ns]
PROMPT_NS: Final = 15_000.0
#: Share of a recording's times that may be below a floor. [1]
_FEW: Final = 0.05
#: The least time from the end of device work to the return of the call that waited. [ns]
_RETURN_NS: Final = 2_000.0


@dataclass(frozen=True)
class Floors:
    """The least time of each kind of edge: low quantiles of the recording. [ns]"""

    queue_ns: float  # end of a kernel to the next on its queue
    launch_ns: float  # call to kernel on an idle queue
    return_ns: float  # end of device work to the return of the call that waited
    call_ns: float  # a waiting call when nothing is left to wait for
    usual_launch_ns: float  # call to kernel on an idle queue, no floor but the median


def least_times(work: Activities, calls: HostCalls, end: Floats, previous: Ints) -> Floors:
    """Return the floors of a recording; ``previous`` is what ran before each activity on its queue."""
    has = previous >= 0
    gap = work.start_ns[has] - end[previous[has]]
    launched = work.call >= 0
    latency = work.start_ns[launched] - calls.start_ns[work.call[launched]] if launched.any() else np.zeros(0)
    launch_ns = _low(latency[latency >= 0], 1_000.0, 10_000.0)
    short = calls.duration_ns[calls.waits]
    return Floors(
        queue_ns=_low(gap[gap >= 0], 0.0, 2_000.0),
        launch_ns=launch_ns,
        return_ns=_RETURN_NS,
        call_ns=_low(short, 1_000.0, 10_000.0),
        usual_launch_ns=_usual_launch_ns(work, calls, end, previous, launch_ns),
    )


def _usual_launch_ns(
    work: Activities, calls: HostCalls, end: Floats, previous: Ints, least_ns: float
) -> float:
    """Return the median time from a call to its activity where the queue was idle. [ns]

    Of an even number the lower one counts: among few launches a single late one is not usual.
    """
    launched = np.flatnonzero(work.call >= 0)
    called_ns, before = calls.start_ns[work.call[launched]], previous[launched]
    free_ns = np.where(before >= 0, end[np.maximum(before, 0)], -np.inf)
    latency_ns = (work.start_ns[launched] - called_ns)[free_ns <= called_ns]
    latency_ns = latency_ns[latency_ns >= 0]
    if not len(latency_ns):
        return least_ns
    return float(np.clip(np.quantile(latency_ns, 0.5, method="lower"), least_ns, _LONG_WAIT_NS))


def _low(values: Floats, least: float, most: float) -> float:
    """Return what few of the values are below, within bounds; the least where there are none."""
    return float(np.clip(np.quantile(values, _FEW), least, most)) if len(values) else least


#: A call this long that returns as the device finishes something was waiting for it. [ns]
_LONG_WAIT_NS: Final = 50_000.0
#: A host thread silent this long while another of its process works may have waited for it. [ns]
_HANDED_OVER_NS: Final = 100_000.0


@dataclass(frozen=True)
class Points:
    """Host points: the start of every call that matters, and the end of those that may wait."""

    start: Ints  # (m,) node of each call's start
    end: Ints  # (m,) node of its end; its start where it cannot wait
    time_ns: Floats  # (p,) times of all points, in node order after the activities
    waited_for: Ints  # (m,) activity that let the call return, -1 where none


def host_points(work: Activities, calls: HostCalls, end: Floats, n: int) -> Points:
    """Return the points of host time, numbered after the ``n`` activities."""
    m = len(calls)
    call_end = calls.start_ns + calls.duration_ns
    waited = np.full(m, -1, np.int64)
    launched = np.flatnonzero(work.call >= 0)
    if len(launched):
        # A copy that returns only after its own work has ended waits for it; a launch call may outlast
        # a short kernel without waiting.
        by_end = launched[np.argsort(end[launched], kind="stable")]
        last = np.full(m, -1, np.int64)
        last[work.call[by_end]] = by_end
        owns = (last >= 0) & calls.copies
        waited[owns] = np.where(call_end[owns] >= end[last[owns]] - SKEW_NS, last[owns], -1)
    asks = (calls.waits | (calls.duration_ns >= _LONG_WAIT_NS)) & (waited < 0)
    for process in np.unique(calls.process[asks]):
        waiting = np.flatnonzero(asks & (calls.process == process))
        process_work = launched[calls.process[work.call[launched]] == process] if len(launched) else launched
        pool = process_work if len(process_work) else np.arange(n)
        if not len(pool):
            continue
        pool = pool[np.argsort(end[pool], kind="stable")]
        at = np.searchsorted(end[pool], call_end[waiting] + SKEW_NS, side="right") - 1
        work_before = np.where(at >= 0, pool[np.maximum(at, 0)], -1)
        until = end[work_before]
        prompt = (until >= call_end[waiting] - PROMPT_NS) & (until > calls.start_ns[waiting])
        waited[waiting] = np.where((work_before >= 0) & (calls.waits[waiting] | prompt), work_before, -1)
    holds = waited >= 0
    start = n + np.arange(m)
    stop = start.copy()
    stop[holds] = n + m + np.arange(int(holds.sum()))
    time = np.concatenate([calls.start_ns, call_end[holds]])
    return Points(start, stop, time, waited)


@dataclass(frozen=True)
class _Threads:
    """Calls in the order of their host threads."""

    order: Ints  # (m,) calls by thread, then start
    same: Ints  # places in order whose call follows another on its thread
    pause_ns: Floats  # (m,) silence of the thread before each place, inf before its first call


def host_edges(calls: HostCalls, points: Points, floors: Floors, n: int) -> list[Edges]:
    """Edges along each host thread, into calls that waited, and between threads that took turns."""
    if not len(calls):
        return []
    order = grouped(calls.thread, calls.start_ns)
    same = np.flatnonzero(np.diff(calls.thread[order]) == 0) + 1
    before, after = order[same - 1], order[same]
    step = calls.start_ns[after] - points.time_ns[points.end[before] - n]
    # Nested calls: the inner one starts before the outer returns, so it follows the outer's start.
    inside = step < 0
    source = np.where(inside, points.start[before], points.end[before])
    lag = np.where(inside, calls.start_ns[after] - calls.start_ns[before], step)
    pause = np.full(len(order), np.inf)
    pause[same] = calls.start_ns[after] - (calls.start_ns + calls.duration_ns)[before]
    turns, turned = _turns(calls, points, _Threads(order, same, pause))
    # A thread that waited for its turn has no host time of its own in that idle time.
    lag = np.where(turned[after], np.minimum(lag, calls.duration_ns[before]), lag)
    edges = [*turns, Edges.of(source, points.start[after], lag, Edge.HOST)]
    holds = np.flatnonzero(points.waited_for >= 0)
    own_ns = np.minimum(calls.duration_ns[holds], floors.call_ns)
    edges.append(Edges.of(points.start[holds], points.end[holds], own_ns, Edge.HOST))
    returns = np.full(len(holds), floors.return_ns)
    edges.append(Edges.of(points.waited_for[holds], points.end[holds], returns, Edge.SYNC))
    return edges


def _turns(calls: HostCalls, points: Points, threads: _Threads) -> tuple[list[Edges], Bools]:
    """Edges to a thread that idles while another of its process works, then goes on after it."""
    leave = calls.start_ns + calls.duration_ns
    turned = np.zeros(len(calls), np.bool_)
    order, pause = threads.order, threads.pause_ns
    edges = []
    for process in np.unique(calls.process):
        process_calls = np.flatnonzero(calls.process == process)
        if len(np.unique(calls.thread[process_calls])) < 2:
            continue
        process_calls = process_calls[np.argsort(leave[process_calls], kind="stable")]
        rows = np.flatnonzero((calls.process[order] == process) & (pause > _HANDED_OVER_NS))
        target = order[rows]
        at = np.searchsorted(leave[process_calls], calls.start_ns[target], side="right") - 1
        source = process_calls[np.maximum(at, 0)]
        from_other_thread = (at >= 0) & (calls.thread[source] != calls.thread[target])
        within = from_other_thread & (leave[source] > calls.start_ns[target] - pause[rows])
        source, target = source[within], target[within]
        lag = calls.start_ns[target] - leave[source]
        edges.append(Edges.of(points.end[source], points.start[target], lag, Edge.THREAD))
        turned[target] = True
    return edges, turned


#: A wait of a kernel longer than its queue and its launch explain. [ns]
_UNEXPLAINED_NS: Final = 10_000.0


def before_on_queue(work: Activities, end: Floats) -> Ints:
    """The activity of the same queue that started earlier and ended last; -1 for the first. Shape (n,)."""
    n = len(work)
    order = grouped(work.queue, work.start_ns)
    queue = work.queue[order]
    # One running maximum over all queues: each queue is lifted above the one before it.
    lift = queue * (end.max(initial=0.0) + 1.0)
    high = np.maximum.accumulate(end[order] + lift)
    place = np.where(end[order] + lift >= high, np.arange(n), -1)
    latest = np.maximum.accumulate(place)
    before = np.full(n, -1, np.int64)
    same = np.flatnonzero(queue[1:] == queue[:-1]) + 1
    before[order[same]] = order[latest[same - 1]]
    return before


def queue_edges(work: Activities, end: Floats, previous: Ints, floors: Floors) -> list[Edges]:
    """Edges from each activity to the next of its queue."""
    target = np.flatnonzero(previous >= 0)
    source = previous[target]
    after = work.start_ns[target] >= end[source] - SKEW_NS
    lag = np.full(int(after.sum()), floors.queue_ns)
    late, early = target[after], target[~after]
    started = work.start_ns[early] - work.start_ns[previous[early]]
    return [
        Edges.of(source[after], late, lag, Edge.STREAM),
        Edges.of(previous[early], early, started, Edge.OVERLAP),
    ]


def launch_edges(work: Activities, points: Points, floors: Floors) -> Edges:
    """Edges from the call that launched it to each activity."""
    target = np.flatnonzero(work.call >= 0)
    source = points.start[work.call[target]]
    return Edges.of(source, target, np.full(len(target), floors.launch_ns), Edge.LAUNCH)


def long_launches(graph: Graph, work: Activities, calls: HostCalls, floors: Floors) -> LongLaunches:
    """Return the launches with a long time from call to start, and the part of it in the call.

    A call lasts until it returns: one that loads the kernel's code first may take a second. What then follows
    beyond the usual latency is late, unless it is too short to need an explanation.
    """
    usual_ns = floors.usual_launch_ns
    edge = np.flatnonzero((graph.kind == Edge.LAUNCH) & (graph.lag_ns > usual_ns + _UNEXPLAINED_NS))
    target = np.searchsorted(graph.first_edge, edge, side="right") - 1
    lag_ns = graph.lag_ns[edge]
    in_call_ns = calls.duration_ns[work.call[graph.activity[target]]]
    late_ns = lag_ns - in_call_ns - usual_ns
    return LongLaunches(
        edge,
        np.minimum(in_call_ns, lag_ns - usual_ns),
        np.where(late_ns > _UNEXPLAINED_NS, late_ns, 0.0),
        lag_ns,
    )


def cross_edges(
    work: Activities, calls: HostCalls, end: Floats, previous: Ints, floors: Floors
) -> list[Edges]:
    """Edges from another queue of the device, for waits that neither queue nor launch explain."""
    released = np.full(len(work), -np.inf)
    has = previous >= 0
    released[has] = end[previous[has]] + floors.queue_ns
    launched = work.call >= 0
    if launched.any():
        call = calls.start_ns[work.call[launched]] + floors.launch_ns
        released[launched] = np.maximum(released[launched], call)
    late = (work.start_ns - released > _UNEXPLAINED_NS) & (launched | has)
    edges = []
    for _, members in work.by_device:
        on_device = np.arange(len(work)) if members is None else members
        target = on_device[late[on_device]]
        if not len(target) or len(np.unique(work.queue[on_device])) < 2:
            continue
        on_device = on_device[np.argsort(end[on_device], kind="stable")]
        at = np.searchsorted(end[on_device], work.start_ns[target] + SKEW_NS, side="right") - 1
        source = on_device[np.maximum(at, 0)]
        wait = work.start_ns[target] - end[source]
        good = (
            (at >= 0)
            & (work.queue[source] != work.queue[target])
            & (end[source] > released[target])
            & (wait <= PROMPT_NS)
            & (work.start_ns[source] < work.start_ns[target])
        )
        lag = np.minimum(np.maximum(wait[good], 0.0), floors.launch_ns)
        edges.append(Edges.of(source[good], target[good], lag, Edge.CROSS))
    return edges
