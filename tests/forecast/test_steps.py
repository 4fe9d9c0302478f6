"""A pass as it runs: under a cap, beside its host, and however passes are priced together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracetool.core.errors import BadInput
from tracetool.forecast.figures import IDLE, parts_of
from tracetool.forecast.pricing import PassRows, Row, price
from tracetool.forecast.steps import HostTime, compose, step_power_w
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
ROWS: list[Row] = [
    {"op": "gemm", "module": "up", "count": 4.0, "dtype": "bf16", "m": 4096.0, "n": 8192.0, "k": 4096.0},
    {"op": "elementwise", "module": "act", "count": 4.0, "dtype": "bf16", "elements": 1e6, "reads": 2.0},
    {"op": "gemm", "module": "down", "count": 4.0, "dtype": "bf16", "m": 4096.0, "n": 4096.0, "k": 8192.0},
]
SMALL: list[Row] = [
    {"op": "norm", "module": "norm", "count": 9.0, "dtype": "bf16", "rows": 8.0, "cols": 4096.0}
]


def _pass(rows: list[Row]) -> PassRows:
    return PassRows(rows, GPU, "vllm", GPU.clock_boost_mhz)


def test_passes_priced_together_are_as_each_by_itself() -> None:
    together = price([_pass(ROWS), _pass(SMALL), _pass(ROWS)])
    alone = price([_pass(ROWS)])[0]
    for one in (together[0], together[2]):
        assert one.duration_s == pytest.approx(alone.duration_s)
        assert one.energy_j == pytest.approx(alone.energy_j)
        assert one.counts.tolist() == [4.0, 4.0, 4.0]
    assert together[1].family.tolist() == ["norm"]


def test_a_cap_holds_the_mean_power_and_costs_time() -> None:
    (priced,) = price([_pass(ROWS)], ladder=True)
    free = compose(priced, HostTime(), 1e9)
    steps = [compose(priced, HostTime(), cap) for cap in (600.0, 500.0, 400.0, 300.0)]
    for step, cap in zip(steps, (600.0, 500.0, 400.0, 300.0), strict=True):
        assert step.power_w <= cap * (1 + 1e-6)
    times = [free.time_s, *(s.time_s for s in steps)]
    assert times == sorted(times)
    assert steps[-1].clock_mhz < free.clock_mhz


def test_a_cap_does_not_slow_what_stays_below_it() -> None:
    (priced,) = price([_pass(SMALL)], ladder=True)
    free = float(step_power_w(priced, HostTime())[0])
    assert compose(priced, HostTime(), free * 1.01).time_s == compose(priced, HostTime(), 1e9).time_s


def test_the_host_adds_its_own_time_at_idle_power() -> None:
    (priced,) = price([_pass(ROWS)])
    free = compose(priced, HostTime(), 1e9)
    slow = compose(priced, HostTime(before_s=5e-3), 1e9)
    assert slow.time_s == pytest.approx(free.time_s + 5e-3)
    assert slow.energy_j == pytest.approx(free.energy_j + 5e-3 * free.idle_w)
    hidden = compose(priced, HostTime(beside_s=free.time_s / 10), 1e9)
    assert hidden.time_s == pytest.approx(free.time_s, rel=1e-3)


def test_an_unknown_host_widens_the_interval() -> None:
    (priced,) = price([_pass(SMALL)])
    known = compose(priced, HostTime(before_s=1e-3), 1e9)
    unknown = compose(priced, HostTime(before_s=1e-3, less_s=5e-4, more_s=3e-3), 1e9)
    assert unknown.time_s == known.time_s
    assert unknown.time_up > known.time_up
    assert unknown.time_down > known.time_down


def test_rows_and_idle_time_add_up_to_the_step() -> None:
    (priced,) = price([_pass(ROWS)])
    step = compose(priced, HostTime(before_s=1e-3), 1e9)
    idle = step.idle_w * (step.time_s - step.kernel_s)
    assert step.row_j.sum() + idle == pytest.approx(step.energy_j)
    assert step.row_s.sum() == pytest.approx(step.kernel_s)


def test_a_row_that_cannot_be_priced_is_named() -> None:
    with pytest.raises(BadInput, match="gemm"):
        price(
            [
                replace(
                    _pass(ROWS), rows=[{"op": "gemm", "module": "x", "count": 1.0, "dtype": "bf16", "m": 1.0}]
                )
            ]
        )


def test_intervals_hold_their_figures() -> None:
    (priced,) = price([_pass(ROWS)])
    step = compose(priced, HostTime(), 1e9)
    for width in (step.time_down, step.time_up, step.power_down, step.power_up):
        assert np.isfinite(width)
        assert width > 0


def test_a_host_that_is_hidden_leaves_no_idle_time() -> None:
    """A norm of powers leaves some of any host, however quick: less than a nanosecond a launch is none."""
    (priced,) = price([_pass(ROWS)])
    kernel_s = compose(priced, HostTime(), 1e9).kernel_s
    step = compose(priced, HostTime(beside_s=kernel_s / 7.0), 1e9)
    assert 1e-7 * step.time_s < step.time_s - step.kernel_s < 1e-9 * 12
    assert step.waiting_s == 0.0
    assert all(part.name != IDLE for part in parts_of(step, 100.0))
