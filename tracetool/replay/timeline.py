"""A recorded timeline at other durations: start and end of every activity, causes of idle time, energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.replay.activities import Activities
from tracetool.replay.gap_causes import Gap, gap_reasons
from tracetool.replay.graph import Graph
from tracetool.replay.longest_path import solve
from tracetool.replay.overlap import SHORTEST_NS, Rates, share
from tracetool.replay.reused_memory import Memory

#: Differences of sums below this share of the makespan are rounding. [1]
_ROUNDING = 1e-12
#: Rounds in which kernels that are slowed together and the time they overlap settle.
_ROUNDS = 30
#: How far a round may go for each nanosecond that is left to do. [1]
_STRIDE = 1.4
#: Progress is settled to this share of each activity. [1]
_SETTLED = 1e-3


@dataclass(frozen=True)
class Cap:
    """A power limit on each device, and the slowdown by it that the recorded times include."""

    limit_w: float
    speed: Floats | None = None  # (n,) mean speed of each in the recording [1]; None: all at full speed


@dataclass(frozen=True)
class Replayed:
    """The timeline at one clock."""

    makespan_ns: float  # first start to last end of any activity
    kernel_ns: float  # sum of all activities' times
    waiting_ns: float  # of it, what collectives waited for other devices
    moving_ns: float  # of it, what those collectives then took
    slowed_ns: float  # of it, what a cap cost those that ran at once, beyond what it cost each alone
    busy_ns: float  # time with at least one activity, summed over devices
    gap_ns: Floats  # (reasons,) idle time by reason (:class:`Gap`), summed over devices
    gap_count: Floats  # (reasons,)
    base_ns: Floats  # (s,) time each signature answers for the base power
    clock_ns: Floats  # (s,) time each signature's clock tree is paid for
    peak_w: float  # highest power of one device, under the cap
    demand_w: float  # what that would have been without one
    start_ns: Floats  # (n,) start of each activity
    end_ns: Floats  # (n,)
    each_base_ns: Floats  # (n,) base_ns of each activity, empty unless asked for
    each_clock_ns: Floats  # (n,)
    each_reason: Ints  # (n,) why the device stood idle before each activity, where it did (:class:`Gap`)
    each_late_ns: Floats  # (n,) how long before its start that reason was over

    @property
    def idle_ns(self) -> float:
        """Idle time, summed over devices. [ns]"""
        return float(self.gap_ns.sum())


@dataclass(frozen=True)
class _Placed:
    """When everything runs, and what it had waited for."""

    start: Floats
    end: Floats
    binding: Numbers
    released: Floats
    kernel_ns: float
    moving_ns: float
    waiting_ns: float


def replay(
    graph: Graph,
    work: Activities,
    duration_ns: Floats,
    rates: Rates,
    collective: Bools,
    *,
    cap: Cap | None = None,
    each: bool = False,
    memory: Memory | None = None,
) -> Replayed:
    """Replay a timeline with other durations.

    Parameters
    ----------
    graph : Graph
        From :func:`tracetool.replay.dependencies.dependency_graph`.
    work : Activities
        The recorded activities.
    duration_ns : array, shape (n,)
        Their durations now, each as if it ran alone. [ns]
    rates : Rates
        Power of each signature now.
    collective : array of bool, shape (n,)
        Which activities are collectives.
    cap : Cap, optional
        Power limit that activities running at once keep together. Their durations grow until each has
        got as far, at the speeds the limit leaves, as ``duration_ns`` at the recorded speeds.
    each : bool
        Also return every activity's shares of base and clock power.
    memory : Memory, optional
        Memory of an earlier replay to overwrite, the starts and ends it returned included.
    """
    memory = memory or Memory()
    placed = _place(graph, work, duration_ns, memory)
    if cap is None:
        return _cost(graph, work, placed, rates, collective, np.inf, each, 0.0, memory)
    replayed = _cost(graph, work, placed, rates, collective, cap.limit_w, each, 0.0, memory)
    if cap.speed is None and replayed.demand_w <= cap.limit_w:
        return replayed
    longer, placed = _under_cap(graph, work, duration_ns, rates, cap, memory)
    slowed = float(longer.sum() - duration_ns.sum())
    return _cost(graph, work, placed, rates, collective, cap.limit_w, each, slowed, memory)


def at_full_speed(work: Activities, replayed: Replayed, rates: Rates, limit_w: float) -> Floats:
    """Return the time at full speed equivalent to each activity's time under a cap. Shape (n,). [ns]"""
    return _progress(work, replayed.start_ns, replayed.end_ns, rates, limit_w, Memory())


def overlapping(work: Activities) -> bool:
    """Return whether any activity starts before those recorded ahead of it have ended."""
    return bool((np.maximum.accumulate(work.end_ns)[:-1] > work.start_ns[1:]).any())


def recorded_speed(work: Activities, rates: Rates, limit_w: float, met: Numbers) -> Floats | None:
    """Return the slowdown of each activity by a cap in the recording; None where none was slowed. (n,) [1]

    Collectives that met others, ``met``, wait most of their time and are taken to run at full speed.
    """
    done = _progress(work, work.start_ns, work.end_ns, rates, limit_w, Memory())
    speed = np.divide(done, work.duration_ns, out=np.ones(len(work)), where=work.duration_ns > SHORTEST_NS)
    speed[met] = 1.0
    return None if (speed > 1.0 - _SETTLED).all() else speed


