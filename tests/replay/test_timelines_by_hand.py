"""Timelines of two or three kernels: what held each up, what each step took, whom a governor slows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracetool.replay.activities import Activities
from tracetool.replay.edits import Idle, with_idle_closed
from tracetool.replay.gap_causes import Gap
from tracetool.replay.governed_replay import held_at
from tracetool.replay.governor import Governor
from tracetool.replay.graph import Edge, Edges, Graph, assemble
from tracetool.replay.host_edges import Floors, queue_edges
from tracetool.replay.iterations import iterations
from tracetool.replay.longest_path import solve
from tracetool.replay.overlap import Rates, share
from tracetool.replay.range_tree import Costs
from tracetool.replay.time_parts import idle_reasons
from tracetool.replay.timeline import _split
from tracetool.tables.schema import load_schema


def _work(start: list[float], length: list[float], device: list[int] | None = None) -> Activities:
    n = len(start)
    return Activities(
        np.array(start), np.array(length), np.array(device or [0] * n), np.zeros(n, np.int64),
        np.zeros(n, np.int64), np.full(n, -1), np.zeros(n, np.bool_), 0,
    )  # fmt: skip


def _in_a_row(work: Activities, lag_ns: float) -> Graph:
    """Return the graph of a queue of kernels that takes a time from each to the next."""
    rows = np.arange(len(work))
    edges = Edges.of(rows[:-1], rows[1:], np.full(len(work) - 1, lag_ns), Edge.STREAM)
    return assemble(work.start_ns, work.start_ns, work.duration_ns, len(work), [edges])


def test_the_first_of_a_queue_is_held_up_by_nothing() -> None:
    """Kernels of 10, 20 and 5 ns with 2 ns between them, the first now of 15 ns."""
    graph = _in_a_row(_work([100.0, 112.0, 134.0], [10.0, 20.0, 5.0]), 2.0)
    time_ns, binding, released_ns = solve(graph, np.array([15.0, 20.0, 5.0]))
    assert time_ns.tolist() == [100.0, 117.0, 139.0]
    assert binding.tolist() == [-1, 0, 1]
    assert released_ns.tolist() == [-np.inf] * 3


@pytest.mark.parametrize("idle_ns", [1.0, 5.0, 400.0])
def test_idle_time_is_closed_however_short(idle_ns: float) -> None:
    """Two kernels of 10 ns with idle time between them that the first leaves behind."""
    work = _work([0.0, 10.0 + idle_ns], [10.0, 10.0])
    graph = _in_a_row(work, 0.0)
    assert solve(graph, work.duration_ns)[0].tolist() == [0.0, 10.0 + idle_ns]
    shut = with_idle_closed(graph, graph, work, Idle(np.array([1]), np.array([10.0])))
    assert solve(shut, work.duration_ns)[0].tolist() == [0.0, 10.0]


@pytest.mark.parametrize(("start_ns", "kind"), [(5000.0, Edge.STREAM), (5800.0, Edge.STREAM),
                                                (4000.0, Edge.STREAM), (3900.0, Edge.OVERLAP)])  # fmt: skip
def test_clocks_a_microsecond_apart_are_no_overlap(start_ns: float, kind: Edge) -> None:
    """A kernel that ends at 5 us, and the next of its queue: 1 us before its end is what clocks differ by."""
    work = _work([0.0, start_ns], [5000.0, 1000.0])
    found = queue_edges(work, work.end_ns, np.array([-1, 0]), Floors(700.0, 4000.0, 2000.0, 1000.0, 5000.0))
    told = [
        (int(k), lag)
        for edges in found
        for k, lag in zip(edges.kind.tolist(), edges.lag_ns.tolist(), strict=True)
    ]
    assert told == [(int(kind), 700.0 if kind == Edge.STREAM else start_ns)]


def test_nothing_shares_a_gpu_on_which_nothing_runs() -> None:
    rates = Rates(*(np.ones(1) for _ in range(5)))
    none = np.zeros(0)
    alone = share(none, none, np.zeros(0, np.int64), rates)
    assert (alone.base_ns.tolist(), alone.busy_ns, alone.gap_ns.tolist()) == ([0.0], 0.0, [])
    # none of another GPU's, and none that lasts no time
    start = np.array([0.0, 20.0])
    other = share(start, start, np.zeros(2, np.int64), rates)
    assert (other.busy_ns, other.gap_ns.tolist(), other.peak_w) == (0.0, [], alone.peak_w)


def test_a_collective_that_took_no_time_moves_nothing() -> None:
    """One of 8 ns, 6 of them its transfer, now takes 12: 9 of transfer. One of no time stays so."""
    graph: Any = SimpleNamespace(
        met=np.array([0, 1]), node=np.array([0, 1]), transfer=np.array([2, 3]),
        duration_ns=np.array([0.0, 0.0, 6.0, 0.0]),
    )  # fmt: skip
    node_ns = np.array([12.0, 0.0, 0.0, 0.0])
    _split(graph, _work([0.0, 0.0], [8.0, 0.0]), np.array([12.0, 0.0]), node_ns)
    assert node_ns.tolist() == [0.0, 0.0, 9.0, 0.0]


def test_a_governor_holds_the_gpu_that_draws_too_much_and_no_other() -> None:
    """Of two GPUs one draws 400 W for a second, the other 100 W, each under a limit of 300 W."""
    watts = np.array([400.0, 100.0])
    free = Rates(np.ones(2), np.full(2, 50.0), np.zeros(2), np.zeros(2), watts - 50.0)
    capped = replace(free, counts_w=np.minimum(watts, 300.0) - 50.0)
    signature = np.array([0, 1])
    held = held_at(
        signature, np.array([3, 5]), np.zeros(2), np.full(2, 1e9), free=free, capped=capped,
        longer=np.array([1.5, 1.5]), idle_w=50.0, limit_w=300.0, governor=Governor(0.02, 0.01, 0.04, 1.2),
    )  # fmt: skip
    assert held is not None
    assert held.share.tolist() == pytest.approx([1.0, 0.0])
    assert held.of_signature.tolist() == pytest.approx([1.0, 0.0])
    assert held.stretch(signature).tolist() == pytest.approx([1.5, 1.0])


def test_what_a_launch_releases_after_many_collectives_is_still_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two ranks: 600 collectives 2 us apart, then a kernel 2.5 us later, 10 us after its launch.

    2 us from one to the next and 10 us from a launch are the least there is: the queue would have been ready
    half a microsecond before. All collectives were launched long before.
    """
    count, first = 600, 1_000_000
    start = [first + 10_000 * n for n in range(count)] + [first + 10_000 * count + 500]
    launch = [10 * n for n in range(count)] + [start[-1] - 10_000]
    ranks = [
        pl.DataFrame({
            "start_ns": start, "duration_ns": [8_000] * (count + 1), "launch_ns": launch, "device": rank,
            "process": rank, "stream": 7, "kind": "kernel", "name": "a", "signature": [1] * count + [0],
        })
        for rank in (0, 1)
    ]  # fmt: skip
    kernels = load_schema("kernels").conform(pl.concat(ranks))
    collective = kernels["signature"].to_numpy()
    monkeypatch.setattr("tracetool.replay.time_parts.alike_collectives", lambda _: collective - 1)
    run: Any = SimpleNamespace(table=lambda name: load_schema(name).empty())
    reasons, _ = idle_reasons(run, kernels, collective)
    assert reasons[1:count].tolist() == [Gap.COMMUNICATION] * (count - 1)
    assert reasons[[count, 2 * count + 1]].tolist() == [Gap.HOST] * 2


