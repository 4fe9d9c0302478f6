"""Achieved rates: sums are the run's, and rates follow from shapes and times alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracetool as tt


@pytest.fixture(scope="module")
def rates(sample_run: Path) -> tuple[tt.Run, tt.AchievedRates]:
    run = tt.open(sample_run)
    return run, tt.roofline(run)


def test_times_and_launches_are_the_runs(rates: tuple[tt.Run, tt.AchievedRates]) -> None:
    run, achieved = rates
    assert achieved.operators["time_ms"].sum() == pytest.approx(
        run.kernels["duration_ns"].sum() * 1e-6, rel=1e-9
    )
    assert achieved.operators["launches"].sum() == run.kernels.height


def test_shares_are_of_the_run_with_its_gaps(rates: tuple[tt.Run, tt.AchievedRates]) -> None:
    run, achieved = rates
    total = tt.energy_by(run, "family").frame.filter(pl.col("name") == "run")["energy_j"].item()
    of_run = achieved.operators["energy_j"] / total
    assert achieved.operators["share"].to_list() == pytest.approx(of_run.to_list(), rel=1e-6)


def test_measured_energy_is_that_of_attribute(rates: tuple[tt.Run, tt.AchievedRates]) -> None:
    run, achieved = rates
    scopes = run.attribute().scopes
    both = scopes["kernels"]["energy_j"] + scopes["copies"]["energy_j"]
    assert set(achieved.operators["source"]) == {"measured"}
    assert achieved.operators["energy_j"].sum() == pytest.approx(both, rel=1e-9)


def test_rates_of_products_follow_from_their_sizes(rates: tuple[tt.Run, tt.AchievedRates]) -> None:
    products = rates[1].products
    assert products.height > 5
    by_hand = products.select(
        (2.0 * pl.col("batch") * pl.col("m") * pl.col("n") * pl.col("k") / pl.col("duration_us") / 1e6).alias(
            "hand"
        ),
        "tflops",
    )
    assert by_hand["hand"].to_list() == pytest.approx(by_hand["tflops"].to_list(), rel=1e-9)


def test_no_row_is_above_the_roof_and_compute_is_limited_right_of_the_ridge(
    rates: tuple[tt.Run, tt.AchievedRates],
) -> None:
    rows = rates[1].operators.filter(pl.col("roofline_share").is_not_null())
    assert rows["roofline_share"].is_between(0.0, 1.05).all()
    ridge = rows.filter(pl.col("dtype") == "bf16")
    compute = ridge.filter(pl.col("ceiling") == "compute")["flop_per_byte"].min()
    memory = ridge.filter(pl.col("ceiling") == "memory")["flop_per_byte"].max()
    assert compute > memory
