"""A pass of operators: the longer of host and device sets its time, and near par both count."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.replay.host import HostCosts
from tracetool.replay.table_totals import Issued, issue


def _made(device_us: float, host_us: float, start_us: float = 0.0) -> Issued:
    costs = HostCosts(start_us * 1e-6, 6e-6, 0.0, {}, 1.0, 1.0, "")
    count = 100
    duration = np.full((count, 1), device_us * 1e-6)
    return issue(duration, np.ones(count), np.full(count, host_us * 1e-6), costs)


def test_a_busy_device_hides_its_host_and_the_start_of_a_pass() -> None:
    made = _made(100.0, 10.0, start_us=1000.0)
    assert made.makespan_s[0] == pytest.approx(100 * 100e-6, rel=1e-3)


def test_a_waiting_device_takes_the_time_of_its_host() -> None:
    made = _made(5.0, 40.0, start_us=1000.0)
    assert made.makespan_s[0] == pytest.approx(5e-3, rel=1e-3)
    assert made.idle_s[0] == pytest.approx(4.5e-3, rel=1e-3)
    assert made.host_s == pytest.approx(5e-3)


def test_at_par_both_cost_an_eighth() -> None:
    made = _made(30.0, 30.0)
    assert made.makespan_s[0] == pytest.approx(3e-3 * 2 ** (1 / 6))


def test_the_makespan_grows_with_either_and_is_never_less() -> None:
    spans = [_made(d, h).makespan_s[0] for d in (1.0, 10.0, 100.0) for h in (0.0, 1.0, 20.0, 300.0)]
    assert (np.diff(np.reshape(spans, (3, 4)), axis=0) >= 0).all()
    assert (np.diff(np.reshape(spans, (3, 4)), axis=1) >= 0).all()
    for d in (1.0, 10.0):
        assert _made(d, 10.0).makespan_s[0] >= max(d, 10.0) * 100e-6


def test_equal_rows_may_be_counted_or_listed() -> None:
    costs = HostCosts(1e-3, 0.0, 0.0, {}, 1.0, 1.0, "")
    listed = issue(np.full((6, 2), 20e-6), np.ones(6), np.full(6, 9e-6), costs)
    counted = issue(np.full((1, 2), 20e-6), np.array([6.0]), np.array([9e-6]), costs)
    assert listed.makespan_s == pytest.approx(counted.makespan_s)


def test_nothing_to_issue_takes_no_time() -> None:
    made = issue(np.zeros((0, 1)), np.zeros(0), np.zeros(0), HostCosts(0.0, 0.0, 0.0, {}, 1.0, 1.0, ""))
    assert made.makespan_s.tolist() == [0.0]
