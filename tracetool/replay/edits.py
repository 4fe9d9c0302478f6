"""Edits of a recorded timeline: idle times closed, ranks that arrive together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.core.compiled import compiled
from tracetool.kernels.collective_matching import Meetings
from tracetool.replay.activities import Activities, rows_of_devices
from tracetool.replay.graph import Graph
from tracetool.replay.longest_path import solve


@dataclass(frozen=True)
class Idle:
    """Idle times of one or more GPUs, each between two activities.

    Parameters
    ----------
    ends : array of int, shape (g,)
        The activity that ends each.
    begins_ns : array, shape (g,)
        When each begins, on the graph's clock. [ns]
    """

    ends: Ints
    begins_ns: Floats

    def with_later(self, later: Idle) -> Idle:
        """Return these idle times and others."""
        return Idle(
            np.concatenate([self.ends, later.ends]), np.concatenate([self.begins_ns, later.begins_ns])
        )


def with_idle_closed(graph: Graph, recorded: Graph, work: Activities, idle: Idle) -> Graph:
    """Return the graph with idle times closed: what held their ends up within them takes no time.

    Parameters
    ----------
    graph : Graph
        The dependencies to edit.
    recorded : Graph
        The same edges with their lags as recorded.
    work : Activities
        The recorded activities.
    idle : Idle
        What is closed.

    Notes
    -----
    From the activity that ends an idle time the edges that were last to release each node are followed back
    to its begin: host calls, launches, queues. Each loses the part within, and so does what else was held up
    through it: the edge of an activity loses what is closed on its GPU, one between calls, as a thread may
    serve several GPUs, what is closed on all. An activity that kept the host or another GPU busy meanwhile
    stays, and so does what follows it.
    """
    if not len(idle.ends):
        return graph
    _, binding, _ = solve(recorded, recorded.duration_ns)
    bound = np.flatnonzero(binding >= 0)
    edge = binding[bound].astype(np.int64)
    until_ns = recorded.time_ns[bound]
    before_ns = [
        _closed_before(recorded, work, idle, nodes=bound, until_ns=t)
        for t in (until_ns - recorded.lag_ns[edge], until_ns)
    ]
    cut_ns = np.zeros(len(recorded.lag_ns))
    cut_ns[edge] = before_ns[1] - before_ns[0]
    node = recorded.node[idle.ends]
    compiled(_cut, len(node))(
        node,
        idle.begins_ns,
        binding,
        recorded.source,
        recorded.lag_ns,
        recorded.time_ns,
        recorded.activity,
        cut_ns,
    )
    lag_ns = np.where(cut_ns > 0, np.minimum(graph.lag_ns, recorded.lag_ns - cut_ns), graph.lag_ns)
    loose = np.flatnonzero(binding < 0)  # what nothing releases keeps its recorded time
    time_ns = graph.time_ns.copy()
    time_ns[loose] -= _closed_before(recorded, work, idle, nodes=loose, until_ns=recorded.time_ns[loose])
    return replace(graph, lag_ns=lag_ns, time_ns=time_ns)


def _cut(
    node: Ints,
    begin: Floats,
    binding: Numbers,
    source: Numbers,
    lag: Floats,
    time: Floats,
    activity: Numbers,
    cut: Floats,
) -> None:
    """Write what each edge loses, in place."""
    for g in range(len(node)):
        i = node[g]
        e = binding[i]
        while e >= 0:
            free = time[i] - lag[e]
            cut[e] = max(cut[e], time[i] - max(free, begin[g]))
            i = source[e]
            if free <= begin[g] or activity[i] >= 0:
                break
            e = binding[i]


def _closed_before(graph: Graph, work: Activities, idle: Idle, *, nodes: Ints, until_ns: Floats) -> Floats:
    """Return the time closed before each node: on its GPU, of host points on all. (n,) [ns]"""
    row = graph.activity[nodes]
    on_all = np.flatnonzero(row < 0)
    on_one = np.flatnonzero(row >= 0)
    own = dict(rows_of_devices(work.device[row[on_one]]))
    of_idle = dict(rows_of_devices(work.device[idle.ends]))
    closed_before_ns = np.zeros(len(nodes))
    closed_before_ns[on_all] = 0.0 if len(of_idle) < work.devices else np.inf
    for device, members in of_idle.items():
        device_idle = np.arange(len(idle.ends)) if members is None else members
        device_idle = device_idle[np.argsort(idle.begins_ns[device_idle], kind="stable")]
        begin_ns = np.append(-np.inf, idle.begins_ns[device_idle])
        length_ns = np.append(0.0, (work.start_ns[idle.ends] - idle.begins_ns)[device_idle])
        before_ns = np.cumsum(length_ns) - length_ns
        own_members = own.get(device, on_one[:0])
        for chosen in (on_all, on_one if own_members is None else on_one[own_members]):
            at = np.searchsorted(begin_ns, until_ns[chosen], side="right") - 1
            closed_ns = before_ns[at] + np.minimum(until_ns[chosen] - begin_ns[at], length_ns[at])
            if chosen is on_all:
                closed_ns = np.minimum(closed_before_ns[chosen], closed_ns)
            closed_before_ns[chosen] = closed_ns
    return closed_before_ns


@dataclass(frozen=True)
class EvenRanks:
    """Changes that make ranks arrive together at the collectives they share.

    Parameters
    ----------
    pace : array, shape (n,)
        Factor on the time of each activity. [1]
    idle : Idle
        Idle times to close.
    """

    pace: Floats
    idle: Idle


def even_ranks(work: Activities, met: Meetings, idle: Idle) -> EvenRanks:
    r"""Return changes so that ranks arrive together: equal work before collectives, the fastest host's pace.

    Parameters
    ----------
    work : Activities
        The recorded activities.
    met : Meetings
        Collectives that waited for one another across devices.
    idle : Idle
        All idle times between activities.

    Notes
    -----
    Of what each GPU ran since its last such collective, busy time is brought to the mean over its ranks: the
    same work, divided otherwise. Idle time of a GPU that comes late is cut to the least of them.
    """
    pace, n = np.ones(len(work)), len(met.member)
    if not n:
        return EvenRanks(pace, Idle(idle.ends[:0], idle.begins_ns[:0]))
    place = np.full(len(work), -1, np.int64)  # the member that ends the stretch of each activity
    is_member = np.zeros(len(work), np.bool_)
    is_member[met.member] = True
    gap_place = np.full(len(idle.ends), -1, np.int64)
    for device in np.unique(work.device[met.member]):
        at = np.flatnonzero(work.device[met.member] == device)
        at = at[np.argsort(work.start_ns[met.member[at]], kind="stable")]
        starts = work.start_ns[met.member[at]]
        device_work = np.flatnonzero((work.device == device) & ~is_member)
        place[device_work] = _next(at, np.searchsorted(starts, work.start_ns[device_work], side="left"))
        gaps = np.flatnonzero(work.device[idle.ends] == device)
        gap_place[gaps] = _next(at, np.searchsorted(starts, work.start_ns[idle.ends[gaps]], side="left"))
    count = np.bincount(met.meeting)
    inside = place >= 0
    busy_ns = np.bincount(place[inside], work.duration_ns[inside], n)
    mean_ns = (np.bincount(met.meeting, busy_ns) / np.maximum(count, 1))[met.meeting]
    factor = np.divide(mean_ns, busy_ns, out=np.ones(n), where=busy_ns > 0)
    pace[inside] = factor[place[inside]]
    length_ns = work.start_ns[idle.ends] - idle.begins_ns
    between = gap_place >= 0
    gap_ns = np.bincount(gap_place[between], length_ns[between], n)
    least_ns = np.full(len(count), np.inf)
    np.minimum.at(least_ns, met.meeting, gap_ns)
    over = np.divide(gap_ns - least_ns[met.meeting], gap_ns, out=np.zeros(n), where=gap_ns > 0)
    share = np.where(between, over[np.maximum(gap_place, 0)], 0.0)
    chosen = np.flatnonzero(share > 0)
    begins_ns = work.start_ns[idle.ends] - share * length_ns
    return EvenRanks(pace, Idle(idle.ends[chosen], begins_ns[chosen]))


def _next(members: Ints, rank: Ints) -> Ints:
    """Return the member at each rank, -1 past the last."""
    return np.where(rank < len(members), members[np.minimum(rank, len(members) - 1)], -1)
