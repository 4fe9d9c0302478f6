"""A real trace's own iterations, made into runs of the same code: how often does the check cry wolf?

Every run is thirty iterations drawn in blocks from the trace, all its kernels and copies, with an offset of
its own planted on it: one per cent from run to run, most of it shared by all families.
``benchmarks/same_code.py`` makes the runs and prints the rates for every family.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.same_code import ITERATIONS, SHARED, Iterations, compared, iterations_of, verdict
from tracetool.compare.scopes import FIGURES
from tracetool.compare.significance import compare_means, detectable, judge, with_joint_intervals
from tracetool.compare.spread import PRIOR, learned
from tracetool.compare.steps import within

SPREAD, LIMIT, COMPARISONS, BLOCK = 0.01, 0.02, 200, 3


@pytest.fixture(scope="module", params=["the sample", pytest.param("a real trace", marks=pytest.mark.data)])
def iterations(request: pytest.FixtureRequest) -> Iterations:
    if request.param == "the sample":
        return iterations_of(request.getfixturevalue("samples") / "h100_training.sqlite")
    return iterations_of(
        request.getfixturevalue("data") / "traces" / "kineto" / "hta__trace_diff__control__control.json.gz"
    )


@pytest.fixture(scope="module")
def joules(iterations: Iterations) -> np.ndarray:
    """Return the energy of each iteration by family, those of 1 % and more, dear ones first."""
    found = iterations.time_s * iterations.power_w
    share = found.sum(axis=0) / found.sum()
    order = np.argsort(-share)
    return found[:, order[share[order] >= 0.01]]


#: Means of runs, and their iterations.
Runs = tuple[np.ndarray, list[np.ndarray]]


def runs(rng: np.random.Generator, joules: np.ndarray, n: int, at: int = 0, planted: float = 0.0) -> Runs:
    """Return n runs' means, the whole first, and their iterations."""
    starts = rng.integers(0, len(joules) - BLOCK + 1, (n, ITERATIONS // BLOCK))
    drawn = joules[(starts[:, :, None] + np.arange(BLOCK)).reshape(n, -1)]
    shared = rng.normal(0, SPREAD * np.sqrt(SHARED), (n, 1, 1))
    offset = np.exp(shared + rng.normal(0, SPREAD * np.sqrt(1 - SHARED), (n, 1, joules.shape[1])))
    offset[:, :, at] *= 1.0 + planted
    made = drawn * offset
    made = np.concatenate([made.sum(axis=2, keepdims=True), made], axis=2)
    return made.mean(axis=1), list(made)


def called(base: Runs, head: Runs) -> tuple[list[str], np.ndarray]:
    """Return the verdicts, the whole's first, and the smallest changes that could be found."""
    k = base[0].shape[1]
    noise = within([(run, run) for run in base[1] + head[1]], FIGURES["energy"], k)
    spread = learned(base[0][:, 1:], head[0][:, 1:], PRIOR, noise[1:])
    whole = compare_means(base[0][:, :1], head[0][:, :1], spread, noise[:1])
    families = with_joint_intervals(compare_means(base[0][:, 1:], head[0][:, 1:], spread, noise[1:]), k - 1)
    least = np.concatenate([detectable(whole, LIMIT), detectable(families, LIMIT)])
    return judge(whole, LIMIT) + judge(families, LIMIT), least


def test_the_iterations_are_real(iterations: Iterations) -> None:
    assert iterations.time_s.shape[0] >= 5
    assert iterations.time_s.shape[1] >= 4
    assert (iterations.span_s > 0).all()


@pytest.mark.parametrize(("n", "planted"), [(3, 0.06), (5, 0.05)])
def test_false_alarms_and_finds(joules: np.ndarray, n: int, planted: float) -> None:
    rng = np.random.default_rng(100 + n)
    alarms, found, limits = 0, 0, []
    for _ in range(COMPARISONS):
        base = runs(rng, joules, n)
        alarms += "regressed" in called(base, runs(rng, joules, n))[0]
        verdicts, smallest = called(base, runs(rng, joules, n, 0, planted=planted))
        found += verdicts[1] == "regressed"
        limits.append(smallest[1])
    assert alarms / COMPARISONS <= 0.05
    assert found / COMPARISONS >= 0.75
    # what is printed as the smallest change that could be found is near the change that was found so often
    assert 0.02 < float(np.median(limits)) < planted + 0.01


@pytest.mark.data
def test_an_unsteady_family_hides_small_changes_and_says_so(joules: np.ndarray) -> None:
    rng = np.random.default_rng(9)
    noise = joules.std(axis=0, ddof=1) / joules.mean(axis=0)
    k = int(np.argmax(noise))
    if noise[k] < 0.1:
        pytest.skip("all families of this trace are steady")
    rounds = [called(runs(rng, joules, 3), runs(rng, joules, 3, k, planted=0.03)) for _ in range(100)]
    least = float(np.median([smallest[k + 1] for _, smallest in rounds]))
    assert least > 0.06
    assert np.mean([verdicts[k + 1] == "regressed" for verdicts, _ in rounds]) < 0.2
    # a change as large as the smallest that could be found is found as often as it says
    rounds = [called(runs(rng, joules, 3), runs(rng, joules, 3, k, planted=least)) for _ in range(200)]
    assert np.mean([verdicts[k + 1] == "regressed" for verdicts, _ in rounds]) > 0.55


def test_the_whole_comparison_judges_likewise(iterations: Iterations) -> None:
    rng = np.random.default_rng(3)
    dear = iterations.families[int(np.argmax((iterations.time_s * iterations.power_w).sum(axis=0)))]
    made = compared(rng, iterations, 5, SPREAD, {dear: 1.2})
    assert verdict(made, dear) == "regressed"
    assert made.failed
    quiet = compared(rng, iterations, 5, SPREAD)
    assert verdict(quiet, dear) != "regressed"
    row = made.level("family").filter(made.level("family")["name"] == dear).row(0, named=True)
    judged = next(m for m in made.metrics if m.scope == dear and m.name == "energy")
    assert row["energy_change_low_pct"] == pytest.approx(100 * judged.low)


def test_unsteady_work_says_how_little_could_be_found() -> None:
    rng = np.random.default_rng(5)
    base, head = np.exp(rng.normal(0, 0.05, (2, 3, 1)))
    assert detectable(compare_means(base, head), LIMIT)[0] > 0.06
