"""The dependency graph of a recorded timeline: which nodes had to end before which could start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.core.compiled import compiled


class Edge(IntEnum):
    """Reason why a node had to wait."""

    NONE = 0  # first of its kind: keeps its recorded time
    STREAM = 1  # the kernel before it on its stream
    OVERLAP = 2  # started while the one before it still ran (two queues in one, dependent launch)
    LAUNCH = 3  # the host call that launched it
    CROSS = 4  # a kernel of another stream, inferred from timing
    HOST = 5  # the call before it on its host thread
    THREAD = 6  # a call of another thread that handed over, inferred from timing
    SYNC = 7  # a host call that waited for the device
    MEETING = 8  # a collective of another device that had to come first


_OVERLAP = int(Edge.OVERLAP)


@dataclass(frozen=True)
class Edges:
    """Edges as columns: ``target`` waits for ``source`` plus ``lag_ns``."""

    source: Numbers
    target: Numbers
    lag_ns: Floats
    kind: Numbers

    @classmethod
    def of(cls, source: Numbers, target: Numbers, lag_ns: Floats, kind: Edge) -> Edges:
        """Return edges of one kind."""
        return cls(
            source.astype(np.int32),
            target.astype(np.int32),
            lag_ns.astype(np.float64, copy=False),
            np.full(len(source), int(kind), np.int8),
        )

    @classmethod
    def join(cls, edge_sets: list[Edges]) -> Edges:
        """Return all edges of ``edge_sets``."""
        if not edge_sets:
            none = np.zeros(0, np.int32)
            return cls(none, none, np.zeros(0), np.zeros(0, np.int8))
        return cls(
            np.concatenate([edges.source for edges in edge_sets]),
            np.concatenate([edges.target for edges in edge_sets]),
            np.concatenate([edges.lag_ns for edges in edge_sets]),
            np.concatenate([edges.kind for edges in edge_sets]),
        )

    def take(self, rows: Bools | Ints) -> Edges:
        """Return the chosen edges."""
        return Edges(self.source[rows], self.target[rows], self.lag_ns[rows], self.kind[rows])


def _nobody() -> Numbers:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class LongLaunches:
    """Launches from whose call to the activity's start it took longer than launches of the run usually take.

    The lag of such an edge is, one after another, the time in the call, the usual latency, and ``late_ns``,
    in which neither the host nor anything else that was recorded held the activity up.
    """

    edge: Numbers = field(default_factory=_nobody)  # (l,) row of the graph's edges, ascending
    call_ns: Floats = field(default_factory=lambda: np.zeros(0))  # (l,) beyond the usual latency
    late_ns: Floats = field(default_factory=lambda: np.zeros(0))  # (l,)
    lag_ns: Floats = field(default_factory=lambda: np.zeros(0))  # (l,) the whole

    def late_of(self, edges: Ints, lag_ns: Floats) -> Floats:
        """Return the late part of some edges, at most ``late_ns``, as the graph's lags now are. (g,) [ns]

        Parameters
        ----------
        edges : array of int, shape (g,)
            Rows of the graph's edges, -1 for none.
        lag_ns : array, shape (e,)
            The graph's lags: one that was cut since has lost its late part first.
        """
        late_ns = np.zeros(len(edges))
        if len(self.edge):
            place = np.minimum(np.searchsorted(self.edge, edges), len(self.edge) - 1)
            at = np.flatnonzero(self.edge[place] == edges)
            which = place[at]
            cut_ns = np.maximum(self.lag_ns[which] - lag_ns[edges[at]], 0.0)
            late_ns[at] = np.maximum(self.late_ns[which] - cut_ns, 0.0)
        return late_ns


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which every node follows what it waits for, edges grouped by target.

    Nodes are device activities (with a duration) and points of host time (without). A collective that
    met others is two nodes: its start (without a duration) and its transfer, once all have come.
    """

    time_ns: Floats  # (n,) recorded time: start of an activity, moment of a host point
    duration_ns: Floats  # (n,) recorded device time, 0 for host points
    activity: Numbers  # (n,) row of the activity in the kernels table, -1 for host points
    place: Numbers  # (n,) node of each activity, then of each host point, in the order they were given
    activities: int  # k
    first_edge: Numbers  # (n + 1,) edges of node i: first_edge[i] to first_edge[i + 1]
    source: Numbers  # (e,)
    lag_ns: Floats  # (e,)
    kind: Numbers  # (e,)
    counts: Mapping[str, int]  # edges by kind, and what was inferred or left out
    met: Numbers = field(default_factory=_nobody)  # (g,) collectives that met others
    transfer: Numbers = field(default_factory=_nobody)  # (g,) node in which each moves its data
    long: LongLaunches = field(default_factory=LongLaunches)

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def node(self) -> Numbers:
        """Node of each activity. Shape (k,)."""
        return self.place[: self.activities]

    @property
    def inferred(self) -> int:
        """Edges the trace does not state, taken from timing."""
        return self.counts.get("cross", 0) + self.counts.get("thread", 0)


