"""Predicted against measured, against answers worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from tests.compare import frames
from tracetool.compare.accuracy import FROM_ITS_OWN_TIME, accuracy_table, breaches, compare_signatures
from tracetool.compare.thresholds import Threshold, parse_thresholds
from tracetool.vocabulary.errors import BadInput


def table(measured: pl.DataFrame | None) -> pl.DataFrame:
    return accuracy_table(compare_signatures(frames.signatures(), frames.predictions(), measured))


def row(rows: pl.DataFrame, level: str, name: str) -> dict[str, object]:
    return rows.filter((pl.col("level") == level) & (pl.col("name") == name)).row(0, named=True)


def test_a_kernel_has_both_figures_and_their_error() -> None:
    found = row(table(frames.energies()), "signature", "gemm_big")
    assert found["time_ms"] == pytest.approx(1.0)
    assert found["time_predicted_ms"] == pytest.approx(1.1)
    assert found["time_error_pct"] == pytest.approx(10.0)
    assert found["energy_j"] == pytest.approx(0.25)
    assert found["energy_predicted_j"] == pytest.approx(0.33)
    assert found["energy_error_pct"] == pytest.approx(32.0)
    assert found["power_error_pct"] == pytest.approx(20.0)
    assert found["agrees"] == "yes"  # 0.33 x 0.75 = 0.2475 lies below 0.25 x 1.05


def test_memory_copies_are_not_kernels() -> None:
    assert "[HtoD]" not in table(None)["name"].to_list()


def test_worst_offender_in_joules_comes_first() -> None:
    names = table(frames.energies()).filter(pl.col("level") == "signature")["name"].to_list()
    assert names == ["gemm_big", "softmax", "copy_kernel"]  # 0.08 J, 0.016 J, not measured


def test_what_the_log_cannot_tell_stays_unmeasured() -> None:
    rows = table(frames.energies())
    found = row(rows, "signature", "copy_kernel")
    assert found["energy_j"] is None
    assert found["agrees"] == "not measured"
    assert found["reason"] == "runs too seldom"


def test_a_sum_compares_the_same_kernels_on_both_sides() -> None:
    found = row(table(frames.energies()), "total", "(kernels)")
    # copy_kernel was not measured: both sides of the comparison leave it out
    assert found["energy_j"] == pytest.approx(0.25 + 0.088)
    assert found["energy_error_pct"] == pytest.approx(100 * ((0.33 + 0.072) / (0.25 + 0.088) - 1))
    # the prediction itself covers everything
    assert found["energy_predicted_j"] == pytest.approx(0.33 + 0.072 + 0.006)
    assert found["measured_pct"] == pytest.approx(100 * 1.4 / 1.44)


def test_without_a_log_times_are_compared_and_energy_is_predicted_only() -> None:
    rows = table(None)
    assert rows["energy_j"].null_count() == rows.height
    assert rows["energy_predicted_j"].null_count() == 0
    assert row(rows, "total", "(kernels)")["time_error_pct"] is not None
    assert row(rows, "signature", "softmax")["share_pct"] == pytest.approx(100 * 0.072 / 0.408)


def test_a_log_over_part_of_the_run_compares_the_launches_it_saw() -> None:
    seen = frames.energies(power_w=(250.0, 220.0, 100.0), launches=(4, 20, 5))
    found = row(table(seen), "signature", "gemm_big")
    assert found["launches"] == 4
    assert found["energy_predicted_j"] == pytest.approx(4 * 0.033)


def test_a_time_that_is_the_recorded_one_is_no_agreement() -> None:
    predicted = frames.predictions().with_columns(
        pl.when(pl.col("signature") == 1).then(pl.lit(FROM_ITS_OWN_TIME)).otherwise("basis").alias("basis")
    )
    rows = accuracy_table(compare_signatures(frames.signatures(), predicted, None))
    assert row(rows, "signature", "softmax")["time_error_pct"] is None
    total = row(rows, "total", "(kernels)")
    assert total["time_error_pct"] == pytest.approx(100 * ((1.1 + 0.04) / (1.0 + 0.04) - 1))
    assert total["time_predicted_ms"] == pytest.approx(1.1 + 0.36 + 0.04)


def test_threshold_on_the_whole_run_on_a_family_and_on_a_pattern() -> None:
    rows = table(frames.energies())
    assert not breaches(rows, parse_thresholds(["energy=25%"]))
    assert len(breaches(rows, parse_thresholds(["energy=5%", "gemm:energy=10%", "soft*:time=5%"]))) == 3


@pytest.mark.parametrize("scope", ["nothing_called_this", "gemm_bigger*"])
def test_a_threshold_that_covers_nothing_is_a_fault(scope: str) -> None:
    with pytest.raises(BadInput, match="no family or kernel"):
        breaches(table(None), [Threshold("time", 0.1, scope)])


def test_a_threshold_on_energy_nobody_measured_is_a_fault() -> None:
    with pytest.raises(BadInput, match="no measured energy"):
        breaches(table(None), [Threshold("energy", 0.1)])
