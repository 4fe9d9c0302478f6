"""Compiled loops give what the plain ones give."""

from __future__ import annotations

import numpy as np
import pytest

from tests.replay.timelines import Step, played
from tracetool.core import compiled
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import Replayed, replay


def _replayed(monkeypatch: pytest.MonkeyPatch, start_at: float) -> Replayed:
    monkeypatch.setattr(compiled, "COMPILE_FROM", start_at)
    monkeypatch.setattr(compiled, "_turns", [0])
    rng = np.random.default_rng(3)
    steps = [
        Step(int(s), float(h), float(k), late_ns=float(late))
        for s, h, k, late in zip(
            rng.integers(-1, 3, 300), rng.uniform(2e3, 4e4, 300), rng.uniform(1e3, 9e4, 300),
            rng.choice([0.0, 0.0, 0.0, 2e5], 300), strict=True,
        )
    ]  # fmt: skip
    work, calls = played(steps)
    graph, _ = dependency_graph(work, calls)
    n = len(work)
    rates = Rates(rng.uniform(0, 1, n), np.full(n, 50.0), rng.uniform(0, 30, n), np.zeros(n), np.full(n, 9.0))
    return replay(graph, work, work.duration_ns * 1.7, rates, np.zeros(n, np.bool_), each=True)


def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, fast = _replayed(monkeypatch, np.inf), _replayed(monkeypatch, 0)
    assert plain.each_late_ns.max() > 1e5
    np.testing.assert_array_equal(fast.each_reason, plain.each_reason)
    for name in (
        "start_ns",
        "end_ns",
        "gap_ns",
        "gap_count",
        "base_ns",
        "clock_ns",
        "each_base_ns",
        "each_late_ns",
    ):
        np.testing.assert_allclose(getattr(fast, name), getattr(plain, name), rtol=1e-12, atol=1e-6)
    assert fast.makespan_ns == pytest.approx(plain.makespan_ns, rel=1e-12)
    assert fast.peak_w == pytest.approx(plain.peak_w, rel=1e-12)
