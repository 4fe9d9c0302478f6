"""The dependency graph of a recorded timeline: who had to end before whom could start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tracetool.vocabulary.arrays import Bools, Floats, Ints


class Edge(IntEnum):
    """Why a node had to wait."""

    NONE = 0  # first of its kind: keeps its recorded time
    STREAM = 1  # the kernel before it on its stream
    OVERLAP = 2  # started while the one before it still ran (two queues in one, dependent launch)
    LAUNCH = 3  # the host call that launched it
    CROSS = 4  # a kernel of another stream, inferred from timing
    HOST = 5  # the call before it on its host thread
    THREAD = 6  # a call of another thread that handed over, inferred from timing
    SYNC = 7  # a host call that waited for the device


@dataclass(frozen=True)
class Edges:
    """Edges as columns: ``target`` waits for ``source`` plus ``lag_ns``."""

    source: Ints
    target: Ints
    lag_ns: Floats
    kind: Ints

    @classmethod
    def of(cls, source: Ints, target: Ints, lag_ns: Floats, kind: Edge) -> Edges:
        """Return edges of one kind."""
        return cls(source, target, lag_ns.astype(np.float64), np.full(len(source), int(kind), np.int8))

    @classmethod
    def join(cls, parts: list[Edges]) -> Edges:
        """Return all edges of ``parts``."""
        if not parts:
            none = np.zeros(0, np.int64)
            return cls(none, none, np.zeros(0), np.zeros(0, np.int8))
        return cls(
            np.concatenate([p.source for p in parts]),
            np.concatenate([p.target for p in parts]),
            np.concatenate([p.lag_ns for p in parts]),
            np.concatenate([p.kind for p in parts]),
        )

    def take(self, rows: Bools | Ints) -> Edges:
        """Return the chosen edges."""
        return Edges(self.source[rows], self.target[rows], self.lag_ns[rows], self.kind[rows])


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which every node follows what it waits for, edges grouped by target.

    Nodes are device activities (with a duration) and points of host time (without).
    """

    time_ns: Floats  # (n,) recorded time: start of an activity, moment of a host point
    duration_ns: Floats  # (n,) recorded device time, 0 for host points
    activity: Ints  # (n,) row of the activity in the kernels table, -1 for host points
    place: Ints  # (n,) node of each activity, then of each host point, in the order they were given
    activities: int  # k
    first_edge: Ints  # (n + 1,) edges of node i: first_edge[i] to first_edge[i + 1]
    source: Ints  # (e,)
    lag_ns: Floats  # (e,)
    kind: Ints  # (e,)
    counts: Mapping[str, int]  # edges by kind, and what was inferred or left out

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def node(self) -> Ints:
        """Node of each activity. Shape (k,)."""
        return self.place[: self.activities]

    @property
    def inferred(self) -> int:
        """Edges the trace does not state, taken from timing."""
        return self.counts.get("cross", 0) + self.counts.get("thread", 0)


def assemble(time_ns: Floats, key: Floats, duration_ns: Floats, activities: int, edges: Edges) -> Graph:
    r"""Order nodes by ``key`` and turn lags into ones that reproduce the recorded times.

    Parameters
    ----------
    time_ns, duration_ns : array, shape (n,)
        Recorded time and device time of each node; the first ``activities`` are device activities. [ns]
    key : array, shape (n,)
        Order of evaluation; every edge must go forward in it, those that do not are left out.
    edges : Edges
        With ``lag_ns`` the least time the edge takes by itself. The edge that ended the wait in the
        recording gets what was left of it, so the recorded times come back.

    Notes
    -----
    With :math:`r_e` the moment edge e would release its target by its own lag, the target's recorded
    time is :math:`t \ge \max_e r_e` up to clock skew. The last one to release (the binding edge) gets
    the lag :math:`t - end(source)`; the others keep theirs, cut so that none exceeds :math:`t`.
    """
    n = len(time_ns)
    order = np.lexsort((np.arange(n), key))
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    source, target = rank[edges.source], rank[edges.target]
    forward = source < target
    left_out = int((~forward).sum())
    source, target = source[forward], target[forward]
    lag, kind = edges.lag_ns[forward], edges.kind[forward]
    sort = np.argsort(target, kind="stable")
    source, target, lag, kind = source[sort], target[sort], lag[sort], kind[sort]
    first = np.searchsorted(target, np.arange(n + 1)).astype(np.int64)
    time, duration = time_ns[order], duration_ns[order]
    free = time[source] + np.where(kind == Edge.OVERLAP, 0.0, duration[source])
    whole = time[target] - free
    lag = np.minimum(lag, whole)
    if len(target):
        has = np.flatnonzero(np.diff(first) > 0)
        release = free + lag
        # The binding edge: the last one of the target's edges with the greatest release.
        best = np.maximum.reduceat(release, first[has])
        at_best = np.flatnonzero(release >= np.repeat(best, np.diff(first)[has]))
        binding = at_best[np.searchsorted(target[at_best], has, side="right") - 1]
        lag[binding] = whole[binding]
    activity = np.where(order < activities, order, -1)
    counts = {e.name.lower(): int((kind == e).sum()) for e in Edge if e}
    return Graph(
        time,
        duration,
        activity,
        rank,
        activities,
        first,
        source,
        lag,
        kind,
        {**counts, "left_out": left_out},
    )
