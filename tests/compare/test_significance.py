"""False alarms, finds and detectable changes, with run-to-run offsets planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetool.compare.significance import (
    ALPHA,
    PRIOR,
    Criteria,
    Spread,
    compare_means,
    detectable,
    effects_of,
    figures_together,
    given_error,
    judge,
    with_joint_intervals,
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
    families = with_joint_intervals(compare_means(base, head), base.shape[1])
    return judge(whole, LIMIT)[0], list(judge(families, LIMIT))


def test_a_models_error_is_the_same_beside_runs_that_do_not_spread_as_alone() -> None:
    base, head = np.array([[100.0, 100.0, 100.0]]), np.array([[50.0, 100.0, 200.0]])
    error = np.array([0.04, 0.04, 0.04])  # of the base
    steady = Criteria("anchored", Spread(0.0, 1e6, "runs that do not spread"))
    beside, alone = (effects_of(base, head, c, error) for c in (steady, Criteria("predicted")))
    for end in ("change", "low", "high", "error", "p_worse"):
        assert getattr(beside, end) == pytest.approx(getattr(alone, end), rel=1e-6), end
    assert beside.error == pytest.approx([0.08, 0.04, 0.02])


@pytest.mark.parametrize("n", [3, 5])
def test_the_same_code_is_rarely_called_a_regression(n: int) -> None:
    rng = np.random.default_rng(n)
    base, head = runs(rng, n, 400), runs(rng, n, 400)
    alarms = 0
    for x, y in zip(base, head, strict=True):
        whole, families = verdicts(x, y)
        alarms += "regressed" in (whole, *families)
    assert alarms / 400 <= 0.05


@pytest.mark.parametrize(("n", "planted"), [(3, 0.055), (5, 0.045)])
def test_a_few_per_cent_beyond_the_limit_in_one_family_of_six_are_found(n: int, planted: float) -> None:
    rng = np.random.default_rng(10 + n)
    base, head = runs(rng, n, 400), runs(rng, n, 400, planted=planted)
    found = sum(verdicts(x, y)[1][0] == "regressed" for x, y in zip(base, head, strict=True))
    assert found / 400 >= 0.72


@pytest.mark.parametrize("n", [3, 5])
def test_the_detectable_change_is_found_four_times_in_five(n: int) -> None:
    rng = np.random.default_rng(20 + n)
    least = float(np.median([detectable(compare_means(x, y), LIMIT)[1] for x, y in
                             zip(runs(rng, n, 200), runs(rng, n, 200), strict=True)]))  # fmt: skip
    base, head = runs(rng, n, 600), runs(rng, n, 600, planted=least)
    found = [judge(compare_means(x[:, :1], y[:, :1]), LIMIT)[0] == "regressed" for x, y in
             zip(base, head, strict=True)]  # fmt: skip
    assert 0.70 <= np.mean(found) <= 0.90


def test_one_run_beside_a_stated_spread_or_a_history_can_be_judged() -> None:
    stated = Spread(0.005, 30.0, "stated")
    assert judge(compare_means(np.array([[100.0]]), np.array([[110.0]]), stated), LIMIT) == ["regressed"]
    history = np.array([[100.0], [100.4], [99.7], [100.1]])
    assert judge(compare_means(history, np.array([[110.0]])), LIMIT) == ["regressed"]


def test_identical_figures_are_unchanged() -> None:
    same = np.array([[5.0]])
    assert judge(compare_means(same, same), 0.0) == ["unchanged"]
    assert judge(given_error(np.array([0.0]), np.array([0.0]), "model"), LIMIT) == ["unchanged"]


def test_what_was_removed_is_judged_no_more_than_what_is_new() -> None:
    """Predicted energies: 3 J removed, 3 J that are new, and 3 J of which next to nothing is left."""
    criteria = Criteria("predicted")
    base, head = np.array([[3.0, 0.0, 3.0]]), np.array([[0.0, 3.0, 3e-9]])
    effects = effects_of(base, head, criteria, np.full(3, 0.1))
    assert np.isnan([effects.low[:2], effects.high[:2], effects.p_worse[:2], effects.p_better[:2]]).all()
    assert (effects.low[2], effects.high[2]) == (-1.0, np.inf)


def test_one_run_beside_itself_is_unchanged_though_its_sums_round_otherwise() -> None:
    made = compare_means(np.array([[755.6300825287788]]), np.array([[755.630082528779]]))
    assert (made.low[0], made.change[0], made.high[0]) == (0.0, 0.0, 0.0)
    assert list(judge(made, LIMIT)) == ["unchanged"]


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
    criteria = Criteria("predicted")
    base, head = np.array([[100.0]]), np.array([[110.0]])
    sure = effects_of(base, head, criteria, np.array([0.01]))
    assert judge(sure, LIMIT) == ["regressed"]
    unsure = effects_of(base, head, criteria, np.array([0.2]))
    assert judge(unsure, LIMIT) == ["inconclusive"]
    assert unsure.low[0] < 0 < unsure.high[0]


@given(
    st.lists(st.tuples(st.floats(-0.9, 3.0), st.just(0.0) | st.floats(1e-6, 0.5)), min_size=1, max_size=8),
    st.floats(0, 0.2),
    st.integers(1, 40),
)
def test_the_printed_interval_and_the_verdict_always_agree(
    figures: list[tuple[float, float]], limit: float, tests: int
) -> None:
    change, error = np.array(figures).T
    effects = with_joint_intervals(given_error(change, error, "model"), tests)
    for low, high, verdict in zip(effects.low, effects.high, judge(effects, limit), strict=True):
        assert (verdict == "regressed") == (low > limit + 1e-9)
        if high < -limit - 1e-9:
            assert verdict == "improved"
        if -limit <= low and high <= limit:
            assert verdict == "unchanged"
        if verdict == "inconclusive":
            assert low <= limit + 1e-9 < high


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_more_figures_judged_together_widen_the_interval(heavy: list[bool]) -> None:
    many = figures_together(np.array(heavy))
    effects = given_error(np.full(len(heavy), 0.05), np.full(len(heavy), 0.01), "model")
    wider = with_joint_intervals(effects, many)
    assert (wider.low <= effects.low + 1e-12).all()
    assert (wider.high >= effects.high - 1e-12).all()
    assert wider.low[many == 1] == pytest.approx(effects.low[many == 1])
    assert (many[np.array(heavy)] == sum(heavy)).all()


def test_intervals_together_cover_every_figure_nine_times_in_ten() -> None:
    rng = np.random.default_rng(3)
    shifts = rng.normal(0, 0.02, (2000, 10))
    effects = with_joint_intervals(given_error(np.expm1(shifts).ravel(), np.full(20000, 0.02), "model"), 10)
    inside = ((effects.low <= 0) & (effects.high >= 0)).reshape(2000, 10).all(axis=1)
    assert inside.mean() >= 0.88


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


def test_what_is_known_without_an_error_is_certain() -> None:
    known = given_error(np.array([0.1, -0.1, 0.0]), np.zeros(3), "stated")
    assert known.p_worse.tolist() == [0.0, 1.0, 0.5]
    assert known.p_better.tolist() == [1.0, 0.0, 0.5]
