"""Predicted against measured as a report."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracetool.compare.accuracy import Accuracy
from tracetool.core.number_text import number
from tracetool.measure.measured_scopes import WHOLE_PCT
from tracetool.report.sentences import coverage_line
from tracetool.report.view import Block, Case, Fold, Grid, Line, View
from tracetool.tables.schema import load_schema

WORST = 10
_HEADERS = {
    "time_error_pct": "time err",
    "energy_error_pct": "error",
    "energy_predicted_j": "predicted",
    "power_predicted_w": "predicted",
    "flops_error_pct": "FLOP err",
    "dram_error_pct": "bytes err",
}
#: How notes begin that stand above the tables.
_SHOWN = ("collectives", "operations counted", "DRAM bytes counted")


def accuracy_view(accuracy: Accuracy) -> View:
    """Return the report of a prediction against a measurement, worst offenders first."""
    blocks: list[Block] = [Line(headline(accuracy), "headline")]
    blocks += [Line(text, "note") for text in (whole_line(accuracy), coverage_line(accuracy.coverage))]
    blocks.append(Line(_setting(accuracy), "note"))
    blocks += [Line(text, "warning") for text in (*accuracy.breaches, *accuracy.warnings)]
    blocks += [Line(note, "note") for note in accuracy.notes if note.startswith(_SHOWN)]
    by_family = _people(accuracy, ("total", "gap", "family"), compared_only=True)
    plain = _HEADERS if accuracy.measured else _HEADERS | {"energy_predicted_j": "energy predicted"}
    about = ("energy_error_pct" if accuracy.measured else "time_error_pct",)
    blocks.append(Grid(by_family, "By family", headers=plain | {"name": "family"}, about=about))
    if accuracy.by:
        rows = _people(accuracy, ("group",))
        named = plain | {"name": "group"}
        blocks.append(Grid(rows, f"By {', '.join(accuracy.by)}", headers=named, about=about))
    kernels = _people(accuracy, ("signature",))
    headers = plain | {"name": "kernel"}
    compared = accuracy.total()["compared_pct"] or 0.0
    title = "Kernels, largest difference first" if compared else "Kernels, none of them compared"
    blocks.append(Grid(kernels, title, WORST, headers, about, folded=True))
    if kernels.height > WORST:
        more = Grid(kernels.slice(WORST), "", 100, headers, about)
        blocks.append(Fold(f"{kernels.height - WORST:,} more kernels", (more,)))
    blocks.append(Fold("How this was judged", tuple(Line(n) for n in (*accuracy.notes, _METHOD))))
    return View(
        title="Predicted against measured",
        table=accuracy.table,
        schema=load_schema("accuracy"),
        blocks=tuple(blocks),
        document=document(accuracy),
        cases=_cases(accuracy),
    )


_METHOD = (
    "Predictions are unanchored: times are the model's own, from shapes. Intervals are 90 %. Errors are "
    "predicted over measured, minus one, over the same launches. Kernels whose sizes are not known, or were "
    "inferred from their measured time, are not compared. A kernel agrees when the two intervals of its "
    "energy overlap. Sums add the ends of intervals: errors of one family go together."
)


def headline(accuracy: Accuracy) -> str:
    """Return the report's first line: what was compared, and how much of the run that is."""
    row = accuracy.total()
    share = _f(row, "compared_pct") or 0.0
    if not share:
        return "Nothing to compare: no kernel's time is predicted from shapes"
    compared = f"{number(share, 2)} % of the kernels' time compared"
    transfer_ms = (_f(row, "time_ms") or 0.0) - (_f(row, "waiting_ms") or 0.0)
    time = (
        f"time {number(transfer_ms)} ms measured, {number(_f(row, 'time_predicted_ms'))} ms predicted"
        f" ({_off(row['time_error_pct'])}); {compared}"
    )
    predicted = f"{number(_f(row, 'energy_predicted_j'))} J predicted"
    if row["energy_j"] is None:
        return f"Energy {predicted}, not measured; {time}"
    return (
        f"Energy {number(_f(row, 'energy_j'))} J measured"
        f" (90 %: {number(_f(row, 'energy_low_j'), 3)} to {number(_f(row, 'energy_high_j'), 3)}),"
        f" {predicted} ({_off(row['energy_error_pct'])}); {time}"
    )


