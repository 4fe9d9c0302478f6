"""Timelines that were not recorded."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.replay.timelines import Step, played
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.graph import Edge
from tracetool.replay.host import host_costs
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import replay
from tracetool.replay.timeline_variants import launched_as_graphs, launched_one_by_one, without_host_time


def _span(graph: object, work: object) -> float:
    n = len(work)  # type: ignore[arg-type]
    rates = Rates(*(np.ones(n) for _ in range(5)))
    return replay(graph, work, work.duration_ns, rates, np.zeros(n, np.bool_)).makespan_ns  # type: ignore[arg-type,attr-defined]


def test_a_graph_takes_the_host_out_of_launches_but_not_out_of_waits() -> None:
    work, calls = played(
        [*[Step(0, 40_000.0, 10_000.0)] * 10, Step(-1, 2_000.0, 0.0), Step(0, 3e6, 10_000.0)]
    )
    graph, _ = dependency_graph(work, calls)
    eager, one = _span(graph, work), _span(launched_as_graphs(graph, calls, host_costs("graph")), work)
    assert eager - one == pytest.approx(9 * 30_500, rel=0.1)
    assert one > 3e6, "three milliseconds between calls are the program's own"


def test_graph_nodes_issued_one_by_one_wait_for_the_host() -> None:
    work, calls = played([Step(0, 5_000.0, 4_000.0)] * 6)
    one_call = replace(work, call=np.zeros(6, np.int32), in_graph=np.ones(6, np.bool_))
    first = replace(
        calls,
        start_ns=calls.start_ns[:1],
        duration_ns=calls.duration_ns[:1],
        process=calls.process[:1],
        thread=calls.thread[:1],
        waits=calls.waits[:1],
        copies=calls.copies[:1],
        works=calls.works[:1],
    )
    graph, _ = dependency_graph(one_call, first)
    slow = launched_one_by_one(graph, one_call, first, np.full(6, 30_000.0))
    assert _span(slow, one_call) == pytest.approx(5 * 30_000 + 4_000, rel=0.05)
    issued = (slow.lag_ns - graph.lag_ns)[graph.kind == Edge.LAUNCH]
    assert sorted(issued.tolist()) == [30_000.0 * (i + 1) for i in range(6)]
    assert _span(graph, one_call) < 60_000
    assert (
        launched_one_by_one(graph, replace(one_call, in_graph=np.zeros(6, np.bool_)), first, np.ones(6))
        is graph
    )


def test_what_the_host_does_after_a_graph_is_later_by_all_its_nodes() -> None:
    """Three nodes of one launch, 30 us of the host each: the first starts 30 us later, what follows 90."""
    work, calls = played([Step(0, 5_000.0, 4_000.0)] * 4)
    in_graph = np.array([True, True, True, False])
    work = replace(work, call=np.array([0, 0, 0, 1], np.int32), in_graph=in_graph)
    two = np.array([0, 3])
    calls = replace(calls, **{f.name: getattr(calls, f.name)[two] for f in fields(calls)})
    graph, _ = dependency_graph(work, calls)
    slow = launched_one_by_one(graph, work, calls, np.full(4, 30_000.0))
    assert _span(slow, work) - _span(graph, work) == pytest.approx(90_000 - 30_000, rel=0.02)


def test_calls_left_out_cost_the_host_nothing() -> None:
    work, calls = played([Step(0, 50_000.0, 5_000.0)] * 4)
    graph, _ = dependency_graph(work, calls)
    dropped = np.array([False, True, True, False])
    saved = _span(graph, work) - _span(without_host_time(graph, calls, dropped), work)
    assert saved == pytest.approx(2 * 50_000, rel=0.05)
