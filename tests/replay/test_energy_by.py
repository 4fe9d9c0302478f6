"""Groups sum to the run exactly, every activity is in one, and their energies are those of its truth."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.replay.energy_by import energy_by
from tracetool.replay.group_energy import RunEnergies, run_energies
from tracetool.replay.predict import predict_run, rows_by
from tracetool.replay.time_budget import time_budget
from tracetool.report.terminal.time_budget import print_groups


@pytest.fixture(scope="module")
def trained(sample_run: Path) -> tt.Run:
    return tt.open(sample_run)


@pytest.fixture(scope="module")
def energies(trained: tt.Run) -> RunEnergies:
    return run_energies(trained)


@pytest.mark.parametrize(
    "by", ["signature", "family", "operator", "range", "iteration", "gpu", "gpu,range", "gap"]
)
def test_groups_sum_to_the_run(by: str, energies: RunEnergies) -> None:
    groups = energy_by(energies.run, by.split(","), work={"tokens": 1000.0}, energies=energies).frame
    run = groups.row(-1, named=True)
    assert run["name"] == "run"
    assert run["source"] == "measured"
    assert run["energy_per_unit_j"] == pytest.approx(run["energy_j"] / 1000.0)
    for column in ("energy_j", "predicted_energy_j", "time_ms", "idle_ms"):
        assert groups[column][:-1].sum() == pytest.approx(run[column], rel=1e-9)
    assert groups["launches"][:-1].sum() == run["launches"] == energies.run.kernels.height
    assert energies.measured is not None
    assert run["energy_j"] == pytest.approx(energies.measured.scopes["run"]["energy_j"], rel=1e-9)
    ends = groups["energy_low_j"] <= groups["energy_j"]
    assert ends.all()
    assert (groups["energy_high_j"] >= groups["energy_j"]).all()


def test_a_key_nobody_knows_is_one_line(trained: tt.Run) -> None:
    with pytest.raises(tt.BadInput, match="color"):
        tt.energy_by(trained, ["color"])
    assert json.loads(tt.energy_by(trained, ["family"]).to_json())["by"] == ["family"]
    with pytest.raises(tt.BadInput, match="twice"):
        tt.energy_by(trained, ["gpu", "gpu"])


def test_idle_time_by_cause_is_that_of_the_budget(energies: RunEnergies) -> None:
    groups = energy_by(energies.run, ["gap"], energies=energies).frame.filter(pl.col("name") != "run")
    parts = time_budget(energies.run, energies=energies).frame.filter(
        pl.col("device").is_null() & (pl.col("time_ms") > 0)
    )
    idle = parts.filter(pl.col("part").str.starts_with("idle"))
    found = dict(groups.select("name", "energy_j").iter_rows())
    assert found.pop("(active)") == pytest.approx(parts["energy_j"][0] + parts["energy_j"][1], rel=1e-9)
    assert found == pytest.approx(dict(idle.select("part", "energy_j").iter_rows()), rel=1e-9)


@pytest.mark.parametrize("keys", [("gpu", "range"), ("range", "gap"), ("family", "iteration")])
def test_sums_over_one_key_are_the_groups_of_the_other(keys: tuple[str, str], energies: RunEnergies) -> None:
    joint = (
        tt.energy_by(energies.run, keys)
        .groups[:-1]
        .with_columns(
            pl.col("name")
            .replace("(idle)", "(idle) / (idle)")
            .str.split(" / ")
            .list.to_struct(fields=["a", "b"])
        )
    )
    for part, key in zip("ab", keys, strict=True):
        alone = energy_by(energies.run, [key], energies=energies).frame[:-1]
        sums = joint.unnest("name").group_by(part).agg(pl.col("energy_j", "time_ms", "idle_ms").sum())
        both = alone.join(sums, left_on="name", right_on=part, how="full")
        assert both.height == alone.height
        for column in ("energy_j", "time_ms", "idle_ms"):
            assert both[column].to_list() == pytest.approx(both[f"{column}_right"].to_list(), abs=1e-6)


@pytest.mark.parametrize("by", ["gpu,family", "operator", "iteration", "range"])
def test_predictions_by_group_sum_to_the_totals_and_tell_rates(by: str, trained: tt.Run) -> None:
    predicted = predict_run(trained, clocks_mhz=[1755.0])
    rows = rows_by(predicted, by)
    total = predicted.totals[0]
    outer = rows.filter(pl.col("depth") == 0) if "depth" in rows.columns else rows
    if by != "iteration":
        both = total["kernel_energy_j"] + total["copy_energy_j"]
        assert outer["energy_j"].sum() == pytest.approx(both, rel=1e-9)
        assert outer["launches"].sum() == trained.kernels.height
    rated = rows.filter(pl.col("tflops").is_not_null())
    assert rated.height
    assert rated["roofline_share"].is_between(0.0, 1.05).all()
    assert (rated["flop_per_byte"] * rated["tbps"]).to_list() == pytest.approx(rated["tflops"].to_list())


def test_products_rates_in_a_prediction_are_those_of_roofline(trained: tt.Run) -> None:
    rows = rows_by(predict_run(trained), "operator")
    achieved = tt.roofline(trained).operators
    one = achieved.filter(pl.col("operator") == "aten::gelu")
    rates = rows.filter(pl.col("name") == "aten::gelu").row(0, named=True)
    for column in ("tflops", "tbps", "flop_per_byte", "roofline_share"):
        assert one.height == 1
        assert rates[column] == pytest.approx(one[column][0], rel=1e-6), column


def test_time_without_idle_time_is_called_device_time(
    energies: RunEnergies, capsys: pytest.CaptureFixture[str]
) -> None:
    grouped = energy_by(energies.run, ["family"], energies=energies)
    print_groups(grouped, [])
    energy, heading = capsys.readouterr().out.splitlines()[:2]
    assert "90 %" in energy
    assert "device time" in heading
    run = grouped.frame.row(-1, named=True)
    assert run["power_w"] == pytest.approx(1e3 * run["energy_j"] / (run["time_ms"] + run["idle_ms"]))
