"""Why the device stood idle: every gap of a replayed timeline gets one reason."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.replay.graph import Edge, Graph

#: A host let go by the device this long before the gap began was not what the gap waited for. [ns]
_STILL_HELD_NS = 1_000.0


class Gap(IntEnum):
    """Reasons, in the order they are reported."""

    HOST = 0  # the host had not issued the next activity yet
    SYNC = 1  # the host had waited for the device before it issued the next one
    COMMUNICATION = 2  # around a collective: other ranks
    DEPENDENCY = 3  # the queue, or another queue of the device
    TAIL = 4  # nothing more (or not yet anything) to run here, while other devices run
    UNKNOWN = 5  # the trace holds no launch calls to tell from


#: Names of the reasons in tables and totals.
NAMES = tuple(g.name.lower() for g in Gap)


def gap_reasons(
    graph: Graph,
    binding: Numbers,
    released_ns: Floats,
    ends: Ints,
    begins_ns: Floats,
    collective: Bools,
) -> Ints:
    """Return the reason of each gap, a value of :class:`Gap`.

    Parameters
    ----------
    graph : Graph
        The dependency graph.
    binding, released_ns : array, shape (nodes,)
        From :func:`tracetool.replay.longest.solve`.
    ends : array of int, shape (g,)
        The activity that ends each gap.
    begins_ns : array, shape (g,)
        When each gap begins. [ns]
    collective : array of bool, shape (activities,)
        Which activities are collectives.

    Notes
    -----
    What released the next activity last decides. A launch means the host: of the kind ``SYNC`` if
    the device had let that host thread go only as the gap began, else ``HOST``.
    """
    node = graph.node[ends]
    edge = binding[node].astype(np.int64)
    bound = edge >= 0
    kind = np.where(bound, graph.kind[np.maximum(edge, 0)] if len(graph.kind) else 0, int(Edge.NONE))
    source = graph.source[np.maximum(edge, 0)] if len(graph.source) else np.zeros(len(edge), np.int64)
    before = np.where(bound, graph.activity[source] if len(graph.activity) else -1, -1)
    around = collective[ends] | ((before >= 0) & collective[np.maximum(before, 0)])
    reason = np.full(len(ends), int(Gap.DEPENDENCY))
    launched = kind == Edge.LAUNCH
    reason[launched] = Gap.HOST
    reason[launched & (released_ns[node] >= begins_ns - _STILL_HELD_NS)] = Gap.SYNC
    reason[~launched & around] = Gap.COMMUNICATION
    without = graph.counts.get("launch", 0) == 0
    reason[(kind == Edge.NONE) | (without & (kind == Edge.STREAM) & ~around)] = Gap.UNKNOWN
    return reason
