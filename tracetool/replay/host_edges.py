"""What the host waits for: the call before, the device, another thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.floors import PROMPT_NS, SKEW_NS, Floors
from tracetool.replay.graph import Edge, Edges
from tracetool.replay.numbering import grouped

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
        own = launched[calls.process[work.call[launched]] == process] if len(launched) else launched
        pool = own if len(own) else np.arange(n)
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
    own = np.minimum(calls.duration_ns[holds], floors.call_ns)
    edges.append(Edges.of(points.start[holds], points.end[holds], own, Edge.HOST))
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
        other = (at >= 0) & (calls.thread[source] != calls.thread[target])
        within = other & (leave[source] > calls.start_ns[target] - pause[rows])
        source, target = source[within], target[within]
        lag = calls.start_ns[target] - leave[source]
        edges.append(Edges.of(points.end[source], points.start[target], lag, Edge.THREAD))
        turned[target] = True
    return edges, turned
