"""What the tool measures on the sample against the truth that made it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tracetool.measure.attribute import attribute_run


@pytest.fixture(scope="module")
def truth(samples: Path) -> dict[str, Any]:
    known = json.loads((samples / "truth.json").read_text("utf-8"))
    return dict(known["h100_training.sqlite"])


@pytest.fixture(scope="module")
def energy(sample_run: Path, truth: dict[str, Any]) -> pl.DataFrame:
    """Return the measured classes with the energy that each really took."""
    found = attribute_run(sample_run).energy
    names = pl.read_parquet(sample_run / "signatures.parquet").select(
        pl.col("signature").cast(pl.Int64), name="name"
    )
    watts = {name: k["power_w"] for name, k in truth["kernels"].items()}
    known = pl.DataFrame({"name": list(watts), "true_w": list(watts.values())})
    states = pl.when(pl.col("class") == "(active idle)").then(truth["gap_w"])
    states = states.when(pl.col("class") == "(idle)").then(truth["idle_w"])
    return (
        found.join(names, on="signature", how="left")
        .join(known, on="name", how="left")
        .with_columns(true_w=pl.coalesce("true_w", states.otherwise(None)))
        .with_columns(true_j=pl.col("true_w") * pl.col("duration_ns") * 1e-9)
        .filter(pl.col("true_j").is_not_null())
    )


def test_the_whole_is_within_the_sensors_gain(energy: pl.DataFrame, truth: dict[str, Any]) -> None:
    assert energy["energy_j"].sum() == pytest.approx(energy["true_j"].sum(), rel=0.03)
    assert energy["true_j"].sum() > 0.95 * truth["kernel_energy_j"]


def test_nine_in_ten_identified_classes_lie_in_their_intervals(energy: pl.DataFrame) -> None:
    told = energy.filter("identified")
    assert told.height >= 12
    inside = told["true_j"].is_between(told["energy_low_j"], told["energy_high_j"])
    assert inside.mean() >= 0.85, told.filter(~inside).select("class", "energy_j", "true_j")


def test_identified_classes_are_near_the_truth(energy: pl.DataFrame) -> None:
    told = energy.filter("identified")
    miss = (told["energy_j"] / told["true_j"] - 1).abs()
    assert miss.median() < 0.04
    assert miss.max() < 0.15


def test_a_log_of_100_ms_does_not_claim_the_small_kernels(
    energy: pl.DataFrame, truth: dict[str, Any]
) -> None:
    brief = energy.filter(pl.col("duration_ns") < 20_000_000)
    assert brief.height
    assert not brief["identified"].any()
