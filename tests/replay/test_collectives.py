"""Ranks that wait for one another: the recording split into wait and transfer, and replayed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.kernels.collective_matching import Meetings
from tracetool.kernels.collective_matching import meetings as meetings_of
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import Replayed, replay

MOVES = 7_000.0
HOST = 3_000.0
LATENCY = 4_000.0
GAP = 1_000.0

layers = st.lists(
    st.tuples(st.floats(1_000.0, 90_000.0), st.floats(1_000.0, 90_000.0)), min_size=1, max_size=15
)


def meetings(work: Activities, alike: np.ndarray) -> Meetings:
    return meetings_of(work.start_ns, work.end_ns, work.device, alike)


def two_ranks(layers: list[tuple[float, float]]) -> tuple[Activities, HostCalls]:
    """Return the record of two ranks that compute, then reduce together, layer by layer."""
    rows: list[tuple[float, float, int, int, int]] = []
    calls: list[tuple[float, int]] = []
    free, host = [0.0, 0.0], [0.0, 0.0]
    for times in layers:
        begins = [0.0, 0.0]
        for rank, took in enumerate(times):
            start = max(host[rank] + LATENCY, free[rank] + GAP)
            rows.append((start, took, rank, 0, len(calls)))
            calls.append((host[rank], rank))
            host[rank] += HOST
            begins[rank] = max(host[rank] + LATENCY, start + took + GAP)
        end = max(begins) + MOVES
        for rank in (0, 1):
            rows.append((begins[rank], end - begins[rank], rank, 1, len(calls)))
            calls.append((host[rank], rank))
            host[rank] += HOST
            free[rank] = end
    start, took, device, signature, call = (np.array(c) for c in zip(*rows, strict=True))
    work = Activities(start, took, device, device, signature, call, np.zeros(len(rows), np.bool_), 0)
    began, rank = (np.array(c) for c in zip(*calls, strict=True))
    no = np.zeros(len(calls), np.bool_)
    return work, HostCalls(began, np.full(len(calls), 500.0), rank, rank, no, no, ~no)


def _replayed(
    work: Activities, calls: HostCalls, slower: tuple[float, float], apart: bool = False
) -> Replayed:
    """Replay with each rank's kernels so much slower and the transfers as they were."""
    met = meetings(work, np.where(work.signature == 1, 3, -1))
    graph, _ = dependency_graph(work, calls, met=None if apart else met)
    rates = Rates(*(np.full(2, x) for x in (0.5, 60.0, 20.0, 1e-3, 40.0)))
    duration = work.duration_ns * np.where(work.signature == 0, np.array(slower)[work.device], 1.0)
    return replay(graph, work, duration, rates, work.signature == 1, each=True)


@given(layers)
@settings(max_examples=80, deadline=None)
def test_waits_and_transfers_of_two_ranks_are_told_apart(made: list[tuple[float, float]]) -> None:
    work, calls = two_ranks(made)
    again = _replayed(work, calls, (1.0, 1.0))
    np.testing.assert_allclose(again.start_ns, work.start_ns, atol=1e-3)
    np.testing.assert_allclose(again.end_ns, work.end_ns, atol=1e-3)
    assert again.moving_ns == pytest.approx(2 * len(made) * MOVES)
    truth = work.duration_ns[work.signature == 1].sum() - 2 * len(made) * MOVES
    assert again.waiting_ns == pytest.approx(truth, abs=1e-2)


@given(layers, st.sampled_from([(2.0, 2.0), (0.5, 0.5), (3.0, 1.0), (1.0, 2.5)]))
@settings(max_examples=80, deadline=None)
def test_at_other_durations_the_wait_follows_the_last_to_arrive(
    made: list[tuple[float, float]], slower: tuple[float, float]
) -> None:
    work, calls = two_ranks(made)
    truth, _ = two_ranks([(a * slower[0], b * slower[1]) for a, b in made])
    again = _replayed(work, calls, slower)
    # Floors of launches are low quantiles of the recording: a few microseconds a layer.
    assert again.makespan_ns == pytest.approx(
        truth.end_ns.max() - truth.start_ns.min(), rel=0.02, abs=6_000 * len(made)
    )
    assert again.busy_ns + again.idle_ns == pytest.approx(2 * again.makespan_ns, rel=1e-9)
    assert again.kernel_ns == pytest.approx(float((again.end_ns - again.start_ns).sum()), rel=1e-9)
    assert again.base_ns.sum() == pytest.approx(again.busy_ns, rel=1e-9)


def test_a_faster_rank_waits_longer_not_less() -> None:
    work, calls = two_ranks([(50_000.0, 50_000.0)] * 10)
    uneven = _replayed(work, calls, (0.5, 1.0))
    assert uneven.waiting_ns == pytest.approx(10 * 25_000.0, rel=0.15)
    assert uneven.makespan_ns == pytest.approx(_replayed(work, calls, (1.0, 1.0)).makespan_ns, rel=0.02)


def test_skew_shrinks_with_the_kernels_where_separate_collectives_would_keep_it() -> None:
    work, calls = two_ranks([(80_000.0, 30_000.0)] * 10)
    fast = _replayed(work, calls, (0.5, 0.5))
    assert fast.waiting_ns == pytest.approx(10 * 25_000.0, rel=0.1)
    assert fast.makespan_ns < 0.95 * _replayed(work, calls, (0.5, 0.5), apart=True).makespan_ns


def test_one_rank_meets_nobody_and_other_sizes_are_other_collectives() -> None:
    work, _ = two_ranks([(50_000.0, 20_000.0)] * 4)
    alike = np.where(work.signature == 1, 3, -1)
    assert len(meetings(replace(work, device=np.zeros_like(work.device)), alike).member) == 0
    assert len(meetings(work, np.where(work.device == 1, alike + 1, alike)).member) == 0
    found = meetings(work, alike)
    assert len(found.member) == 8
    assert len(found.arrival_ns) == 4


def test_a_recording_cut_at_its_front_still_pairs_what_overlaps() -> None:
    work, _ = two_ranks([(50_000.0, 20_000.0)] * 4)
    alike = np.where(work.signature == 1, 3, -1)
    first = np.flatnonzero((alike >= 0) & (work.device == 0))[0]
    alike[first] = -1
    found = meetings(work, alike)
    assert len(found.arrival_ns) == 3
    assert (np.bincount(found.meeting) == 2).all()