def _place(graph: Graph, work: Activities, duration_ns: Floats, memory: Memory) -> _Placed:
    n = len(work)
    start, end = memory.own.take("start", n), memory.own.take("end", n)
    with memory.placing.lock:
        node_ns = memory.placing.take("node", len(graph))
        node_ns.fill(0.0)
        node_ns[graph.node] = duration_ns
        _split(graph, work, duration_ns, node_ns)
        time, binding, released = solve(graph, node_ns, memory)
        np.take(time, graph.node, out=start)
        np.add(start, duration_ns, out=end)
        moving = node_ns[graph.transfer]
        end[graph.met] = time[graph.transfer] + moving
        waiting = float((time[graph.transfer] - start[graph.met]).sum())
    kernels = float(duration_ns.sum() - duration_ns[graph.met].sum() + moving.sum()) + waiting
    return _Placed(start, end, binding, released, kernels, float(moving.sum()), waiting)


def _split(graph: Graph, work: Activities, duration_ns: Floats, node_ns: Floats) -> None:
    """Give matched collectives the time of their transfer alone, in place."""
    if len(graph.met):
        recorded_ns = work.duration_ns[graph.met]
        longer = np.divide(
            duration_ns[graph.met], recorded_ns, out=np.zeros(len(recorded_ns)), where=recorded_ns > 0
        )
        node_ns[graph.node[graph.met]] = 0.0
        node_ns[graph.transfer] = graph.duration_ns[graph.transfer] * longer


def _under_cap(
    graph: Graph, work: Activities, duration_ns: Floats, rates: Rates, cap: Cap, memory: Memory
) -> tuple[Floats, _Placed]:
    """Return durations with which every activity gets as far as it must, and the timeline with them."""
    target_ns = duration_ns if cap.speed is None else duration_ns * cap.speed
    longer = duration_ns.copy()
    lasting = duration_ns > SHORTEST_NS
    lasting[graph.met] = False
    placed = _place(graph, work, longer, memory)
    for _ in range(_ROUNDS):
        done = _progress(work, placed.start, placed.end, rates, cap.limit_w, memory)
        missing_ns = np.where(lasting, target_ns - done, 0.0)
        if (np.abs(missing_ns) <= _SETTLED * target_ns).all():
            break
        # At its end an activity may run at full speed whatever its mean: longer strides would overshoot.
        stride = np.divide(longer, done, out=np.ones(len(work)), where=done > 0)
        longer = np.maximum(longer + missing_ns * np.minimum(stride, _STRIDE), 0.0)
        placed = _place(graph, work, longer, memory)
    return longer, placed


def _progress(
    work: Activities, start: Floats, end: Floats, rates: Rates, cap_w: float, memory: Memory
) -> Floats:
    """Return the time at full speed equivalent to each activity's time under the cap. (n,) [ns]"""
    total = end - start
    scratch = memory.sharing
    for _, members in work.by_device:
        with scratch.lock:
            shared = share(
                start,
                end,
                work.signature,
                rates,
                members=members,
                cap_w=cap_w,
                progress=True,
                scratch=scratch,
            )
            total[shared.rows] = shared.done_ns[shared.rows]
    return np.asarray(total)


def _cost(
    graph: Graph,
    work: Activities,
    placed: _Placed,
    rates: Rates,
    collective: Bools,
    cap_w: float,
    each: bool,
    slowed_ns: float,
    memory: Memory,
) -> Replayed:
    """Return the costs of a placed timeline, and why its devices wait."""
    start, end = placed.start, placed.end
    first, last = float(start.min(initial=np.inf)), float(end.max(initial=-np.inf))
    makespan = max(last - first, 0.0)
    s = len(rates.active)
    base_ns, clock_ns = np.zeros(s), np.zeros(s)
    gap_ns, gap_count = np.zeros(len(Gap)), np.zeros(len(Gap))
    each_base, each_clock = np.zeros((2, len(work) if each else 0))
    each_reason, each_late = np.full(len(each_base), int(Gap.TAIL)), np.zeros(len(each_base))
    busy = peak = demand = 0.0
    for _, members in work.by_device:
        scratch = memory.sharing
        with scratch.lock:
            shared = share(
                start, end, work.signature, rates, members=members, each=each, cap_w=cap_w, scratch=scratch
            )
            reason, late_ns = gap_reasons(
                graph, placed.binding, placed.released, shared.gap_next, shared.gap_from_ns, collective
            )
            late_ns = np.minimum(late_ns, shared.gap_ns)
            gap_ns += np.bincount(reason, weights=shared.gap_ns - late_ns, minlength=len(Gap))
            gap_ns[Gap.UNKNOWN] += float(late_ns.sum())
            gap_count += np.bincount(reason[late_ns < shared.gap_ns], minlength=len(Gap))
            gap_count[Gap.UNKNOWN] += int((late_ns > 0).sum())
            idle = float(shared.gap_ns.sum())
            if each:
                each_base[shared.rows] = shared.each_base_ns[shared.rows]
                each_clock[shared.rows] = shared.each_clock_ns[shared.rows]
                each_reason[shared.gap_next] = reason
                each_late[shared.gap_next] = late_ns
        # Before this device's first activity and after its last one, others set the span.
        tail = makespan - shared.busy_ns - idle
        if tail > _ROUNDING * makespan:
            gap_ns[Gap.TAIL] += tail
            gap_count[Gap.TAIL] += 1
        base_ns += shared.base_ns
        clock_ns += shared.clock_ns
        busy += shared.busy_ns
        peak, demand = max(peak, shared.peak_w), max(demand, shared.demand_w)
    return Replayed(
        makespan,
        placed.kernel_ns,
        placed.waiting_ns,
        placed.moving_ns,
        slowed_ns,
        busy,
        gap_ns,
        gap_count,
        base_ns,
        clock_ns,
        peak,
        demand,
        start,
        end,
        each_base,
        each_clock,
        each_reason,
        each_late,
    )
