"""Power over time adds up to the energies, keeps the cap at every moment, and passes the sensor's window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replay.timelines import Step, played, steps
from tracetool.hardware.load import load_gpu
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.overlap import Rates
from tracetool.replay.power import PowerCurve, count_weights, power_curve, sensor_view
from tracetool.replay.timeline import Cap, at_full_speed, replay
from tracetool.replay.totals import peak_together_w

LIMIT, IDLE = 305.0, 55.0


def _rates(n: int, duration: np.ndarray, seed: int) -> Rates:
    """Return rates in which each activity alone stays under 300 W."""
    rng = np.random.default_rng(seed)
    watts = rng.uniform(10.0, 180.0, n)
    joules = watts * duration * 1e-9
    return Rates(rng.uniform(0, 1, n), np.full(n, 60.0), rng.uniform(0, 60.0, n), joules, watts)


@given(steps, st.integers(0, 99), st.floats(0.3, 3.0), st.sampled_from([np.inf, LIMIT]))
@settings(max_examples=150, deadline=None)
def test_the_curve_holds_kernels_and_gaps_and_keeps_the_cap(
    made: list[Step], seed: int, slower: float, limit: float
) -> None:
    work, calls = played(made)
    graph, _ = dependency_graph(work, calls)
    duration = work.duration_ns * slower
    n = len(work)
    rates = _rates(n, duration, seed)
    found = replay(graph, work, duration, rates, np.zeros(n, np.bool_), cap=Cap(limit), each=True)
    weight = count_weights(at_full_speed(work, found, rates, limit), np.ones(n), work.signature, rates)
    span = float(found.start_ns.min()), float(found.end_ns.max())
    curve = power_curve(
        found.start_ns, found.end_ns, work.signature, rates,
        idle_w=IDLE, span_ns=span, cap_w=limit, weight=weight,
    )  # fmt: skip
    shares = (rates.base_w @ found.base_ns + rates.clock_w @ found.clock_ns) * 1e-9
    assert curve.energy_j == pytest.approx(
        shares + rates.counts_j.sum() + IDLE * found.idle_ns * 1e-9, rel=1e-9
    )
    assert curve.edge_ns[[0, -1]].tolist() == list(span)
    assert (np.diff(curve.edge_ns) > 0).all()
    if limit < np.inf:
        # What is settled to a thousandth may pass the cap by as much.
        assert curve.power_w.max() <= limit * 1.002
    else:
        np.testing.assert_allclose(weight, 1.0)
        assert curve.power_w.max() == pytest.approx(max(found.peak_w, curve.power_w.max()))


def test_equal_times_of_unequal_launches_share_the_energy_by_time() -> None:
    start, end = np.array([0.0, 30.0]), np.array([10.0, 50.0])
    rates = Rates(np.ones(1), np.zeros(1), np.zeros(1), np.full(1, 3e-6), np.full(1, 200.0))
    weight = count_weights(end - start, np.ones(2), np.zeros(2, int), rates)
    curve = power_curve(start, end, np.zeros(2, int), rates, idle_w=20.0, span_ns=(0.0, 60.0), weight=weight)
    np.testing.assert_allclose(curve.power_w, [200.0, 20.0, 200.0, 20.0])
    np.testing.assert_allclose(curve.edge_ns, [0, 10, 30, 50, 60])


def test_nothing_running_is_idle() -> None:
    none = np.zeros(0)
    rates = Rates(np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1))
    curve = power_curve(none, none, np.zeros(0, int), rates, idle_w=20.0, span_ns=(0.0, 1e9))
    assert curve.energy_j == pytest.approx(20.0)


def test_a_reading_is_the_mean_over_the_window() -> None:
    sensor = replace(load_gpu("a100-sxm").sensor("draw"), gain=0.95, offset_w=7.0)
    curve = PowerCurve(np.array([0.0, 1e9, 2e9]), np.array([300.0, 50.0]))
    time, power = sensor_view(curve, sensor, 50.0)
    assert np.all(np.diff(time) > 0)
    inside = (time > (sensor.window_s + sensor.delay_s) * 1e9) & (time < 1e9)
    np.testing.assert_allclose(power[inside], sensor.gain * 300.0 + sensor.offset_w)
    assert power[-1] == pytest.approx(sensor.gain * 50.0 + sensor.offset_w)


@given(st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=9), min_size=1, max_size=6), st.data())
@settings(max_examples=150, deadline=None)
def test_the_highest_moment_of_several_gpus_is_found_exactly(
    lengths: list[list[int]], data: st.DataObject
) -> None:
    """Lengths of nothing and powers that tie are among them."""
    curves = {}
    for device, each_ns in enumerate(lengths):
        watts = data.draw(
            st.lists(st.sampled_from([0.1, 90.3, 300.7, 689.5]), min_size=len(each_ns), max_size=len(each_ns))
        )
        curves[device] = PowerCurve(np.append(0.0, np.cumsum(each_ns, dtype=np.float64)), np.array(watts))
    moments = np.unique(np.concatenate([c.edge_ns[:-1] for c in curves.values()]))
    together = np.zeros(len(moments))
    for c in curves.values():
        at = np.searchsorted(c.edge_ns, moments, side="right") - 1
        together += c.power_w[np.minimum(at, len(c.power_w) - 1)]
    assert peak_together_w(curves) == together.max()
