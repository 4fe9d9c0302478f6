"""Interleaving: what ran before a kernel shows in its power as the FinGraV paper draws it."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.measure.fingrav.history import History, context_labels, fit_history_term

CB_8K, CB_2K, MB_8K, MB_4K = 700.0, 450.0, 320.0, 280.0
LIGHT_GAIN, HEAVY_GAIN, MEMORY_S = 0.45, 0.03, 4e-3


def _alone(since_s: np.ndarray, power_w: np.ndarray, excess_w: np.ndarray, run: np.ndarray) -> History:
    """Fit samples of one kernel that saw nothing but what ran before it."""

    def excess_at(memory_s: float) -> np.ndarray:
        return excess_w * np.exp(-since_s / memory_s)

    return fit_history_term(excess_at, np.ones((len(since_s), 1)), power_w, run)[0]


def _sequence(before_w: float, own_w: float, seed: int, runs: int = 250):
    """A kernel after a long row of another: its power starts between the two and forgets."""
    random = np.random.default_rng(seed)
    gain = HEAVY_GAIN if own_w >= 600.0 else LIGHT_GAIN
    since = random.uniform(0.0, 1e-3, runs)
    power = own_w + gain * (before_w - own_w) * np.exp(-since / MEMORY_S)
    return since, power * (1 + 0.015 * random.standard_normal(runs)), np.full(runs, before_w - own_w)


def _fitted(pairs: list[tuple[float, float]], own: float):
    parts = [_sequence(before, own, i) for i, (before, _) in enumerate(pairs)]
    since, power, excess = (np.concatenate(x) for x in zip(*parts, strict=True))
    return _alone(since, power, excess, np.arange(len(since)))


@pytest.mark.parametrize(
    ("before", "own", "direction"),
    [
        (CB_8K, CB_2K, +1),  # a light GEMM after heavy ones draws more than its steady power
        (MB_4K, CB_2K, -1),  # after GEMVs, less
        (MB_4K, MB_8K, -1),  # a GEMV after lighter GEMVs, less
        (CB_8K, MB_4K, +1),  # a GEMV after GEMMs, more
        (CB_2K, CB_8K, 0),  # a heavy GEMM hardly changes
    ],
)
def test_every_direction_of_the_papers_figure(before: float, own: float, direction: int) -> None:
    _, alone, _ = _sequence(own, own, 1)
    _, after, _ = _sequence(before, own, 2)
    change = after.mean() / alone.mean() - 1
    found = _fitted([(before, own), (own, own)], own)
    shown = found.gain * np.sign(before - own)
    if direction:
        assert np.sign(change) == direction
        assert np.sign(shown) == direction
        assert found.gain_low > 0.1
        assert abs(found.gain - LIGHT_GAIN) < 3 * found.gain_sd
        assert found.memory_s == pytest.approx(MEMORY_S, rel=0.25)
    else:
        assert abs(change) < 0.03
        assert found.gain < 0.15
    assert found.power_w == pytest.approx(own, rel=0.02)


def test_labels_say_what_ran_before() -> None:
    start = np.array([0.0, 0.0011, 0.0022, 0.5, 0.5011, 0.9])
    end = start + 1e-3
    power = np.array([700.0, 700.0, 300.0, 300.0, 700.0, 300.0])
    said = context_labels(start, end, power).tolist()
    assert said == ["isolated", "after-alike", "after-heavy", "isolated", "after-light", "isolated"]


def test_labels_of_nothing_are_nothing() -> None:
    assert len(context_labels(np.zeros(0), np.zeros(0), np.zeros(0))) == 0


def test_the_stated_error_is_that_of_few_runs() -> None:
    """Eight runs whose readings lie 5 W off together: over 80 times, the error made is the one stated."""
    away = []
    for seed in range(80):
        random = np.random.default_rng(seed)
        run = np.repeat(np.arange(8), 12)
        since, excess = random.uniform(0.0, 8e-3, 96), random.choice([-300.0, 0.0, 300.0], 96)
        power = 400.0 + LIGHT_GAIN * excess * np.exp(-since / MEMORY_S)
        power += random.normal(0.0, 5.0, 8)[run] + random.normal(0.0, 2.0, 96)
        found = _alone(since, power, excess, run)
        away.append((found.gain - LIGHT_GAIN) / found.gain_sd)
    assert float(np.sqrt(np.mean(np.square(away)))) == pytest.approx(1.0, abs=0.3)
