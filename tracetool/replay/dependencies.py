"""Who waited for whom: the edges of a recorded timeline, stated by the trace or inferred from timing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.collectives import Meetings
from tracetool.replay.graph import Edge, Edges, Graph, assemble
from tracetool.vocabulary.arrays import Bools, Floats, Ints

#: Clock skew between host and device records that is still read as "at the same time". [ns]
_SKEW_NS: Final = 1_000.0
#: A call this long that returns as the device finishes something was waiting for it. [ns]
_LONG_WAIT_NS: Final = 50_000.0
#: How soon after the device finishes a waiting call returns, or a dependent kernel starts. [ns]
_PROMPT_NS: Final = 15_000.0
#: A wait of a kernel longer than its queue and its launch explain. [ns]
_UNEXPLAINED_NS: Final = 10_000.0
#: A host thread silent this long while another of its process works may have waited for it. [ns]
_HANDED_OVER_NS: Final = 100_000.0


@dataclass(frozen=True)
class Floors:
    """The least time each kind of edge takes by itself, low quantiles of the recording. [ns]"""

    queue_ns: float  # end of a kernel to the next on its queue
    launch_ns: float  # call to kernel on an idle queue
    return_ns: float  # end of device work to the return of the call that waited
    call_ns: float  # a waiting call when nothing is left to wait for


@dataclass(frozen=True)
class Points:
    """Host points: the start of every call that matters, and the end of those that may wait."""

    start: Ints  # (m,) node of each call's start
    end: Ints  # (m,) node of its end; its start where it cannot wait
    time_ns: Floats  # (p,) times of all points, in node order after the activities
    waited_for: Ints  # (m,) activity that let the call return, -1 where none


def dependency_graph(
    work: Activities, calls: HostCalls, *, exact: bool = True, met: Meetings | None = None
) -> tuple[Graph, Floors]:
    """Return the graph of a recorded timeline; solved at the recorded durations it gives the recording back.

    Parameters
    ----------
    work : Activities
        Kernels, copies and sets.
    calls : HostCalls
        Host calls; without any, only the order on each queue is known.
    exact : bool
        False leaves out what no edge explains: gaps then shrink to the least each edge takes.
    met : Meetings, optional
        Collectives that waited for one another across devices.

    Notes
    -----
    Edges: order on a queue (``STREAM``, or ``OVERLAP`` where two activities of a queue ran at once),
    launch call to activity (``LAUNCH``), call to call on a host thread (``HOST``), device work to the
    return of a call that waited for it (``SYNC``: by name, or copies that return after their end, or
    long calls that return just as work ends), and, inferred from timing alone, an activity of another
    queue (``CROSS``) and another host thread (``THREAD``). What follows a collective that met others
    follows its transfer, which follows the arrival of all (``MEETING``).
    """
    n = len(work)
    end = work.end_ns
    previous = _before_on_queue(work, end)
    floors = _floors(work, calls, end, previous)
    points = _points(work, calls, end, n)
    parts = [
        *_queue_edges(work, end, previous, floors),
        _launch_edges(work, points, floors),
        *_cross_edges(work, calls, end, previous, floors),
        *_host_edges(calls, points, floors, n),
    ]
    time = np.concatenate([work.start_ns, points.time_ns])
    duration = np.concatenate([work.duration_ns, np.zeros(len(points.time_ns))])
    key = _order_keys(work, points)
    del previous, points
    if met is None or not len(met.member):
        return assemble(time, key, duration, n, parts, exact=exact), floors
    hub = len(time) + np.arange(len(met.arrival_ns))
    transfer = hub[-1] + 1 + np.arange(len(met.member))
    parts = _meeting_edges(parts, met, hub, transfer, len(time))
    late = np.concatenate([met.arrival_ns, met.arrived_ns])
    time, key = np.concatenate([time, late]), np.concatenate([key, late])
    duration[met.member] = 0.0
    moving = end[met.member] - met.arrived_ns
    duration = np.concatenate([duration, np.zeros(len(hub)), moving])
    made = assemble(time, key, duration, n, parts, exact=exact)
    made.activity[made.place[transfer]] = met.member
    return replace(made, met=met.member.astype(np.int32), transfer=made.place[transfer]), floors


def _meeting_edges(parts: list[Edges], met: Meetings, hub: Ints, transfer: Ints, nodes: int) -> list[Edges]:
    """Let what followed a collective follow its transfer, and that the arrival of all."""
    last = np.arange(nodes)
    last[met.member] = transfer
    ends = (Edge.STREAM, Edge.CROSS, Edge.SYNC)
    moved = [
        replace(p, source=np.where(np.isin(p.kind, ends), last[p.source], p.source).astype(np.int32))
        for p in parts
    ]
    at_once = np.zeros(len(met.member))
    place = hub[met.meeting]
    return [
        *moved,
        Edges.of(met.member, place, at_once, Edge.MEETING),
        Edges.of(place, transfer, at_once, Edge.MEETING),
    ]


def _order_keys(work: Activities, points: Points) -> Floats:
    """Recorded times with a launch moved before its activity where clocks are skewed."""
    key = np.concatenate([work.start_ns, points.time_ns])
    has = work.call >= 0
    if has.any():
        at = points.start[work.call[has]]
        # Half a nanosecond earlier: equal times keep the launch first.
        np.minimum.at(key, at, work.start_ns[has] - 0.5)
    return key


def _before_on_queue(work: Activities, end: Floats) -> Ints:
    """The activity of the same queue that started earlier and ended last; -1 for the first. Shape (n,)."""
    n = len(work)
    order = np.lexsort((work.start_ns, work.queue))
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


def _floors(work: Activities, calls: HostCalls, end: Floats, previous: Ints) -> Floors:
    has = previous >= 0
    gap = work.start_ns[has] - end[previous[has]]
    launched = work.call >= 0
    latency = work.start_ns[launched] - calls.start_ns[work.call[launched]] if launched.any() else np.zeros(0)
    short = calls.duration_ns[calls.waits]
    return Floors(
        queue_ns=_low(gap[gap >= 0], 0.05, 0.0, 2_000.0),
        launch_ns=_low(latency[latency >= 0], 0.05, 1_000.0, 10_000.0),
        return_ns=_low(np.zeros(0), 0.05, 2_000.0, 2_000.0),
        call_ns=_low(short, 0.05, 1_000.0, 10_000.0),
    )


def _low(values: Floats, share: float, least: float, most: float) -> float:
    return float(np.clip(np.quantile(values, share), least, most)) if len(values) else least


def _points(work: Activities, calls: HostCalls, end: Floats, n: int) -> Points:
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
        waited[owns] = np.where(call_end[owns] >= end[last[owns]] - _SKEW_NS, last[owns], -1)
    asks = (calls.waits | (calls.duration_ns >= _LONG_WAIT_NS)) & (waited < 0)
    for process in np.unique(calls.process[asks]):
        mine = np.flatnonzero(asks & (calls.process == process))
        own = launched[calls.process[work.call[launched]] == process] if len(launched) else launched
        pool = own if len(own) else np.arange(n)
        if not len(pool):
            continue
        pool = pool[np.argsort(end[pool], kind="stable")]
        at = np.searchsorted(end[pool], call_end[mine] + _SKEW_NS, side="right") - 1
        found = np.where(at >= 0, pool[np.maximum(at, 0)], -1)
        until = end[found]
        prompt = (until >= call_end[mine] - _PROMPT_NS) & (until > calls.start_ns[mine])
        waited[mine] = np.where((found >= 0) & (calls.waits[mine] | prompt), found, -1)
    holds = waited >= 0
    start = n + np.arange(m)
    stop = start.copy()
    stop[holds] = n + m + np.arange(int(holds.sum()))
    time = np.concatenate([calls.start_ns, call_end[holds]])
    return Points(start, stop, time, waited)


def _queue_edges(work: Activities, end: Floats, previous: Ints, floors: Floors) -> list[Edges]:
    target = np.flatnonzero(previous >= 0)
    source = previous[target]
    after = work.start_ns[target] >= end[source] - _SKEW_NS
    lag = np.full(int(after.sum()), floors.queue_ns)
    late, early = target[after], target[~after]
    started = work.start_ns[early] - work.start_ns[previous[early]]
    return [
        Edges.of(source[after], late, lag, Edge.STREAM),
        Edges.of(previous[early], early, started, Edge.OVERLAP),
    ]


def _launch_edges(work: Activities, points: Points, floors: Floors) -> Edges:
    target = np.flatnonzero(work.call >= 0)
    source = points.start[work.call[target]]
    return Edges.of(source, target, np.full(len(target), floors.launch_ns), Edge.LAUNCH)


def _cross_edges(
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
    found = []
    for device in np.unique(work.device[late]):
        here = np.flatnonzero(work.device == device)
        if len(np.unique(work.queue[here])) < 2:
            continue
        here = here[np.argsort(end[here], kind="stable")]
        target = np.flatnonzero(late & (work.device == device))
        at = np.searchsorted(end[here], work.start_ns[target] + _SKEW_NS, side="right") - 1
        source = here[np.maximum(at, 0)]
        wait = work.start_ns[target] - end[source]
        good = (
            (at >= 0)
            & (work.queue[source] != work.queue[target])
            & (end[source] > released[target])
            & (wait <= _PROMPT_NS)
            & (work.start_ns[source] < work.start_ns[target])
        )
        lag = np.minimum(np.maximum(wait[good], 0.0), floors.launch_ns)
        found.append(Edges.of(source[good], target[good], lag, Edge.CROSS))
    return found


@dataclass(frozen=True)
class _Threads:
    """Calls in the order of their host threads."""

    order: Ints  # (m,) calls by thread, then start
    same: Ints  # places in order whose call follows another on its thread
    pause_ns: Floats  # (m,) silence of the thread before each place, inf before its first call


def _host_edges(calls: HostCalls, points: Points, floors: Floors, n: int) -> list[Edges]:
    """Edges along each host thread, into calls that waited, and between threads that took turns."""
    if not len(calls):
        return []
    order = np.lexsort((calls.start_ns, calls.thread))
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
    # A thread that waited for its turn has no host time of its own in that pause.
    lag = np.where(turned[after], np.minimum(lag, calls.duration_ns[before]), lag)
    found = [*turns, Edges.of(source, points.start[after], lag, Edge.HOST)]
    holds = np.flatnonzero(points.waited_for >= 0)
    own = np.minimum(calls.duration_ns[holds], floors.call_ns)
    found.append(Edges.of(points.start[holds], points.end[holds], own, Edge.HOST))
    returns = np.full(len(holds), floors.return_ns)
    found.append(Edges.of(points.waited_for[holds], points.end[holds], returns, Edge.SYNC))
    return found


def _turns(calls: HostCalls, points: Points, threads: _Threads) -> tuple[list[Edges], Bools]:
    """Edges to a thread that pauses while another of its process works, then goes on after it."""
    leave = calls.start_ns + calls.duration_ns
    turned = np.zeros(len(calls), np.bool_)
    order, pause = threads.order, threads.pause_ns
    found = []
    for process in np.unique(calls.process):
        mine = np.flatnonzero(calls.process == process)
        if len(np.unique(calls.thread[mine])) < 2:
            continue
        mine = mine[np.argsort(leave[mine], kind="stable")]
        rows = np.flatnonzero((calls.process[order] == process) & (pause > _HANDED_OVER_NS))
        target = order[rows]
        at = np.searchsorted(leave[mine], calls.start_ns[target], side="right") - 1
        source = mine[np.maximum(at, 0)]
        other = (at >= 0) & (calls.thread[source] != calls.thread[target])
        within = other & (leave[source] > calls.start_ns[target] - pause[rows])
        source, target = source[within], target[within]
        lag = calls.start_ns[target] - leave[source]
        found.append(Edges.of(points.end[source], points.start[target], lag, Edge.THREAD))
        turned[target] = True
    return found, turned
