"""Orders carried from clock to clock, and two clocks replayed at a time, give what one by one gives."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replay.timelines import Step, played
from tracetool.replay import overlap, reused_memory
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.overlap import Rates
from tracetool.replay.reused_memory import Memory, Scratch, at_each
from tracetool.replay.timeline import Cap, Replayed, replay

times = st.lists(st.integers(0, 6), min_size=1, max_size=25)


def _wrapped(function):
    """Return another function than the module's own: that is what a compiled one is."""
    return partial(function)


@given(st.lists(times, min_size=1, max_size=4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_carried_order_is_a_stable_sort(rounds: list[list[int]], some: bool) -> None:
    settle = overlap._settle
    kept = Scratch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "compiled", lambda f, n: _wrapped(settle))
        for made in rounds:
            time = np.array(made, np.float64)
            rows = np.flatnonzero(time > 2) if some else None
            found = overlap.in_order(time, rows, kept, "x")
            known = np.arange(len(time)) if rows is None else rows
            assert found.tolist() == known[np.argsort(time[known], kind="stable")].tolist()


def test_an_order_turned_round_is_sorted_anew() -> None:
    time = np.arange(400.0)[::-1].copy()
    assert not overlap._settle(np.arange(400, dtype=np.int32), time, 8 * 400)
    with pytest.MonkeyPatch.context() as patch:
        settle = overlap._settle
        patch.setattr(overlap, "compiled", lambda f, n: _wrapped(settle))
        assert overlap.in_order(time, None, Scratch(), "x").tolist() == list(range(400))[::-1]


@pytest.mark.parametrize("limit", [np.inf, 150.0])
def test_two_clocks_at_a_time_give_what_one_by_one_gives(
    monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    rng = np.random.default_rng(6)
    stream, host, kernel = rng.integers(-1, 3, 300), rng.uniform(2e3, 3e4, 300), rng.uniform(1e3, 2e5, 300)
    made = [Step(int(s), float(h), float(k)) for s, h, k in zip(stream, host, kernel, strict=True)]
    work, calls = played(made)
    graph, _ = dependency_graph(work, calls)
    n = len(work)
    watts = rng.uniform(10.0, 80.0, n)
    rates = Rates(np.full(n, 0.6), np.full(n, 60.0), np.full(n, 10.0), watts * work.duration_ns * 1e-9, watts)

    def job(j: int, memory: Memory) -> tuple[float, float, float, list[float]]:
        duration = work.duration_ns * (1 + 0.2 * j)
        found: Replayed = replay(
            graph, work, duration, rates, np.zeros(n, np.bool_), cap=Cap(limit), memory=memory
        )
        return found.makespan_ns, found.busy_ns, found.peak_w, found.gap_ns.tolist()

    one = [job(j, Memory()) for j in range(8)]
    assert at_each(8, job, Memory(), n) == one
    monkeypatch.setattr(reused_memory, "_MANY", 1)
    monkeypatch.setattr(reused_memory.os, "cpu_count", lambda: 2)
    assert at_each(8, job, Memory(), n) == one
