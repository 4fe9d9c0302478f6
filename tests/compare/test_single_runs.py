"""Single runs: the spread assumed of them is wide enough for real repeats, so the same code rarely fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.compare.significance import ALPHA, compare_means, judge, with_joint_intervals
from tracetool.compare.spread import repeated, single_run_prior

LIMITS = (0.0, 0.01, 0.02, 0.03)
TRIALS = 4000
#: Repeats at one setting: file, columns that name the setting, column that names groups of programs.
REPEATS = {
    "programs under caps": ("a100_altis_caps", ["kernel", "kind", "clock_mhz", "cap_w", "cpucap"], "device"),
    "laptop kernels": ("rtx4050_laptop_kernels", ["device", "kernel", "clock_mhz"], "grp"),
}
COLUMNS = {"time": "time_s", "energy": "energy_j", "power": "power_w", "edp": "edp"}


def regressed(base: np.ndarray, head: np.ndarray, metric: str, limit: float) -> np.ndarray:
    """Return which of the figures of single runs, shape (k,) each, are called regressed."""
    effects = compare_means(base[None, :], head[None, :], single_run_prior(metric, "measured"))
    return np.array(judge(effects, limit)) == "regressed"


@pytest.mark.parametrize("metric", COLUMNS)
@pytest.mark.parametrize("limit", LIMITS)
def test_runs_that_spread_as_assumed_rarely_fail(metric: str, limit: float) -> None:
    rng = np.random.default_rng(4)
    spread = single_run_prior(metric, "measured").relative
    base, head = np.exp(rng.normal(0, np.log1p(spread), (2, TRIALS)))
    assert regressed(base, head, metric, limit).mean() <= ALPHA


@pytest.mark.parametrize("families", [2, 10])
def test_several_families_together_rarely_fail(families: int) -> None:
    rng = np.random.default_rng(5)
    prior = single_run_prior("time", "measured")
    base, head = np.exp(rng.normal(0, np.log1p(prior.relative), (2, TRIALS * families)))
    effects = with_joint_intervals(compare_means(base[None, :], head[None, :], prior), families)
    failed = (np.array(judge(effects, 0.0)) == "regressed").reshape(TRIALS, families).any(axis=1)
    assert failed.mean() <= ALPHA


@pytest.mark.data
@pytest.mark.parametrize("source", REPEATS)
@pytest.mark.parametrize("metric", COLUMNS)
def test_real_repeats_rarely_fail(source: str, metric: str, data: Path) -> None:
    file, setting, group = REPEATS[source]
    rows = pl.read_parquet(data / "dvfs" / f"{file}.parquet").with_columns(
        (pl.col("energy_j") * pl.col("time_s")).alias("edp"), pl.int_range(pl.len()).alias("row")
    )
    pairs = rows.join(rows, on=setting, suffix="_again").filter(pl.col("row") != pl.col("row_again"))
    assert pairs.height > 200
    column = COLUMNS[metric]
    for part in pairs.partition_by(group):  # every pair stands there in both directions
        weight = 1.0 / part.select(pl.len().over(setting)).to_series().to_numpy()  # each setting counts once
        for limit in LIMITS:
            failed = regressed(part[column].to_numpy(), part[f"{column}_again"].to_numpy(), metric, limit)
            assert np.average(failed, weights=weight) <= ALPHA


def test_anchored_joules_spread_as_the_times_they_follow() -> None:
    assert single_run_prior("energy", "anchored").relative == single_run_prior("time", "anchored").relative
    assert single_run_prior("energy", "measured").relative > single_run_prior("energy", "anchored").relative
    assert [repeated(*n) for n in ((1, 1), (1, 2), (2, 2), (1, 3))] == [False, False, True, True]
