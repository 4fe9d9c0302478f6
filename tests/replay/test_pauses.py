"""Kernels of different moments are no timeline; real idleness is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracetool.replay.activities import Activities, without_pauses

SECOND = 1e9


def _work(start_s: list[float], took_s: float = 1e-3, call: int = -1) -> Activities:
    n = len(start_s)
    zeros = np.zeros(n, np.int32)
    start = np.array(start_s) * SECOND
    took = np.full(n, took_s * SECOND)
    return Activities(start, took, zeros, zeros, zeros, np.full(n, call), np.zeros(n, np.bool_), 0)


def test_hours_between_three_kernels_are_left_out() -> None:
    work, pauses = without_pauses(_work([0.0, 7200.0, 7200.5, 14000.0]))
    assert pauses.count == 2
    assert pauses.total_ns == pytest.approx((14000.0 - 0.5 - 3e-3 + 1e-3) * SECOND, rel=1e-9)
    np.testing.assert_allclose(work.start_ns / SECOND, [0.0, 1e-3, 0.501, 0.502], atol=1e-6)


@pytest.mark.parametrize(
    "kept",
    [
        _work([0.0, 5.0, 9.0]),  # seconds: a program that loads data
        _work([0.0, 100.0], took_s=2.0),  # idle, but not for long beside its work
        _work([0.0, 7200.0], call=0),  # the host was seen to do nothing
    ],
)
def test_what_can_be_one_program_stays(kept: Activities) -> None:
    work, pauses = without_pauses(replace(kept))
    assert pauses.count == 0
    assert work.start_ns is kept.start_ns
