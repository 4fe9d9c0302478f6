"""Predicted against measured as a report."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracetool.compare.accuracy import Accuracy
from tracetool.report.columns import number
from tracetool.report.view import Block, Case, Fold, Grid, Line, View
from tracetool.tables.schema import load_schema

WORST = 10
_HEADERS = {
    "time_error_pct": "off by",
    "energy_error_pct": "off by",
    "energy_predicted_j": "predicted",
    "power_predicted_w": "predicted",
}


def accuracy_view(found: Accuracy) -> View:
    """Return the report of a prediction against a measurement, worst offenders first."""
    blocks: list[Block] = [Line(headline(found), "headline"), Line(_setting(found), "note")]
    blocks += [Line(text, "warning") for text in (*found.breaches, *found.warnings, *_untimed(found))]
    parts = _people(found, ("total", "gap", "family"))
    blocks.append(Grid(parts, "By family", headers=_HEADERS | {"name": "family"}))
    kernels = _people(found, ("signature",))
    headers = _HEADERS | {"name": "kernel"}
    blocks.append(Grid(kernels, "Kernels, largest difference first", WORST, headers))
    if kernels.height > WORST:
        blocks.append(
            Fold(f"{kernels.height - WORST:,} more kernels", (Grid(kernels.slice(WORST), "", 100, headers),))
        )
    blocks.append(Fold("How this was judged", tuple(Line(n) for n in (*found.notes, _METHOD))))
    return View(
        title="Predicted against measured",
        table=found.table,
        schema=load_schema("accuracy"),
        blocks=tuple(blocks),
        document=document(found),
        cases=_cases(found),
    )


_METHOD = (
    "Intervals are 90 %. Errors are predicted over measured, minus one. A kernel agrees when the two "
    "intervals of its energy overlap. Sums add the ends of intervals: errors of one family go together."
)


def _untimed(found: Accuracy) -> tuple[str, ...]:
    share = found.untimed_pct
    if share < 0.5:
        return ()
    return (
        f"{share:.0f} % of the time has no known shapes: there the time is the recorded one, not predicted",
    )


def headline(found: Accuracy) -> str:
    """Return the report's first line."""
    row = found.total()
    time = (
        f"time {number(_f(row, 'time_ms'))} ms measured, {number(_f(row, 'time_predicted_ms'))} ms predicted"
    )
    time += f" ({_off(row['time_error_pct'])})"
    predicted = f"{number(_f(row, 'energy_predicted_j'))} J predicted"
    if row["energy_j"] is None:
        return f"Energy {predicted}, not measured; {time}"
    return (
        f"Energy {number(_f(row, 'energy_j'))} J measured"
        f" ({number(_f(row, 'energy_low_j'), 3)}..{number(_f(row, 'energy_high_j'), 3)}),"
        f" {predicted} ({_off(row['energy_error_pct'])}); {time}"
    )


def _f(row: dict[str, Any], key: str) -> float | None:
    value = row[key]
    return None if value is None else float(value)


def _off(value: Any) -> str:
    return "not comparable" if value is None else f"{value:+.1f} %"


def _setting(found: Accuracy) -> str:
    return f"{found.gpu} at {found.clock_mhz:g} MHz · {found.run}"


def _people(found: Accuracy, levels: tuple[str, ...]) -> pl.DataFrame:
    keep = ["name", "time_ms", "time_error_pct"]
    if found.measured:
        keep += ["energy_j", "energy_low_j", "energy_high_j", "energy_error_pct", "agrees"]
        keep += ["energy_predicted_j", "share_pct", "power_w", "power_predicted_w", "launches"]
    else:
        keep += ["energy_predicted_j", "energy_predicted_low_j", "energy_predicted_high_j", "share_pct"]
        keep += ["power_predicted_w", "basis", "launches"]
    return found.table.filter(pl.col("level").is_in(levels)).select(keep)


def document(found: Accuracy) -> dict[str, Any]:
    """Return the JSON document."""
    rows = {level: _rows(found.table, level) for level in ("total", "gap", "family", "signature")}
    return {
        "schema": "accuracy/1",
        "run": found.run,
        "gpu": found.gpu,
        "clock_mhz": found.clock_mhz,
        "measured": found.measured,
        "failed": bool(found.breaches),
        "reasons": list(found.breaches),
        "total": rows["total"][0],
        "gaps": rows["gap"],
        "families": rows["family"],
        "kernels": rows["signature"],
        "warnings": [*found.warnings, *_untimed(found)],
        "notes": list(found.notes),
    }


def _rows(table: pl.DataFrame, level: str) -> list[dict[str, Any]]:
    return table.filter(pl.col("level") == level).drop("level").to_dicts()


def _cases(found: Accuracy) -> tuple[Case, ...]:
    if found.breaches:
        return tuple(Case("accuracy", text, "failed", text) for text in found.breaches)
    return (Case("accuracy", "predicted against measured", "passed", headline(found)),)
