"""Loads in step with the sensor's updates: intervals widen to hold what it never saw."""

from __future__ import annotations

import numpy as np

from benchmarks.beat_energy import trial
from tracetool.core.interval import Z90

SEEDS = 5


def _tried(period_s: float) -> tuple[np.ndarray, np.ndarray]:
    misses, sizes = zip(*(trial(seed, period_s) for seed in range(SEEDS)), strict=True)
    return np.abs(np.stack(misses)) < Z90, np.stack(sizes)


def test_a_load_in_step_with_the_updates_is_held_by_wide_intervals() -> None:
    held, sizes = _tried(0.100)
    assert held[:, :-2].mean() > 0.75  # four classes a load
    assert held[:, -2:].mean() > 0.75
    assert np.median(sizes[:, 0]) > 0.1  # whole classes are never seen


def test_a_load_that_drifts_through_the_updates_is_known() -> None:
    held, sizes = _tried(0.103)
    assert held[:, :-2].mean() > 0.65
    assert held[:, -2:].mean() > 0.75
    assert np.median(sizes[:, 0]) < 0.01
    assert np.median(sizes[:, 1]) < 0.005
