"""A real trace's own iterations, made into runs of the same code: how often does the check cry wolf?

Every run is thirty iterations drawn in blocks from the trace, with an offset of its own planted on it: one
per cent from run to run, most of it shared by all families.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.compare.significance import FLOOR, compare_means, detectable, judge
from tracetool.tables.run import Run
from tracetool.workflows.ingest import ingest

SPREAD, LIMIT, COMPARISONS, ITERATIONS, BLOCK = 0.01, 0.02, 200, 30, 3


@pytest.fixture(scope="module", params=["the sample", pytest.param("a real trace", marks=pytest.mark.data)])
def iterations(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Return times per iteration and kernel, shape (iterations, kernels)."""
    if request.param == "the sample":
        trace = request.getfixturevalue("samples") / "h100_training.sqlite"
    else:
        data = request.getfixturevalue("data")
        trace = data / "traces" / "kineto" / "hta__trace_diff__control__control.json.gz"
    out = tmp_path_factory.mktemp("same") / "run.tracetool"
    return per_iteration(Run.open(ingest([trace], out=out)))


def per_iteration(run: Run) -> np.ndarray:
    """Return the time of each step by kernel name, the eight longest; a stand-in for joules.

    Collectives and copies wait for other machines: their iterations differ by a fifth, and no three runs
    tell three per cent there; the check then says how little it could find, see the last test.
    """
    ranges = run.table("ranges")
    steps = ranges.filter(pl.col("name").str.to_lowercase().str.contains("^(profiler)?step")).sort("start_ns")
    names = steps.select("name", "start_ns")
    rows = run.kernels.filter(
        pl.col("launch_ns").is_not_null() & ~pl.col("name").str.contains("(?i)nccl|memcpy")
    ).sort("launch_ns")
    placed = rows.join_asof(
        names, left_on="launch_ns", right_on="start_ns", strategy="backward", suffix="_step"
    )
    wide = placed.pivot(on="name", index="start_ns_step", values="duration_ns", aggregate_function="sum")
    table = wide.drop_nulls("start_ns_step").drop("start_ns_step")
    whole = [c for c in table.columns if table[c].null_count() == 0 and (table[c] > 0).mean() > 0.9]
    steady = [c for c in whole if float(table[c].std() / table[c].mean()) < 0.05]
    largest = sorted(steady, key=lambda c: -float(table[c].sum()))[:8]
    made = table.select(largest).to_numpy().astype(np.float64)
    usual = np.median(made.sum(axis=1))
    return made[(np.abs(made.sum(axis=1) / usual - 1) < 0.3) & (made > 0).all(axis=1)]


def runs(rng: np.random.Generator, iterations: np.ndarray, n: int, planted: float = 0.0) -> np.ndarray:
    """Return n runs: means over drawn blocks of iterations times the run's offset. Shape (n, families)."""
    blocks = -(-ITERATIONS // BLOCK)
    starts = rng.integers(0, len(iterations) - BLOCK, (n, blocks))
    drawn = (starts[:, :, None] + np.arange(BLOCK)).reshape(n, -1)
    families = iterations.shape[1]
    shared = rng.normal(0, SPREAD * np.sqrt(0.7), (n, 1))
    own = rng.normal(0, SPREAD * np.sqrt(0.3), (n, families))
    offset = np.exp(shared + own)
    offset[:, 0] *= 1.0 + planted
    return np.asarray(iterations[drawn].mean(axis=1) * offset)


def called(base: np.ndarray, head: np.ndarray) -> tuple[str, list[str]]:
    whole = compare_means(base.sum(1, keepdims=True), head.sum(1, keepdims=True))
    return judge(whole, LIMIT)[0], list(judge(compare_means(base, head), LIMIT))


def test_the_iterations_are_real(iterations: np.ndarray) -> None:
    assert iterations.shape[0] >= 5
    assert iterations.shape[1] >= 4
    assert 0 < np.std(np.log(iterations), axis=0).max() < 0.2


@pytest.mark.parametrize(("n", "least"), [(3, 0.75), (5, 0.90)])
def test_false_alarms_and_finds(iterations: np.ndarray, n: int, least: float) -> None:
    rng = np.random.default_rng(100 + n)
    alarms = found = 0
    limits = []
    for _ in range(COMPARISONS):
        base = runs(rng, iterations, n)
        whole, families = called(base, runs(rng, iterations, n))
        alarms += "regressed" in (whole, *families)
        head = runs(rng, iterations, n, planted=0.03)
        found += called(base, head)[1][0] == "regressed"
        limits.append(detectable(compare_means(base, head), LIMIT)[0])
    assert alarms / COMPARISONS <= 0.05
    assert found / COMPARISONS >= least
    # what is printed as the smallest change that could be found is near the change that was found so often
    assert 0.02 < float(np.median(limits)) < 0.04


def test_single_runs_never_decide(iterations: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    for planted in (0.01, 0.03, 0.1):
        base, head = runs(rng, iterations, 1), runs(rng, iterations, 1, planted)
        for verdict, change in zip(called(base, head)[1], head[0] / base[0] - 1, strict=True):
            assert verdict == ("unchanged" if abs(change) <= FLOOR else "inconclusive")


def test_unsteady_work_says_how_little_could_be_found() -> None:
    rng = np.random.default_rng(5)
    base, head = np.exp(rng.normal(0, 0.05, (2, 3, 1)))
    assert detectable(compare_means(base, head), LIMIT)[0] > 0.06
