"""The longest path through a graph whose nodes are already in order: one compiled pass per clock."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.core.compiled import compiled
from tracetool.replay.graph import Edge, Graph
from tracetool.replay.reused_memory import Memory

_OVERLAP = int(Edge.OVERLAP)
_SYNC = int(Edge.SYNC)


def _pass(
    time: Floats,
    recorded: Floats,
    duration: Floats,
    first: Ints,
    source: Ints,
    lag: Floats,
    kind: Ints,
    out: Floats,
    binding: Numbers,
    released: Floats,
) -> None:
    """Write start, binding edge and last release of the host thread for every node, in place."""
    for i in range(len(time)):
        best = -np.inf
        why = 0
        edge = -1
        wait = -np.inf
        for e in range(first[i], first[i + 1]):
            s = source[e]
            if kind[e] == _OVERLAP:
                stretch = duration[s] / recorded[s] if recorded[s] > 0.0 else 1.0
                ready = out[s] + lag[e] * stretch
            else:
                ready = out[s] + duration[s] + lag[e]
            if ready >= best:
                best = ready
                why = kind[e]
                edge = e
                wait = released[s]
        if why == 0:
            out[i] = time[i]
        else:
            out[i] = best
        binding[i] = edge
        # Host points hand on when their thread was last let go by the device; kernels get their call's.
        if why == _SYNC:
            released[i] = out[i]
        elif why > _OVERLAP:
            released[i] = wait
        else:
            released[i] = -np.inf


def solve(graph: Graph, duration_ns: Floats, memory: Memory | None = None) -> tuple[Floats, Numbers, Floats]:
    r"""Earliest times of all nodes when the activities last ``duration_ns``.

    Parameters
    ----------
    graph : Graph
        Nodes in order, edges grouped by target.
    duration_ns : array, shape (n,)
        Device time of each node at the new clock, 0 for host points. [ns]
    memory : Memory, optional
        Memory of an earlier call to overwrite.

    Returns
    -------
    time_ns : array, shape (n,)
        Start of each activity, moment of each host point. [ns]
    binding : array of int32, shape (n,)
        The edge that was last to release it, a row of the graph's edges; -1 where nothing held it.
    released_ns : array, shape (n,)
        When the host thread behind a node was last held by the device, -inf where never. [ns]

    Notes
    -----
    .. math:: t_i = \max_{e \in in(i)} \left( t_{s(e)} + d_{s(e)} + l_e \right)

    The maximum-plus recurrence of a directed acyclic graph; nodes lie in topological order, so one
    pass of O(nodes + edges) solves it. A stream makes a path of millions of levels, so a pass level by
    level has nothing to vectorize: this loop is compiled.
    """
    n = len(graph)
    memory = memory or Memory()
    out, released = memory.placing.take("time", n), memory.own.take("released", n)
    binding = memory.own.take("binding", n, np.int32)
    compiled(_pass, n + len(graph.source))(
        graph.time_ns,
        graph.duration_ns,
        duration_ns,
        graph.first_edge,
        graph.source,
        graph.lag_ns,
        graph.kind,
        out,
        binding,
        released,
    )
    return out, binding, released
