"""Predicted against measured, against answers worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from tests.compare import frames
from tests.compare.folders import write_pairs
from tracetool.compare import diff_run as diff_run_module
from tracetool.compare.accuracy import Accuracy, accuracy_table, breaches, compare_signatures
from tracetool.compare.thresholds import Threshold, parse_thresholds
from tracetool.core.errors import BadInput
from tracetool.replay import roofline as roofline_module


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
    found = row(table(frames.energies()), "total", "(compared)")
    # copy_kernel was not measured: both sides of the comparison leave it out
    assert found["energy_j"] == pytest.approx(0.25 + 0.088)
    assert found["energy_error_pct"] == pytest.approx(100 * ((0.33 + 0.072) / (0.25 + 0.088) - 1))
    assert found["energy_predicted_j"] == pytest.approx(0.33 + 0.072)
    assert found["power_predicted_w"] == pytest.approx(1e3 * (0.33 + 0.072) / (1.1 + 0.36))
    assert found["compared_pct"] == pytest.approx(100.0)
    assert found["measured_pct"] == pytest.approx(100 * 1.4 / 1.44)


def test_families_err_apart_and_kernels_of_one_together() -> None:
    rows = compare_signatures(frames.signatures(), frames.predictions(), frames.energies())
    apart, alike = (
        row(accuracy_table(one), "total", "(compared)")
        for one in (rows, rows.with_columns(pl.lit("gemm").alias("family")))
    )
    below = [
        found["energy_predicted_j"] - found["energy_predicted_low_j"]  # type: ignore[operator]
        for found in (row(accuracy_table(rows), "signature", name) for name in ("gemm_big", "softmax"))
    ]
    assert apart["energy_predicted_j"] - apart["energy_predicted_low_j"] == pytest.approx(math.hypot(*below))
    assert alike["energy_predicted_j"] - alike["energy_predicted_low_j"] == pytest.approx(sum(below))


def test_without_a_log_times_are_compared_and_energy_is_predicted_only() -> None:
    rows = table(None)
    assert rows["energy_j"].null_count() == rows.height
    assert rows["energy_predicted_j"].null_count() == 0
    assert row(rows, "total", "(compared)")["time_error_pct"] is not None
    assert row(rows, "signature", "softmax")["kernel_share_pct"] == pytest.approx(100 * 0.072 / 0.408)


def test_a_log_over_part_of_the_run_compares_the_launches_it_saw() -> None:
    seen = frames.energies(power_w=(250.0, 220.0, 100.0), launches=(4, 20, 5))
    found = row(table(seen), "signature", "gemm_big")
    assert found["launches"] == 4
    assert found["energy_predicted_j"] == pytest.approx(4 * 0.033)


def partly_predicted(measured: pl.DataFrame | None) -> pl.DataFrame:
    """Return the table of a run whose gemm alone is predicted from shapes."""
    source = pl.when(pl.col("signature") == 0).then(pl.lit("shapes")).otherwise(pl.lit("anchored only"))
    predicted = frames.predictions().with_columns(source.alias("predicted_from"))
    return accuracy_table(compare_signatures(frames.signatures(), predicted, measured))


@pytest.mark.parametrize("measured", [None, frames.energies()])
def test_only_what_is_predicted_from_shapes_counts_and_it_says_how_much_that_is(
    measured: pl.DataFrame | None,
) -> None:
    rows = partly_predicted(measured)
    total, family = row(rows, "total", "(compared)"), row(rows, "family", "gemm")
    for found in (total, family):
        assert found["launches"] == 10
        assert found["time_ms"] == pytest.approx(1.0)
        assert found["time_predicted_ms"] == pytest.approx(1.1)
        assert found["time_error_pct"] == pytest.approx(10.0)
        assert found["energy_predicted_j"] == pytest.approx(0.33)
    assert total["compared_pct"] == pytest.approx(100 * 1.0 / 1.44)
    assert family["compared_pct"] == pytest.approx(100.0)
    softmax = row(rows, "signature", "softmax")
    errors = [softmax[f"{what}_error_pct"] for what in ("time", "energy", "power")]
    assert errors == [None, None, None]
    assert softmax["agrees"] in {"not compared", "not measured"}
    if measured is not None:
        assert total["energy_j"] == pytest.approx(0.25)
        assert total["energy_error_pct"] == pytest.approx(32.0)


def test_a_threshold_judges_what_was_compared_and_nothing_else() -> None:
    rows = partly_predicted(frames.energies())
    assert not breaches(rows, parse_thresholds(["time=10.1%", "energy=32.1%"]))
    assert len(breaches(rows, parse_thresholds(["time=9.9%", "energy=31.9%"]))) == 2
    with pytest.raises(BadInput, match="no time of the kernels it covers could be predicted"):
        breaches(rows, parse_thresholds(["softmax:time=99%"]))


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


def test_scopes_of_a_run_are_found_by_their_level() -> None:
    rows = table(frames.energies())
    of_levels = [
        rows.head(1).with_columns(level=pl.lit(level), energy_j=pl.lit(joules))
        for level, joules in (("kernels", 5.0), ("copies", 3.0))
    ]
    found = Accuracy("run", "a100-sxm", 1410.0, pl.concat([rows, *of_levels]), (), (), ())
    kernels, copies = found.scope("kernels"), found.scope("copies")
    assert kernels is not None
    assert copies is not None
    assert (kernels["energy_j"], copies["energy_j"]) == (5.0, 3.0)
    assert found.scope("gap") is None


def test_times_are_the_kernels_own_where_a_log_divides_what_overlaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kernel runs beside another: attribution gives each half of its time."""
    run, measured = write_pairs(tmp_path / "pairs.tracetool")
    own_ms = (run.signatures.sort("signature")["duration_ns"] / 1e6).to_list()
    attribution = SimpleNamespace(energy=measured, sums=None, half_shares=None, covered={}, notes=())
    monkeypatch.setattr(diff_run_module, "measured_energy", lambda *_, **__: (attribution, [], []))
    rows = diff_run_module.diff_run(run.path).table.filter(pl.col("level") == "signature").sort("signature")
    assert rows["time_ms"].to_list() == pytest.approx(own_ms)
    assert (rows["power_w"] * rows["time_ms"] / 1e3).to_list() == pytest.approx([1.0, 1.0])
    monkeypatch.setattr(roofline_module, "attribute_or_note", lambda *_, **__: (attribution, []))
    assert set(roofline_module.roofline(run).frame["source"]) == {"measured"}
