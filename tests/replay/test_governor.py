"""A governor with a time constant: bursts pass, long phases settle where each kernel by itself does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.core import compiled
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.replay.governed_replay import held_at
from tracetool.replay.governor import Governor, held_share
from tracetool.replay.governor_windows import Windows, held_of_each, windows_of
from tracetool.replay.overlap import Rates
from tracetool.replay.power import PowerCurve, power_curve

LIMIT, IDLE = 350.0, 80.0
GOVERNOR = Governor(0.02, 0.01, 0.04, 1.5)
MS = 1e6


def _rates(*watts: float) -> Rates:
    power = np.array(watts)
    nothing = np.zeros(len(power))
    return Rates(np.ones(len(power)), np.full(len(power), IDLE), nothing, nothing, power - IDLE)


def _held(start_ms: np.ndarray, end_ms: np.ndarray, governor: Governor = GOVERNOR, watts: float = 450.0):
    n = len(start_ms)
    return held_at(
        np.zeros(n, int), np.zeros(n, int), start_ms * MS, end_ms * MS,
        free=_rates(watts), capped=_rates(LIMIT), longer=np.full(1, 1.2), idle_w=IDLE, limit_w=LIMIT,
        governor=governor,
    )  # fmt: skip


def test_a_long_phase_is_the_steady_solution() -> None:
    start = np.arange(0.0, 2000.0, 2.0)
    assert _held(start, start + 2.0) is None  # all of it held: nothing is left to a burst
    # The same behind a second of idle time: all but the first milliseconds.
    held = _held(np.concatenate([[-1000.0], start]), np.concatenate([[-999.9], start + 2.0]))
    assert held is not None
    late = start > 200.0
    np.testing.assert_allclose(held.share[1:][late], 1.0, atol=1e-6)
    before = GOVERNOR.time_constant_s * 1e3 * np.log((450.0 - IDLE) / (450.0 - LIMIT))
    free_ms = float(((1.0 - held.share[1:]) * 2.0).sum())
    assert free_ms == pytest.approx(before, rel=0.02)
    assert held.fast[0] >= held.of_signature[0] >= held.slow[0]


def test_bursts_shorter_than_the_time_constant_run_as_asked_for() -> None:
    start = np.arange(0.0, 2000.0, 50.0)
    assert _held(start, start + 5.0) is not None
    assert not _held(start, start + 5.0).share.any()
    # Bursts as long as several time constants are held at their ends.
    long = np.arange(0.0, 4000.0, 400.0)
    shares = _held(long, long + 200.0).share
    assert (shares > 0.6).all()
    assert (shares < 1.0).all()


@given(
    st.lists(st.tuples(st.floats(60, 600), st.floats(1.0, 2.0)), min_size=1, max_size=60),
    st.floats(0.002, 0.2),
    st.floats(60, 350),
)
@settings(max_examples=150, deadline=None)
def test_the_mean_over_the_time_constant_keeps_the_cap(
    phases: list[tuple[float, float]], tau: float, before: float
) -> None:
    free, longer = (np.array(v) for v in zip(*phases, strict=True))
    windows = Windows(0.0, 2 * MS, free, np.minimum(free, LIMIT), longer)
    share = held_share(windows, LIMIT, tau, before)
    assert ((share >= 0) & (share <= 1)).all()
    assert (share[free <= LIMIT] == 0).all()
    mean, length = before, 2e-3
    for power, factor, held in zip(free, longer, share, strict=True):
        # What is held comes last in a window, as the mean has to reach the cap first.
        work = length * (1.0 - held)
        mean = power + (mean - power) * np.exp(-work / tau) if held == 0 else LIMIT
        assert mean <= LIMIT * (1 + 1e-6)
        assert factor >= 1.0
    faster = held_share(windows, LIMIT, tau / 4, before)
    assert faster.sum() >= share.sum() - 1e-6 or free.max() <= LIMIT


def test_an_activity_takes_the_mean_of_its_windows() -> None:
    windows = Windows(0.0, 10.0, np.zeros(3), np.zeros(3), np.ones(3))
    share = np.array([0.0, 1.0, 0.5])
    start, end = np.array([0.0, 5.0, 12.0, 25.0]), np.array([30.0, 15.0, 12.0, 30.0])
    np.testing.assert_allclose(held_of_each(windows, share, start, end), [0.5, 0.5, 1.0, 0.5])


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_has_a_time_constant_inside_its_interval(name: str) -> None:
    governor = Governor.of(load_gpu(name, part="sensor"))
    assert 0.001 < governor.low_s <= governor.time_constant_s <= governor.high_s < 1.0
    assert governor.burst_share > 1.0


def test_the_measured_gpu_is_surer_than_those_nobody_measured() -> None:
    measured, prior = Governor.of(load_gpu("h100-pcie")), Governor.of(load_gpu("a10"))
    assert measured.high_s / measured.low_s < prior.high_s / prior.low_s


@pytest.mark.parametrize("compile_from", [0, np.inf])
def test_windows_hold_the_energy_of_the_curve(monkeypatch: pytest.MonkeyPatch, compile_from: float) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
    monkeypatch.setattr(compiled, "_turns", [0])
    rng = np.random.default_rng(5)
    n, s = 400, 7
    start = np.sort(rng.uniform(0, 80 * MS, n))
    end = start + rng.uniform(0.0, 2 * MS, n)
    signature, members = rng.integers(0, s, n), np.flatnonzero(rng.random(n) < 0.6)
    free, capped = (
        Rates(rng.uniform(0.2, 1, s), rng.uniform(60, 90, s), rng.uniform(0, 90, s), np.zeros(s), counts)
        for counts in rng.uniform(0, 400, (2, s))
    )
    longer = rng.uniform(1.0, 1.5, s)
    cut = windows_of(
        start, end, signature, members, free=free, capped=capped, longer=longer, idle_w=IDLE, limit_w=LIMIT,
        time_constant_s=0.02,
    )  # fmt: skip
    span = float(start.min()), float(end.max())
    edges = np.linspace(*span, len(cut.free_w) + 1)
    nothing = np.zeros(s)
    factor_rates = Rates(free.active, longer, nothing, nothing, nothing)
    asked, held, factor = (
        power_curve(start, end, signature, rates, idle_w=idle, span_ns=span, members=members, cap_w=cap)
        for rates, idle, cap in ((free, IDLE, np.inf), (capped, IDLE, LIMIT), (factor_rates, 1.0, np.inf))
    )
    stretched = PowerCurve(held.edge_ns, held.power_w * factor.power_w)
    means = [np.diff(c.energy_until(edges, 0.0)) / np.diff(edges) * 1e9 for c in (asked, stretched, factor)]
    np.testing.assert_allclose(cut.free_w, means[0], rtol=1e-9)
    np.testing.assert_allclose(cut.longer, means[2], rtol=1e-9)
    np.testing.assert_allclose(cut.held_w, means[1] / means[2], rtol=1e-9)
    assert cut.held_w.max() <= LIMIT * (1 + 1e-9) < cut.free_w.max()


def test_a_limit_that_cannot_be_kept_leaves_the_mean_above_it() -> None:
    """A second at 400 W under 350, a time constant at 100 W, then 450 W: free until the mean is back."""
    tau = 0.02
    free = np.array([450.0] * 50 + [100.0] + [450.0])
    windows = Windows(0.0, tau * 1e9, free, np.minimum(free, 400.0), np.full(52, 1.25))
    share = held_share(windows, LIMIT, tau, 80.0)
    assert share[2:50].tolist() == pytest.approx([1.0] * 48)
    mean = 100.0 + (400.0 - 100.0) * np.exp(-1.0)
    assert share[-2:].tolist() == pytest.approx([0.0, 1.0 - np.log((450.0 - mean) / (450.0 - LIMIT))])
