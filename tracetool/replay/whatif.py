"""Timelines that were not recorded: launched as graphs, with a faster kernel, without a range."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.replay.activities import HostCalls
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
    Host time between two launches goes (up to a millisecond: longer pauses are the program's own);
    waits, copies that wait and the order on queues stay. Device gaps between queued kernels shrink to
    the gap between nodes of a graph.
    """
    issues = np.zeros(len(graph), np.bool_)
    starts = graph.place[graph.activities : graph.activities + len(calls)]
    issues[starts[calls.works & ~calls.waits]] = True
    target = np.repeat(np.arange(len(graph)), np.diff(graph.first_edge))
    between = issues[graph.source] & issues[target]
    host = (graph.kind == Edge.HOST) | (graph.kind == Edge.THREAD)
    lag = np.where(host & between & (graph.lag_ns < _OWN_WORK_NS), 0.0, graph.lag_ns)
    queued = graph.kind == Edge.STREAM
    lag = np.where(queued, np.minimum(lag, costs.gap_s * 1e9), lag)
    return replace(graph, lag_ns=lag)
