"""The replay against a direct simulation of host and streams, and its conservation laws."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replay.timelines import Step, played, steps
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.gap_causes import Gap
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import replay


def _rates(n: int, seed: int = 0) -> Rates:
    rng = np.random.default_rng(seed)
    return Rates(
        rng.uniform(0, 1, n), np.full(n, 60.0), rng.uniform(0, 50, n), rng.uniform(0, 1e-3, n), np.zeros(n)
    )


def _none(n: int) -> np.ndarray:
    return np.zeros(n, np.bool_)


@given(steps)
@settings(max_examples=150, deadline=None)
def test_recorded_durations_give_the_recording_back(made: list[Step]) -> None:
    work, calls = played(made)
    graph, _ = dependency_graph(work, calls)
    again = replay(graph, work, work.duration_ns, _rates(len(work)), _none(len(work)))
    np.testing.assert_allclose(again.start_ns, work.start_ns, atol=1e-3)
    assert again.makespan_ns == pytest.approx(np.ptp([work.start_ns.min(), work.end_ns.max()]), rel=1e-9)


@given(steps, st.sampled_from([1.3, 2.0, 5.0]))
@settings(max_examples=150, deadline=None)
def test_slower_kernels_wait_as_the_simulation_says(made: list[Step], slower: float) -> None:
    """Waits, queues and host time of a one-stream program are known well enough to predict it."""
    one = [replace(s, stream=min(s.stream, 0)) for s in made]
    work, calls = played(one)
    truth, _ = played([replace(s, kernel_ns=s.kernel_ns * slower) for s in one])
    graph, _ = dependency_graph(work, calls)
    again = replay(graph, work, work.duration_ns * slower, _rates(len(work)), _none(len(work)))
    # Floors of launches and waits are estimated from the recording: a few microseconds a kernel.
    assert again.makespan_ns == pytest.approx(truth.end_ns.max() - truth.start_ns.min(), rel=0.02, abs=12_000)


@given(steps, st.integers(0, 99), st.floats(0.2, 4.0))
@settings(max_examples=200, deadline=None)
def test_kernels_and_gaps_add_up_to_the_device(made: list[Step], seed: int, slower: float) -> None:
    work, calls = played(made)
    graph, _ = dependency_graph(work, calls)
    rates = _rates(len(work), seed)
    again = replay(graph, work, work.duration_ns * slower, rates, _none(len(work)), each=True)
    assert again.busy_ns + again.idle_ns == pytest.approx(again.makespan_ns, rel=1e-9)
    assert again.base_ns.sum() == pytest.approx(again.busy_ns, rel=1e-9)
    assert again.each_base_ns.sum() == pytest.approx(again.base_ns.sum(), rel=1e-9)
    assert again.each_clock_ns.sum() == pytest.approx(again.clock_ns.sum(), rel=1e-9)
    # The same energy, integrated moment by moment over the union of all starts and ends.
    energy = (rates.base_w @ again.base_ns + rates.clock_w @ again.clock_ns) * 1e-9 + rates.counts_j.sum()
    assert energy == pytest.approx(_integrated(again.start_ns, again.end_ns, rates), rel=1e-9)


def _integrated(start: np.ndarray, end: np.ndarray, rates: Rates) -> float:
    edges = np.unique(np.concatenate([start, end]))
    active = np.maximum(rates.active, 0.01)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        on = (start <= low) & (end >= high) & (end > start)
        if not on.any():
            continue
        base = (active[on] * rates.base_w[on]).sum() / active[on].sum()
        clock = rates.clock_w[on].sum() / max(1.0, active[on].sum())
        counts = (rates.counts_j[on] / ((end[on] - start[on]) * 1e-9)).sum()
        total += (base + clock + counts) * (high - low) * 1e-9
    return total


def test_a_host_bound_run_hardly_feels_the_clock() -> None:
    work, calls = played([Step(0, 50_000.0, 5_000.0)] * 50)
    graph, _ = dependency_graph(work, calls)
    recorded = replay(graph, work, work.duration_ns, _rates(len(work)), _none(len(work)))
    slower = replay(graph, work, work.duration_ns * 2, _rates(len(work)), _none(len(work)))
    assert slower.makespan_ns < recorded.makespan_ns * 1.01
    assert recorded.gap_ns[Gap.HOST] > 0.8 * recorded.makespan_ns


def test_a_gap_behind_a_wait_is_a_synchronization() -> None:
    work, calls = played([Step(0, 5_000.0, 90_000.0), Step(-1, 2_000.0, 0.0)] * 20)
    graph, _ = dependency_graph(work, calls)
    made = replay(graph, work, work.duration_ns, _rates(len(work)), _none(len(work)))
    assert made.gap_ns[Gap.SYNC] == pytest.approx(made.idle_ns, rel=1e-6)
    assert made.idle_ns > 0


def test_two_devices_share_the_span_and_the_rest_is_tail() -> None:
    work, calls = played([Step(0, 5_000.0, 100_000.0), Step(1, 5_000.0, 10_000.0)])
    work = replace(work, device=work.queue.copy())
    graph, _ = dependency_graph(work, calls)
    made = replay(graph, work, work.duration_ns, _rates(2), _none(2))
    assert made.gap_ns[Gap.TAIL] == pytest.approx(2 * made.makespan_ns - made.busy_ns, rel=1e-9)
