"""Who waited for whom: the edges of a recorded timeline, stated by the trace or inferred from timing.

Collectives of several devices wait for one another: which of them were one, how long each waited, how long it
moved data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.compiled import compiled
from tracetool.replay.graph import Edge, Edges, Graph, assemble
from tracetool.replay.host_edges import (
    Floors,
    Points,
    before_on_queue,
    cross_edges,
    host_edges,
    host_points,
    launch_edges,
    least_times,
    queue_edges,
)


@dataclass(frozen=True)
class Meetings:
    """Collectives that met: g activities of m meetings. No data is complete before the last has come."""

    member: Ints  # (g,) activity
    meeting: Ints  # (g,) number of its meeting
    arrival_ns: Floats  # (m,) start of the last to come

    @property
    def arrived_ns(self) -> Floats:
        """When the last of its meeting had come, for each member. Shape (g,). [ns]"""
        return self.arrival_ns[self.meeting]


def meetings(work: Activities, alike: Ints) -> Meetings:
    r"""Return which collectives of different devices were one.

    Parameters
    ----------
    work : Activities
        The recorded activities of all ranks, on one clock.
    alike : array of int, shape (n,)
        Equal numbers for collectives of the same operation and size; -1 for everything else.

    Returns
    -------
    Meetings
        Empty where one device ran alone: of other ranks nothing is inferred.

    Notes
    -----
    The ranks of a collective all run while its data moves, :math:`\max s < \min e`, and a rank begins
    its next one only after that: so alike collectives of different devices that overlap in time are
    one. Each splits into its wait, :math:`\max s - s_i`, and its transfer, :math:`e_i - \max s`.
    """
    chosen = np.flatnonzero((alike >= 0) & (work.duration_ns > 0))
    none = np.zeros(0, np.int64)
    if len(np.unique(work.device[chosen])) < 2:
        return Meetings(none, none, np.zeros(0))
    order = chosen[np.lexsort((work.start_ns[chosen], alike[chosen]))]
    group = np.zeros(len(order), np.int64)
    _, device = np.unique(work.device[order], return_inverse=True)
    last_group = np.full(int(device.max()) + 1, -1, np.int64)
    compiled(_group, len(order))(
        alike[order], work.start_ns[order], work.end_ns[order], device, last_group, group
    )
    size = np.bincount(group)
    several = size[group] > 1
    order, group = order[several], np.unique(group[several], return_inverse=True)[1]
    arrival = np.full(int(group.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(arrival, group, work.start_ns[order])
    return Meetings(order, group, arrival)


def _group(alike: Ints, start: Floats, end: Floats, device: Ints, last_group: Ints, group: Numbers) -> None:
    """Number those that all overlap, at most one of each device, in the order they start."""
    number = -1
    least = 0.0
    for i in range(len(alike)):
        if i == 0 or alike[i] != alike[i - 1] or start[i] >= least or last_group[device[i]] == number:
            number += 1
            least = end[i]
        least = min(least, end[i])
        last_group[device[i]] = number
        group[i] = number


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
    previous = before_on_queue(work, end)
    floors = least_times(work, calls, end, previous)
    points = host_points(work, calls, end, n)
    parts = [
        *queue_edges(work, end, previous, floors),
        launch_edges(work, points, floors),
        *cross_edges(work, calls, end, previous, floors),
        *host_edges(calls, points, floors, n),
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
    graph = assemble(time, key, duration, n, parts, exact=exact)
    graph.activity[graph.place[transfer]] = met.member
    return replace(graph, met=met.member.astype(np.int32), transfer=graph.place[transfer]), floors


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
