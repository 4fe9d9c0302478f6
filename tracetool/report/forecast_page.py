"""Forecasts as pages and Markdown: what the console says, and every case with its intervals."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.report.terminal.forecast import Forecasted, fact_sentences, figure_rows
from tracetool.report.view import Block, Grid, Line

#: Operators of one case that are shown; all of them are in the JSON document.
_OPERATORS_SHOWN: Final = 40
_OPERATOR_COLUMNS: Final = (
    "module", "energy_j", "energy_share_pct", "time_ms", "launches", "shape", "family", "basis",
)  # fmt: skip
#: Cases that make a table for people; longer ones are written whole, as data.
_CASES_SHOWN: Final = 200
_HEADS: Final = {
    "ttft_ms": "time to first token",
    "itl_ms": "time between tokens",
    "covered_pct": "time on measured kernels",
    "goals": "best for",
    "throughput_per_gpu": "throughput of one GPU [1/s]",
    "pareto_latency": "unbeaten in energy and latency",
    "pareto_throughput": "unbeaten in energy and throughput",
    "energy_per_item_j": "energy per request or item",
}


def forecast_blocks(forecasted: Forecasted, rows: pl.DataFrame) -> tuple[Block, ...]:
    """Return what people read of forecasts, in order; nothing for a table too long to read.

    Parameters
    ----------
    forecasted : Forecasted
        One case or many.
    rows : DataFrame, shape (cases, columns)
        The cases with their figures and 90 % intervals.
    """
    if rows.height > _CASES_SHOWN:
        return ()
    notes = tuple(Line(note, "note") for note in forecasted.notes)
    if forecasted.single:
        record = rows.to_dicts()[0]
        schema = ("figure", "forecast", "90 % interval")
        figures = pl.DataFrame(figure_rows(record), schema=schema, orient="row")
        facts = tuple(Line(text) for text in fact_sentences(record, forecasted.facts))
        parts = forecasted.parts.select(c for c in _OPERATOR_COLUMNS if c in forecasted.parts.columns)
        operators = Grid(parts, "Operators of one GPU, most energy first", _OPERATORS_SHOWN)
        return (Line(forecasted.title, "headline"), Grid(figures), *facts, operators, *notes)
    title = f"{forecasted.title}: {rows.height} cases" if forecasted.title else f"{rows.height} cases"
    shown = rows.with_columns((100.0 * pl.col("covered")).alias("covered_pct")).drop("covered")
    if forecasted.title and rows["model"].n_unique() == 1:  # the title names it
        shown = shown.drop("model")
    if "goals" in shown.columns:  # several stand in a cell, joined by commas
        shown = shown.with_columns(pl.col("goals").str.replace_all("least energy, (\\w+ within)", "$1"))
    energies = [c for c in shown.columns if c.startswith("energy")]
    place = shown.columns.index("step_ms")
    before = [c for c in shown.columns[:place] if c not in energies]
    after = [c for c in shown.columns[place:] if c not in energies]
    cases = Grid(shown.select(*before, *energies, *after), "Cases, with 90 % intervals", headers=_HEADS)
    return (Line(title, "headline"), cases, *notes)
