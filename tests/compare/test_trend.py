"""Slow drifts and steps in a history, and quiet on noise."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.compare.trend import find_trend


def test_a_creep_no_pairwise_check_sees_is_found() -> None:
    rng = np.random.default_rng(1)
    made = find_trend(100 * np.exp(0.003 * np.arange(20) + rng.normal(0, 0.005, 20)))
    assert made.step_at is not None or made.drift == pytest.approx(0.06, abs=0.02)
    assert made.sentence()


@pytest.mark.parametrize("at", [4, 10, 15])
def test_a_step_is_found_where_it_is(at: int) -> None:
    rng = np.random.default_rng(at)
    values = 100 * np.exp(rng.normal(0, 0.004, 20) + 0.03 * (np.arange(20) >= at))
    made = find_trend(values)
    assert made.step_at == at
    assert made.step == pytest.approx(0.03, abs=0.008)


def test_noise_is_no_trend() -> None:
    rng = np.random.default_rng(3)
    said = sum(bool(find_trend(100 * np.exp(rng.normal(0, 0.01, 15))).sentence()) for _ in range(300))
    assert said / 300 <= 0.12  # two tests of five per cent each


@pytest.mark.parametrize("n", [0, 1, 5])
def test_too_few_runs_say_nothing(n: int) -> None:
    assert find_trend(np.full(n, 100.0)).sentence() == ""


def test_a_constant_history_says_nothing() -> None:
    assert find_trend(np.full(20, 7.0)).sentence() == ""
