"""Edits of a timeline: closed idle times are not in the replay, even ranks do not wait."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replay.test_collectives import HOST, LATENCY, MOVES, meetings, two_ranks
from tests.replay.timelines import Step, played
from tests.replay.timelines import steps as any_steps
from tracetool.kernels.collective_matching import Meetings
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.edits import Idle, even_ranks, with_idle_closed
from tracetool.replay.overlap import Rates
from tracetool.replay.time_parts import idle_times
from tracetool.replay.timeline import Replayed, replay

NOBODY = Meetings(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
MILLI = 1e6


def idle_of(work: Activities, longer_ns: float = 0.0) -> Idle:
    """Return the idle times of every device that last longer."""
    ends, begins = [], []
    for device in np.unique(work.device):
        rows = np.flatnonzero(work.device == device)
        idle = idle_times(work.start_ns[rows], work.end_ns[rows], rows, (0, int(work.end_ns.max())))
        at = (idle.before >= 0) & (idle.after >= 0) & (idle.end_ns - idle.start_ns > longer_ns)
        ends.append(idle.before[at])
        begins.append(work.end_ns[idle.after[at]])
    return Idle(np.concatenate(ends), np.concatenate(begins))


def without(
    work: Activities, calls: HostCalls, idle: Idle, met: Meetings = NOBODY, pace: object = 1.0
) -> Replayed:
    graph, _ = dependency_graph(work, calls, met=met)
    s = int(work.signature.max()) + 1
    rates = Rates(*(np.ones(s) for _ in range(5)))
    collective = np.isin(np.arange(len(work)), met.member)
    edited = with_idle_closed(graph, graph, work, idle)
    return replay(edited, work, work.duration_ns * pace, rates, collective)


@settings(max_examples=25, deadline=None)
@given(any_steps)
def test_closed_idle_time_is_gone(steps: list[Step]) -> None:
    work, calls = played(steps)
    idle = idle_of(work)
    before, after = without(work, calls, idle_of(work, np.inf)), without(work, calls, idle)
    recorded_ns = float((work.start_ns[idle.ends] - idle.begins_ns).sum())
    assert before.idle_ns == pytest.approx(recorded_ns, abs=1.0)
    assert after.makespan_ns <= before.makespan_ns
    assert after.kernel_ns == pytest.approx(before.kernel_ns)
    # what another queue's launch or the order on a queue still asks for is a few microseconds
    assert after.idle_ns <= 10_000.0 * len(idle.ends)


def test_what_is_not_closed_stays() -> None:
    work, calls = played([Step(0, ns, 2 * MILLI) for ns in (5e3, 9 * MILLI, 4 * MILLI, 7 * MILLI)])
    long = idle_of(work, 4 * MILLI)
    after = without(work, calls, long)
    lengths = work.start_ns[1:] - work.end_ns[:-1]
    assert after.gap_ns.sum() == pytest.approx(lengths[lengths <= 4 * MILLI].sum(), abs=20e3)
    assert after.makespan_ns == pytest.approx(
        work.end_ns[-1] - work.start_ns[0] - lengths[lengths > 4 * MILLI].sum(), abs=20e3
    )


def test_idle_time_without_calls_is_closed_too() -> None:
    work, _ = played([Step(s, 3 * MILLI, MILLI) for s in (0, 0, 1, 0, 1)])
    none = np.zeros(0)
    calls = HostCalls(none, none, none, none, *(np.zeros(0, np.bool_) for _ in range(3)))
    bare = Activities(
        work.start_ns,
        work.duration_ns,
        work.device,
        work.queue,
        work.signature,
        np.full(len(work), -1),
        work.in_graph,
        0,
    )
    assert without(bare, calls, idle_of(bare)).idle_ns <= 10_000.0 * len(work)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(50e3, 900e3), st.floats(50e3, 900e3)), min_size=2, max_size=8))
def test_even_ranks_do_not_wait(layers: list[tuple[float, float]]) -> None:
    work, calls = two_ranks(layers)
    met = meetings(work, np.where(work.signature == 1, 0, -1))
    even = even_ranks(work, met, idle_of(work))
    before, after = (
        without(work, calls, idle_of(work, np.inf), met),
        without(work, calls, even.idle, met, even.pace),
    )
    assert before.waiting_ns == pytest.approx(sum(abs(a - b) for a, b in layers), rel=0.01, abs=10e3)
    assert after.waiting_ns <= len(layers) * (HOST + LATENCY)
    computes = work.signature == 0
    told = (work.duration_ns * even.pace)[computes].sum()
    assert told == pytest.approx(sum(map(sum, layers)), rel=1e-9), "the same work, divided otherwise"
    mean_ns = sum(map(sum, layers)) / 2 + len(layers) * MOVES
    assert after.makespan_ns == pytest.approx(mean_ns, rel=0.1)
