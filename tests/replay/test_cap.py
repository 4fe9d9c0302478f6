"""Activities that run at once keep a power cap together; alone or under it nothing changes."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetool as tt
from tests.replay.timelines import Step, played, steps
from tracetool.core.arrays import Floats
from tracetool.replay.activities import Activities, HostCalls
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import Cap, Replayed, recorded_speed, replay

BASE = 60.0
NOBODY = np.zeros(0, np.int32)


def _rates(work: Activities, duration: Floats, seed: int) -> Rates:
    """Return rates in which each activity alone stays under 300 W."""
    rng = np.random.default_rng(seed)
    n = len(work)
    watts = rng.uniform(10.0, 180.0, n)
    return Rates(
        rng.uniform(0, 1, n), np.full(n, BASE), rng.uniform(0, 60.0, n), watts * duration * 1e-9, watts
    )


def _replayed(
    work: Activities, calls: HostCalls, rates: Rates, duration: Floats, cap: Cap | None = None
) -> Replayed:
    graph, _ = dependency_graph(work, calls)
    return replay(graph, work, duration, rates, np.zeros(len(work), np.bool_), cap=cap, each=True)


def _drawn(made: Replayed, rates: Rates, limit_w: float) -> tuple[float, float, Floats]:
    """Return energy, highest power and each activity's progress, moment by moment under a limit."""
    active = np.maximum(rates.active, 0.01)
    energy = peak = 0.0
    done = np.zeros(len(made.start_ns))
    for low, high in itertools.pairwise(np.unique(np.concatenate([made.start_ns, made.end_ns]))):
        on = (made.start_ns <= low) & (made.end_ns >= high)
        if not on.any():
            continue
        floor = (active[on] * rates.base_w[on]).sum() / active[on].sum()
        moved = rates.clock_w[on].sum() / max(1.0, active[on].sum()) + rates.counts_w[on].sum()
        speed = min(1.0, (limit_w - floor) / moved)
        energy += (floor + moved * speed) * (high - low) * 1e-9
        peak = max(peak, floor + moved * speed)
        done[on] += speed * (high - low)
    return energy, peak, done


@given(steps, st.integers(0, 99), st.floats(0.3, 3.0))
@settings(max_examples=120, deadline=None)
def test_together_they_keep_the_cap_and_get_done(made: list[Step], seed: int, slower: float) -> None:
    work, calls = played(made)
    duration = work.duration_ns * slower
    rates = _rates(work, duration, seed)
    limit = 305.0
    capped = _replayed(work, calls, rates, duration, Cap(limit))
    assert capped.peak_w <= limit * (1 + 1e-12)
    energy, peak, done = _drawn(capped, rates, limit)
    assert capped.peak_w == pytest.approx(peak, rel=1e-9)
    np.testing.assert_allclose(done, duration, rtol=5e-3)
    assert capped.slowed_ns == pytest.approx(float((capped.end_ns - capped.start_ns - duration).sum()), abs=1)
    total = (rates.base_w @ capped.base_ns + rates.clock_w @ capped.clock_ns) * 1e-9 + rates.counts_j.sum()
    assert total == pytest.approx(energy, rel=5e-3)
    assert capped.busy_ns + capped.idle_ns == pytest.approx(capped.makespan_ns, rel=1e-9)
    assert capped.base_ns.sum() == pytest.approx(capped.busy_ns, rel=1e-9)
    assert capped.each_clock_ns.sum() == pytest.approx(capped.clock_ns.sum(), rel=1e-9)
    free = _replayed(work, calls, rates, duration)
    assert free.demand_w == pytest.approx(free.peak_w)
    if free.peak_w <= limit:
        np.testing.assert_array_equal(capped.start_ns, free.start_ns)
        assert capped.slowed_ns == 0.0
    else:
        assert capped.peak_w == pytest.approx(limit)
        assert capped.makespan_ns >= free.makespan_ns * (1 - 1e-9)


@given(steps, st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_what_was_recorded_under_a_cap_comes_back_under_it(made: list[Step], seed: int) -> None:
    work, calls = played(made)
    rates = _rates(work, work.duration_ns, seed)
    limit = 305.0
    speed = recorded_speed(work, rates, limit, NOBODY)
    again = _replayed(work, calls, rates, work.duration_ns, Cap(limit, speed))
    np.testing.assert_allclose(again.end_ns, work.end_ns, rtol=1e-3, atol=100.0)
    assert again.peak_w <= limit * (1 + 1e-12)
    if speed is not None:
        # Without the cap the same work is done sooner.
        freed = _replayed(work, calls, rates, work.duration_ns, Cap(1e9, speed))
        assert freed.makespan_ns <= again.makespan_ns * (1 + 1e-6)
        assert freed.slowed_ns < 0.0


def test_two_kernels_side_by_side_take_as_long_as_their_power_over_the_cap() -> None:
    work, calls = played([Step(0, 1_000.0, 1e6), Step(1, 1_000.0, 1e6)])
    rates = Rates(np.full(2, 0.5), np.full(2, 60.0), np.zeros(2), np.full(2, 0.2), np.full(2, 200.0))
    made = _replayed(work, calls, rates, work.duration_ns, Cap(260.0))
    # Together 460 W: what moves runs at half speed while both run.
    assert made.end_ns[0] - made.start_ns[0] == pytest.approx(2e6, rel=0.01)
    assert made.peak_w == pytest.approx(260.0)
    alone = _replayed(
        *played([Step(0, 1_000.0, 1e6), Step(0, 1_000.0, 1e6)]), rates, np.full(2, 1e6), Cap(261.0)
    )
    assert alone.slowed_ns == 0.0


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("cap_w", [60, 120, 200])
def test_rows_with_and_without_counters_are_capped_as_each_alone(order: tuple[str, str], cap_w: int) -> None:
    """Counters know fewer units than names do: rows of both kinds may stand in one table under a cap."""
    rows = pl.DataFrame({
        "kernel": ["a", "b"], "duration_us": [1000, 500], "power_w": [240, 70], "clock_mhz": [1200, 1200],
        "act_sm": [0.9, None], "act_dram": [0.2, None], "act_fp32": [0.9, None],
    })  # fmt: skip

    def capped(table: pl.DataFrame) -> dict[str, tuple[float, ...]]:
        found = tt.predict(table, gpu="v100-pcie", clock=[1000, 1380], power_cap=cap_w).rows(None)
        shown = found.select("kernel", "clock_mhz", "clock_actual_mhz", "duration_us", "energy_mj")
        return {f"{kernel} {clock:g}": tuple(figures) for kernel, clock, *figures in shown.rows()}

    together = capped(pl.concat([rows.filter(pl.col("kernel") == name) for name in order]))
    alone = {k: v for name in order for k, v in capped(rows.filter(pl.col("kernel") == name)).items()}
    assert len(together) == 4
    for key, figures in alone.items():
        assert together[key] == pytest.approx(figures, rel=1e-9), key
