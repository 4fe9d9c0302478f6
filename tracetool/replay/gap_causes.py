"""Why the device was idle: every gap of a replayed timeline gets one reason."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.core.compiled import compiled
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
    UNKNOWN = 5  # not stated by the trace: no launch calls, or nothing recorded held up what was launched


_NO_EDGE, _STREAM, _LAUNCH = int(Edge.NONE), int(Edge.STREAM), int(Edge.LAUNCH)
_HOST, _SYNC, _COMMUNICATION = int(Gap.HOST), int(Gap.SYNC), int(Gap.COMMUNICATION)
_DEPENDENCY, _UNKNOWN = int(Gap.DEPENDENCY), int(Gap.UNKNOWN)

#: Names of the reasons in tables and totals.
NAMES = tuple(g.name.lower() for g in Gap)
#: What each reason is called wherever it is printed: in a prediction's gaps, a time budget, a diagnosis.
WORDS: Final = {
    Gap.HOST: "host-bound",
    Gap.SYNC: "synchronization",
    Gap.COMMUNICATION: "communication",
    Gap.DEPENDENCY: "dependency",
    Gap.TAIL: "idle GPU",
    Gap.UNKNOWN: "unexplained idle",
}


def gap_reasons(
    graph: Graph,
    binding: Numbers,
    released_ns: Floats,
    ends: Ints,
    begins_ns: Floats,
    collective: Bools,
) -> tuple[Ints, Floats]:
    """Return the reason of each gap, a value of :class:`Gap`, and how much of its end has none.

    Parameters
    ----------
    graph : Graph
        The dependency graph.
    binding, released_ns : array, shape (nodes,)
        From :func:`tracetool.replay.longest_path.solve`.
    ends : array of int, shape (g,)
        The activity that ends each gap.
    begins_ns : array, shape (g,)
        When each gap begins. [ns]
    collective : array of bool, shape (activities,)
        Which activities are collectives.

    Returns
    -------
    reason : array of int, shape (g,)
        What the gap waited for.
    late_ns : array, shape (g,)
        How long before its end that was over: from then on ``UNKNOWN``. May be longer than the gap. [ns]

    Notes
    -----
    What released the next activity last decides. A launch means the host: of the kind ``SYNC`` if
    the device had let that host thread go only as the gap began, else ``HOST``. It lasts until the call has
    returned and the usual latency of a launch has passed; an activity that starts yet later was held up by
    something that was not recorded.
    """
    reason = np.empty(len(ends), np.int64)
    compiled(_reasons, len(ends))(
        graph.node,
        binding,
        released_ns,
        graph.kind,
        graph.source,
        graph.activity,
        collective,
        ends,
        begins_ns,
        graph.counts.get("launch", 0) == 0,
        reason,
    )
    return reason, graph.long.late_of(binding[graph.node[ends]], graph.lag_ns)


def _reasons(
    node: Ints,
    binding: Numbers,
    released: Floats,
    kinds: Numbers,
    source: Ints,
    activity: Ints,
    collective: Bools,
    ends: Ints,
    begins: Floats,
    without_calls: bool,
    reason: Ints,
) -> None:
    """Write the reason of each gap, in place."""
    for g in range(len(ends)):
        of_end = node[ends[g]]
        edge = binding[of_end]
        kind = _NO_EDGE if edge < 0 else int(kinds[edge])
        before = -1 if edge < 0 else activity[source[edge]]
        around = collective[ends[g]] or (before >= 0 and collective[before])
        if kind == _NO_EDGE or (without_calls and kind == _STREAM and not around):
            reason[g] = _UNKNOWN
        elif kind == _LAUNCH:
            reason[g] = _SYNC if released[of_end] >= begins[g] - _STILL_HELD_NS else _HOST
        else:
            reason[g] = _COMMUNICATION if around else _DEPENDENCY