def assemble(
    time_ns: Floats,
    key: Floats,
    duration_ns: Floats,
    activities: int,
    edge_sets: list[Edges],
    *,
    exact: bool = True,
) -> Graph:
    r"""Order nodes by ``key`` and turn lags into ones that reproduce the recorded times.

    Parameters
    ----------
    time_ns, duration_ns : array, shape (n,)
        Recorded time and device time of each node; the first ``activities`` are device activities. [ns]
    key : array, shape (n,)
        Order of evaluation; every edge must go forward in it, those that do not are left out.
    edge_sets : list of Edges
        Emptied: their memory is needed. With ``lag_ns`` the least time the edge takes by itself. The
        edge that ended the wait in the recording gets what was left of it, so the recorded times come
        back.
    exact : bool
        False leaves every lag as it is: the timeline the edges alone explain.

    Notes
    -----
    With :math:`r_e` the moment edge e would release its target by its own lag, the target's recorded
    time is :math:`t \ge \max_e r_e` up to clock skew. The last one to release (the binding edge) gets
    the lag :math:`t - end(source)`; the others keep theirs, cut so that none exceeds :math:`t`.
    """
    n = len(time_ns)
    order = np.argsort(key, kind="stable").astype(np.int32)
    rank = np.empty(n, np.int32)
    rank[order] = np.arange(n, dtype=np.int32)
    edges = Edges.join(edge_sets)
    edge_sets.clear()
    source, target, lag, kind = rank[edges.source], rank[edges.target], edges.lag_ns, edges.kind
    del edges
    forward = source < target
    left_out = int((~forward).sum())
    if left_out:
        source, target, lag, kind = source[forward], target[forward], lag[forward], kind[forward]
    first = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(target, minlength=n), out=first[1:])
    by_target = np.empty(len(target), np.int32)
    if len(target):
        compiled(_group, len(target))(target, first[:-1].copy(), by_target)
    del target
    source, lag, kind = source[by_target], lag[by_target], kind[by_target]
    del by_target
    time, duration = time_ns[order], duration_ns[order]
    if exact:
        compiled(_bind, len(source))(first, source, lag, kind, time, duration)
    counts = {e.name.lower(): int((kind == e).sum()) for e in Edge if e}
    return Graph(
        time,
        duration,
        np.where(order < activities, order, -1).astype(np.int32),
        rank,
        activities,
        first,
        source,
        lag,
        kind,
        {**counts, "left_out": left_out},
    )


def _group(target: Numbers, place: Numbers, by_target: Numbers) -> None:
    """Write the order of edges by target: a counting sort that keeps their order."""
    for e in range(len(target)):
        t = target[e]
        by_target[place[t]] = e
        place[t] += 1


def _bind(
    first: Numbers, source: Numbers, lag: Floats, kind: Numbers, time: Floats, duration: Floats
) -> None:
    """Cut lags that exceed what was recorded; the last edge to release takes all that is left."""
    for i in range(len(time)):
        best = -np.inf
        last = -1
        for e in range(first[i], first[i + 1]):
            s = source[e]
            free = time[s] if kind[e] == _OVERLAP else time[s] + duration[s]
            lag[e] = min(lag[e], time[i] - free)
            if free + lag[e] >= best:
                best = free + lag[e]
                last = e
        if last >= 0:
            s = source[last]
            lag[last] = time[i] - (time[s] if kind[last] == _OVERLAP else time[s] + duration[s])