def whole_line(accuracy: Accuracy) -> str:
    """Return what is predicted, unanchored, of all kernels: the figures ``predict --anchor none`` gives."""
    row = accuracy.scope("kernels")
    if row is None:
        return "All kernels: not predicted"
    measured = f"{number(_f(row, 'time_ms'))} ms"
    covered_pct = _f(row, "measured_pct") or 0.0
    if row["energy_j"] is None:
        measured += " measured"
    elif covered_pct >= WHOLE_PCT:
        measured += f" and {number(_f(row, 'energy_j'))} J measured"
    else:
        covered_ms = number(0.01 * covered_pct * (_f(row, "time_ms") or 0.0))
        measured += f" measured, {number(_f(row, 'energy_j'))} J in the {covered_ms} ms that the log covers"
    predicted = f"{number(_f(row, 'time_predicted_ms'))} ms and {number(_f(row, 'energy_predicted_j'))} J"
    ends = (number(_f(row, f"energy_predicted_{end}_j"), 3) for end in ("low", "high"))
    return f"All kernels: {measured}; {predicted} (90 %: {' to '.join(ends)}) predicted, unanchored"


def _f(row: dict[str, Any], key: str) -> float | None:
    value = row[key]
    return None if value is None else float(value)


def _off(value: Any) -> str:
    return "not comparable" if value is None else f"{value:+.1f} %"


def _setting(accuracy: Accuracy) -> str:
    return f"{accuracy.gpu} at {accuracy.clock_mhz:g} MHz · {accuracy.run}"


def _people(accuracy: Accuracy, levels: tuple[str, ...], *, compared_only: bool = False) -> pl.DataFrame:
    timed = ["kernel_share_pct", "time_ms", "time_error_pct"]
    if accuracy.measured:
        keep = ["name", "energy_j", "energy_low_j", "energy_high_j", "energy_error_pct", "agrees", *timed]
        keep += ["energy_predicted_j", "power_w", "power_predicted_w", "launches"]
    else:
        keep = ["name", "energy_predicted_j", "energy_predicted_low_j", "energy_predicted_high_j", *timed]
        keep += ["power_predicted_w", "basis", "launches"]
    rows = accuracy.table.filter(pl.col("level").is_in(levels))
    work = [c for c in ("flops_error_pct", "dram_error_pct") if rows[c].count()]
    after = keep.index("time_error_pct") + 1
    keep[after:after] = work
    if compared_only:
        rows = rows.filter((pl.col("level") == "gap") | (pl.col("compared_pct") > 0))
    return rows.select(keep)


def document(accuracy: Accuracy) -> dict[str, Any]:
    """Return the JSON document."""
    rows = {level: _rows(accuracy.table, level) for level in ("total", "gap", "family", "signature")}
    scopes = accuracy.table.filter(pl.col("level").is_in(["kernels", "copies", "gap"])).to_dicts()
    return {
        "schema": "accuracy/4",
        "run": accuracy.run,
        "gpu": accuracy.gpu,
        "clock_mhz": accuracy.clock_mhz,
        "measured": accuracy.measured,
        "failed": bool(accuracy.breaches),
        "reasons": list(accuracy.breaches),
        "anchored": False,
        "coverage": dict(accuracy.coverage),
        **({"by": list(accuracy.by), "groups": _rows(accuracy.table, "group")} if accuracy.by else {}),
        "total": rows["total"][0],
        "scopes": scopes,
        "gaps": rows["gap"],
        "families": rows["family"],
        "kernels": rows["signature"],
        "warnings": list(accuracy.warnings),
        "notes": list(accuracy.notes),
    }


def _rows(table: pl.DataFrame, level: str) -> list[dict[str, Any]]:
    return table.filter(pl.col("level") == level).drop("level").to_dicts()


def _cases(accuracy: Accuracy) -> tuple[Case, ...]:
    if accuracy.breaches:
        return tuple(Case("accuracy", text, "failed", text) for text in accuracy.breaches)
    return (Case("accuracy", "predicted against measured", "passed", headline(accuracy)),)
