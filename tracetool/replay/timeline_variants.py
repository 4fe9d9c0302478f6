"""Timelines that were not recorded: launched as graphs, with a faster kernel, without a range."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.graph import Edge, Graph
from tracetool.replay.host import HostCosts

#: Host time between two launches longer than this is the program's own work, which no graph removes. [ns]
_OWN_WORK_NS: Final = 1_000_000.0


def launched_as_graphs(graph: Graph, calls: HostCalls, costs: HostCosts) -> Graph:
    """Return the graph with all launches between two waits of the host issued as one.

    Parameters
    ----------
    graph : Graph
        The recorded dependencies.
    calls : HostCalls
        The calls whose start points follow the activities in ``graph.place``.
    costs : HostCosts
        Costs of a graph launch: its gap between nodes replaces longer ones on a queue.

    Notes
    -----
    Host time between two launches goes (up to a millisecond: longer idle times are the program's own);
    waits, copies that wait and the order on queues stay. Device gaps between queued kernels shrink to
    the gap between nodes of a graph.
    """
    issues = np.zeros(len(graph), np.bool_)
    issues[_starts(graph, calls)[calls.works & ~calls.waits]] = True
    target = _targets(graph)
    between = issues[graph.source] & issues[target]
    host = (graph.kind == Edge.HOST) | (graph.kind == Edge.THREAD)
    lag = np.where(host & between & (graph.lag_ns < _OWN_WORK_NS), 0.0, graph.lag_ns)
    queued = graph.kind == Edge.STREAM
    lag = np.where(queued, np.minimum(lag, costs.gap_s * 1e9), lag)
    return replace(graph, lag_ns=lag)


def launched_one_by_one(graph: Graph, work: Activities, calls: HostCalls, issue_ns: Floats) -> Graph:
    """Return the graph with the nodes of recorded graph launches issued call by call.

    Parameters
    ----------
    graph : Graph
        The recorded dependencies.
    work, calls : Activities, HostCalls
        What it was made from.
    issue_ns : array, shape (activities,)
        Host time to issue each activity by itself. [ns]

    Notes
    -----
    The i-th node of a graph launch may start once the host has issued the i before it too; what the
    host does next is later by the issue of all of them.
    """
    inside = np.flatnonzero(work.in_graph & (work.call >= 0))
    if not len(inside):
        return graph
    order = inside[np.lexsort((work.start_ns[inside], work.call[inside]))]
    call = work.call[order]
    total = np.cumsum(issue_ns[order])
    first = np.r_[True, call[1:] != call[:-1]]
    before = np.maximum.accumulate(np.where(first, total - issue_ns[order], 0.0))
    extra = np.zeros(len(graph))
    extra[graph.node[order]] = total - before
    spent = np.bincount(call, weights=issue_ns[order], minlength=len(calls))
    later = np.zeros(len(graph))
    later[_starts(graph, calls)] = spent
    lag = np.where(graph.kind == Edge.LAUNCH, graph.lag_ns + extra[_targets(graph)], graph.lag_ns)
    host = (graph.kind == Edge.HOST) | (graph.kind == Edge.THREAD)
    return replace(graph, lag_ns=np.where(host, lag + later[graph.source], lag))


def without_host_time(graph: Graph, calls: HostCalls, dropped: Bools) -> Graph:
    """Return the graph with no host time before the calls that are ``dropped``. Shape (m,)."""
    dropped_calls = np.zeros(len(graph), np.bool_)
    dropped_calls[_starts(graph, calls)[dropped]] = True
    host = (graph.kind == Edge.HOST) | (graph.kind == Edge.THREAD)
    return replace(graph, lag_ns=np.where(host & dropped_calls[_targets(graph)], 0.0, graph.lag_ns))


def with_instant_host(graph: Graph) -> Graph:
    """Return the graph with a host that takes no time, but still waits for the device.

    Launch calls take none either: of a long one the usual latency stays, and what the activity was late.
    """
    host = (graph.kind == Edge.HOST) | (graph.kind == Edge.THREAD)
    lag_ns = np.where(host, np.minimum(graph.lag_ns, 0.0), graph.lag_ns)
    long = graph.long
    lag_ns[long.edge] -= long.call_ns
    shorter = replace(long, call_ns=np.zeros_like(long.call_ns), lag_ns=long.lag_ns - long.call_ns)
    return replace(graph, lag_ns=lag_ns, long=shorter)


def without_waits(graph: Graph) -> Graph:
    """Return the graph with a host that never waits for the device: it runs ahead at its recorded pace.

    Notes
    -----
    The end of a wait follows its begin too, so it keeps a moment without what it waited for.
    """
    return replace(graph, lag_ns=np.where(graph.kind == Edge.SYNC, -np.inf, graph.lag_ns))


def _starts(graph: Graph, calls: HostCalls) -> Ints:
    """Node of the start of each call."""
    return graph.place[graph.activities : graph.activities + len(calls)]


def _targets(graph: Graph) -> Ints:
    """Target of each edge."""
    return np.repeat(np.arange(len(graph)), np.diff(graph.first_edge))