def test_time_and_joules_of_each_step_are_those_of_its_launches() -> None:
    """Two kernels of 2 and 3 ms with 1 ms between them, then one of 4 ms; another comes after both steps."""
    ranges = pl.DataFrame(
        {"name": ["ProfilerStep#0", "ProfilerStep#1"], "start_ns": [0, 100], "duration_ns": [100, 100]}
    )
    kernels = pl.DataFrame({"launch_ns": [10, 50, 150, 900], "signature": [0, 1, 0, 2]})
    start, length = np.array([0.0, 3.0, 10.0, 20.0]) * 1e6, np.array([2.0, 3.0, 4.0, 1.0]) * 1e6
    costs = Costs(start, start + length, np.array([1.0, 0.5, 2.0, 9.0]))
    table = iterations(ranges, ranges.clear(), kernels, costs)
    assert table["launches"].to_list() == [2, 1]
    assert table["span_ms"].to_list() == pytest.approx([6.0, 4.0])
    assert table["device_time_ms"].to_list() == pytest.approx([5.0, 4.0])
    assert table["energy_j"].to_list() == pytest.approx([1.5, 2.0])


def test_three_kernels_share_what_runs_at_each_moment() -> None:
    """From 0, 4 and 6 to 10, 14 and 20 ns, each on half of the SMs: two fill them, three are crowded."""
    half = np.full(3, 0.5)
    rates = Rates(half, np.full(3, 50.0), np.full(3, 10.0), np.zeros(3), np.zeros(3))
    start, end = np.array([0.0, 4.0, 6.0]), np.array([10.0, 14.0, 20.0])
    shared = share(start, end, np.arange(3), rates)
    # alone, two, three, two and one of them: 4, 2, 4, 4 and 6 ns
    assert shared.clock_ns.tolist() == pytest.approx([4 + 2 + 4 / 1.5, 2 + 4 / 1.5 + 4, 4 / 1.5 + 4 + 6])
    assert shared.base_ns.tolist() == pytest.approx([4 + 1 + 4 / 3, 1 + 4 / 3 + 2, 4 / 3 + 2 + 6])
    assert shared.base_ns.sum() == pytest.approx(shared.busy_ns) == pytest.approx(20.0)
