"""False alarms, finds and detectable changes, with run-to-run offsets planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetool.compare.significance import (
    ALPHA,
    PRIOR,
    Judging,
    Spread,
    compare_means,
    corrected,
    detectable,
    effects_of,
    given_error,
    judge,
)

LIMIT = 0.02
SPREAD = 0.01
FAMILIES = 6


def runs(rng: np.random.Generator, n: int, trials: int, planted: float = 0.0) -> np.ndarray:
    """Return figures of n runs, shape (trials, n, families): a run's offset is shared, the rest its own."""
    shared = rng.normal(0, SPREAD * np.sqrt(0.7), (trials, n, 1))
    own = rng.normal(0, SPREAD * np.sqrt(0.3), (trials, n, FAMILIES))
    logs = shared + own
    logs[:, :, 0] += np.log1p(planted)
    return np.asarray(np.exp(logs) * np.array([50, 20, 10, 10, 5, 5]))


def verdicts(base: np.ndarray, head: np.ndarray) -> tuple[str, list[str]]:
    whole = compare_means(base.sum(1, keepdims=True), head.sum(1, keepdims=True))
    return judge(whole, LIMIT)[0], list(judge(compare_means(base, head), LIMIT))


@pytest.mark.parametrize("n", [3, 5])
def test_the_same_code_is_rarely_called_a_regression(n: int) -> None:
    rng = np.random.default_rng(n)
    base, head = runs(rng, n, 400), runs(rng, n, 400)
    alarms = 0
    for x, y in zip(base, head, strict=True):
        whole, families = verdicts(x, y)
        alarms += "regressed" in (whole, *families)
    assert alarms / 400 <= 0.05


@pytest.mark.parametrize(("n", "least"), [(3, 0.72), (5, 0.90)])
def test_three_per_cent_in_one_family_of_six_is_found(n: int, least: float) -> None:
    rng = np.random.default_rng(10 + n)
    base, head = runs(rng, n, 400), runs(rng, n, 400, planted=0.03)
    found = sum(verdicts(x, y)[1][0] == "regressed" for x, y in zip(base, head, strict=True))
    assert found / 400 >= least


@pytest.mark.parametrize("n", [3, 5])
def test_the_detectable_change_is_found_four_times_in_five(n: int) -> None:
    rng = np.random.default_rng(20 + n)
    least = float(np.median([detectable(compare_means(x, y), LIMIT)[1] for x, y in
                             zip(runs(rng, n, 200), runs(rng, n, 200), strict=True)]))  # fmt: skip
    base, head = runs(rng, n, 600), runs(rng, n, 600, planted=least)
    found = [judge(compare_means(x[:, :1], y[:, :1]), LIMIT)[0] == "regressed" for x, y in
             zip(base, head, strict=True)]  # fmt: skip
    assert 0.70 <= np.mean(found) <= 0.90


def test_iterations_of_one_run_do_not_make_a_verdict() -> None:
    effects = compare_means(np.array([[100.0]]), np.array([[120.0]]))
    assert judge(effects, LIMIT) == ["inconclusive"]
    assert np.isnan(detectable(effects, LIMIT)[0])
    assert effects.low[0] < 0.2 < effects.high[0]  # the interval of the prior is still told


def test_one_run_beside_a_stated_spread_or_a_history_can_be_judged() -> None:
    known = Spread(0.005, 30.0, "stated", alone=True)
    assert judge(compare_means(np.array([[100.0]]), np.array([[110.0]]), known), LIMIT) == ["regressed"]
    history = np.array([[100.0], [100.4], [99.7], [100.1]])
    assert judge(compare_means(history, np.array([[110.0]])), LIMIT) == ["regressed"]


def test_identical_figures_are_unchanged() -> None:
    same = np.array([[5.0]])
    assert judge(compare_means(same, same), LIMIT) == ["unchanged"]
    assert judge(given_error(np.array([0.0]), np.array([0.0]), "model"), LIMIT) == ["unchanged"]


def test_a_prior_that_does_not_fit_the_runs_is_dropped() -> None:
    wide = np.array([[90.0], [100.0], [111.0]])
    effects = compare_means(wide, wide * 1.03)
    assert effects.freedom[0] == 4
    assert effects.error[0] > 5 * PRIOR.relative


def test_what_is_absent_on_a_side_has_no_change() -> None:
    effects = compare_means(np.array([[0.0, 1.0]] * 3), np.array([[2.0, 1.0]] * 3))
    assert np.isnan(effects.change[0])
    assert judge(effects, LIMIT)[0] == "inconclusive"


def test_predicted_figures_have_the_models_error_alone() -> None:
    judging = Judging("predicted")
    base, head = np.array([[100.0]]), np.array([[110.0]])
    sure = effects_of(base, head, judging, np.array([0.01]))
    assert judge(sure, LIMIT) == ["regressed"]
    unsure = effects_of(base, head, judging, np.array([0.2]))
    assert judge(unsure, LIMIT) == ["inconclusive"]
    assert unsure.low[0] < 0 < unsure.high[0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrected_chances_are_larger_and_keep_their_order(p: list[float]) -> None:
    made = corrected(p)
    assert (made >= np.array(p) - 1e-12).all()
    assert (made <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(made[order]) >= -1e-12).all()


@given(st.floats(0.5, 2.0), st.integers(2, 6), st.integers(0, 50))
def test_unit_and_direction(factor: float, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(90, 110, (n, 1)), rng.uniform(90, 110, (n, 1)) * factor
    there, back, scaled = compare_means(x, y), compare_means(y, x), compare_means(1e3 * x, 1e3 * y)
    assert (1 + there.change[0]) * (1 + back.change[0]) == pytest.approx(1.0)
    assert there.p_worse[0] == pytest.approx(back.p_better[0])
    assert scaled.change[0] == pytest.approx(there.change[0], abs=1e-9)
    assert there.low[0] <= there.change[0] <= there.high[0]
    assert 0 < ALPHA < 0.1
