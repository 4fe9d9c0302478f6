"""What an activity waits for on the device: its queue, its launch, another queue."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.floors import PROMPT_NS, SKEW_NS, Floors
from tracetool.replay.graph import Edge, Edges
from tracetool.replay.host_edges import Points
from tracetool.replay.numbering import grouped

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
    for device in np.unique(work.device[late]):
        on_device = np.flatnonzero(work.device == device)
        if len(np.unique(work.queue[on_device])) < 2:
            continue
        on_device = on_device[np.argsort(end[on_device], kind="stable")]
        target = np.flatnonzero(late & (work.device == device))
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
