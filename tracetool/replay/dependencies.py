"""Dependencies: the edges of a recorded timeline, stated by the trace or inferred from timing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.kernels.collective_matching import Meetings
from tracetool.replay.activities import Activities, HostCalls
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
    long_launches,
    queue_edges,
)


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
    edge_sets = [
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
        graph = assemble(time, key, duration, n, edge_sets, exact=exact)
        return replace(graph, long=long_launches(graph, work, calls, floors)), floors
    hub = len(time) + np.arange(len(met.arrival_ns))
    transfer = hub[-1] + 1 + np.arange(len(met.member))
    edge_sets = _meeting_edges(edge_sets, met, hub, transfer, len(time))
    late = np.concatenate([met.arrival_ns, met.arrived_ns])
    time, key = np.concatenate([time, late]), np.concatenate([key, late])
    duration[met.member] = 0.0
    moving = end[met.member] - met.arrived_ns
    duration = np.concatenate([duration, np.zeros(len(hub)), moving])
    graph = assemble(time, key, duration, n, edge_sets, exact=exact)
    graph.activity[graph.place[transfer]] = met.member
    long = long_launches(graph, work, calls, floors)
    transfers = graph.place[transfer]
    return replace(graph, met=met.member.astype(np.int32), transfer=transfers, long=long), floors


def _meeting_edges(
    edge_sets: list[Edges], met: Meetings, hub: Ints, transfer: Ints, nodes: int
) -> list[Edges]:
    """Let what followed a collective follow its transfer, and that the arrival of all."""
    last = np.arange(nodes)
    last[met.member] = transfer
    ends = (Edge.STREAM, Edge.CROSS, Edge.SYNC)
    moved = [
        replace(
            edges,
            source=np.where(np.isin(edges.kind, ends), last[edges.source], edges.source).astype(np.int32),
        )
        for edges in edge_sets
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
