"""How cost and CO2 look on the console: beside their energy, and of the whole."""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from tracetool.core.interval import ENDS
from tracetool.core.number_text import number
from tracetool.forecast.case import COLUMNS
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say
from tracetool.tables.tariff import Tariff

_COSTS: Final = tuple(f"cost{end}" for end in ENDS)
#: Costs below this are shown in thousandths, millionths, ... of the currency. [currency]
_LEAST_COST: Final = 0.1


def beside_energy(rows: pl.DataFrame, tariff: Tariff) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return rows with cost and CO2 right after energy and share, and the headings of their columns."""
    priced, headings = scaled_prices(tariff.priced(rows))
    added = [c for c in priced.columns if c not in rows.columns]
    leading = ("energy", "energy_low", "energy_high", "share")
    first = [c for c in rows.columns if c.rsplit("_", 1)[0] in leading]
    place = max((rows.columns.index(c) + 1 for c in first), default=rows.width)
    return priced.select(*rows.columns[:place], *added, *rows.columns[place:]), headings


def scaled_prices(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return rows with small costs in a unit that shows their digits, and the heading that states it."""
    if "cost" not in rows.columns:
        return rows, {}
    power = _power_of(rows["cost"])
    if not power:
        return rows, {"cost": "cost"}
    scaled = [pl.col(c) * 10.0**-power for c in _COSTS if c in rows.columns]
    return rows.with_columns(scaled), {"cost": f"cost [1e{power}]"}


def _power_of(costs: pl.Series, least: float = _LEAST_COST) -> int:
    """Return the power of ten, a multiple of three, in which costs below ``least`` show digits; else 0."""
    largest = max((abs(v) for v in costs.drop_nulls() if v and math.isfinite(v)), default=1.0)
    return 0 if largest >= least else 3 * math.floor(math.log10(largest) / 3)


def print_unit_prices(tariff: Tariff, rows: pl.DataFrame) -> None:
    """Print what a unit of work costs, one case or a row per case, and what that rests on."""
    if not tariff:
        return
    screen = open_console()
    added = [c for c in rows.columns if c.startswith(("cost_per", "co2_per"))]
    added = [c for c in added if rows[c].null_count() < rows.height]
    if rows.height == 1:
        for column in (c for c in added if not c.endswith(("_low", "_high"))):
            value, low, high = (number(rows[f"{column}{end}"].item()) for end in ENDS)
            unit = " g" if column.endswith("_g") else ""
            text = column.removesuffix("_g").replace("_", " ").replace("co2", "CO2")
            say(screen, f"{text}: {value}{unit} (90 %: {low} to {high})")
    elif added:
        named = [c for c in rows.columns if c in COLUMNS and (c in _WHAT or rows[c].n_unique() > 1)]
        shown, headings = _scaled_units(rows.select(*named, *added))
        show_table(shown, headers=headings, console=screen, limit=40, all_with="--json", about=named)
    say(screen, tariff.sentence())


#: The same of units of work: six decimals show no three digits below. [currency]
_LEAST_OF_UNITS: Final = 1e-3
#: Columns of a case that are named beside what its units cost, differ or not.
_WHAT: Final = ("model", "gpu")


def _scaled_units(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return what units of work cost in a unit that shows the digits of small ones, and their headings."""
    headings: dict[str, str] = {}
    for name in [c for c in rows.columns if c.startswith("cost_per") and not c.endswith(("_low", "_high"))]:
        if power := _power_of(rows[name], _LEAST_OF_UNITS):
            ends = [f"{name}{end}" for end in ENDS if f"{name}{end}" in rows.columns]
            rows = rows.with_columns(pl.col(c) * 10.0**-power for c in ends)
            headings[name] = f"{name.replace('_', ' ')} [1e{power}]"
    return rows, headings


def print_tariff(tariff: Tariff, run_totals: pl.DataFrame) -> None:
    """Print the cost and CO2 of the whole, one row or a row per clock, and what they rest on."""
    if not tariff:
        return
    screen = open_console()
    if run_totals.height == 1:
        row = run_totals.row(0, named=True)
        for name, column, unit in (("cost", "cost{}", ""), ("CO2", "co2{}_g", " g")):
            if row.get(column.format("")) is not None:
                value, low, high = (number(row.get(column.format(end))) for end in ENDS)
                say(
                    screen,
                    f"run: {name} {value}{unit}" + (f" (90 %: {low} to {high})" if low and high else ""),
                )
    elif run_totals.height:
        names = [
            c for c in run_totals.columns if c == "clock_mhz" or c.startswith(("energy_j", "cost", "co2"))
        ]
        names += [c for c in ("energy_low_j", "energy_high_j") if c in run_totals.columns]
        rows, headings = scaled_prices(run_totals.select(names))
        show_table(rows, headers=headings, console=screen, limit=40, all_with="--json")
    say(screen, tariff.sentence())
