"""Cost and CO2 of energy: one formula, the same in every command, and nothing without being asked."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.damaged.small_run import small_run
from tracetool.cli.app import run as command
from tracetool.tables.tariff import NO_TARIFF, Tariff

FACTORS = ["--price", "0.3", "--gco2-per-kwh", "380", "--pue", "1.25"]
COMMANDS = {
    "summary": "parts",
    "predict --gpu a100-sxm --clock 900,1200": "totals",
    "predict --gpu a100-sxm --by family": "rows",
    "attribute --by family --gpu a100-sxm": "groups",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("priced"))


def test_a_kilowatt_hour_costs_its_price_times_pue() -> None:
    rows = pl.DataFrame(
        {"energy_j": [3.6e6, None], "energy_low_j": [1.8e6, None], "energy_high_j": [7.2e6, None]}
    )
    priced = Tariff(0.25, 400.0, 1.5).priced(rows)
    assert priced.select(rows.columns).equals(rows), "the PUE leaves energies as they are"
    first = priced.row(0, named=True)
    for column, whole in (("cost", 0.375), ("co2_g", 600.0)):
        stem, _, unit = column.partition("_")
        ends = [first[f"{stem}{end}{'_' * bool(unit)}{unit}"] for end in ("_low", "", "_high")]
        assert ends == pytest.approx([whole / 2, whole, whole * 2])
    assert priced["cost"][1] is None
    millijoules = Tariff(0.25).priced(pl.DataFrame({"energy_mj": [3.6e9]}))
    assert millijoules["cost"].item() == pytest.approx(0.25)
    assert millijoules.columns == ["energy_mj", "cost"], "no interval and no carbon where there is none"


def test_nothing_is_added_without_factors() -> None:
    rows = pl.DataFrame({"energy_j": [1.0]})
    assert NO_TARIFF.priced(rows).equals(rows)
    assert NO_TARIFF.priced_records([{"energy_j": 1.0}]) == [{"energy_j": 1.0}]
    assert NO_TARIFF.factors() == {}


@pytest.mark.parametrize("factors", [(-1.0,), (math.nan,), (None, -1.0), (1.0, None, 0.5), (None, None, 1.2)])
def test_factors_that_are_none_are_refused(factors: tuple[Any, ...]) -> None:
    with pytest.raises(tt.BadInput):
        tt.Tariff(*factors)


@pytest.mark.parametrize(
    ("factors", "column", "option"),
    [((0.25,), "cost", "--price"), ((None, 380.0), "co2_g", "--gco2-per-kwh"),
     ((0.25, 380.0), "co2_low_g", "--gco2-per-kwh")],
)  # fmt: skip
def test_a_column_of_the_user_is_not_replaced(factors: tuple[Any, ...], column: str, option: str) -> None:
    table = pl.DataFrame({"energy_mj": [1.0], "energy_low_mj": [0.9], column: ["rack 7"]})
    with pytest.raises(tt.BadInput, match=f"has a column {column} already") as raised:
        Tariff(*factors).priced(table)
    assert raised.value.fix == f"rename it, or leave out {option}"


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_adds_cost_and_carbon_to_its_energies(
    words: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = words.split()
    arguments = [name, str(run), *options]
    assert command([*arguments, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    out = tmp_path / "priced.csv"
    assert command([*arguments, *FACTORS, "--json", "-o", str(out)]) == 0
    priced = json.loads(capsys.readouterr().out)
    assert priced.pop("tariff") == {"price_per_kwh": 0.3, "gco2_per_kwh": 380.0, "pue": 1.25}
    assert plain.keys() == priced.keys()
    rows = priced[COMMANDS[words]]
    assert any(row["energy_j"] for row in rows)
    for before, row in zip(plain[COMMANDS[words]], rows, strict=True):
        assert row["energy_j"] == pytest.approx(before["energy_j"])
        if row["energy_j"] is not None:
            assert row["cost"] == pytest.approx(row["energy_j"] / 3.6e6 * 0.3 * 1.25)
            assert row["co2_g"] == pytest.approx(row["energy_j"] / 3.6e6 * 380 * 1.25)
    assert {"cost", "co2_g"} <= set(pl.read_csv(out).columns)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_shows_cost_in_80_columns(
    words: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name, *options = words.split()
    assert command([name, str(run), *options, *FACTORS]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    table = next(line for line in shown.splitlines() if " cost" in line and "energy" in line)
    assert table.index("energy") < table.index("cost")
    assert "in the currency of --price (0.3 per kWh)" in shown


@pytest.mark.parametrize(
    "bad", ["--price -1", "--price nan", "--price x", "--price 1 --pue 0.9", "--pue 1.2"]
)
@pytest.mark.parametrize("name", ["attribute", "summary", "predict"])
def test_bad_factors_end_with_one_line(
    name: str, bad: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([name, str(run), *bad.split()]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_units_of_forecasts_are_priced_with_their_intervals() -> None:
    row = {"energy_per_token_j": 0.36, "energy_per_token_j_low": 0.18, "energy_per_token_j_high": 0.72}
    frame = pl.DataFrame({**row, "energy_per_item_j": 3.6e6})
    priced = Tariff(price_per_kwh=0.25, gco2_per_kwh=400.0, pue=1.2).priced_units(frame)
    assert priced.drop(frame.columns).row(0, named=True) == pytest.approx({
        "cost_per_million_tokens": 0.03, "cost_per_million_tokens_low": 0.015,
        "cost_per_million_tokens_high": 0.06, "co2_per_million_tokens_g": 48.0,
        "co2_per_million_tokens_g_low": 24.0, "co2_per_million_tokens_g_high": 96.0,
        "cost_per_item": 0.3, "co2_per_item_g": 480.0,
    })  # fmt: skip
    assert Tariff().priced_units(frame).columns == frame.columns
