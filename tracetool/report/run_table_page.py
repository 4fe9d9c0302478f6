"""Report of a table of measured runs: sentences, pictures, comparisons, curves."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from tracetool.compare.run_tables.batch_curve import CURVE
from tracetool.compare.run_tables.diagnosis import TableDiagnosis
from tracetool.core.number_text import counted
from tracetool.report.pictures.run_table import batch_picture, factor_picture, front_picture
from tracetool.report.view import Block, Drawing, Fold, Grid, Line, View

#: Headings of the comparisons.
HEADERS: Final = {
    "name": "comparison", "ratio": "energy x (range of pairs)", "ratio_low": "from", "ratio_high": "to",
    "factor": "explains most", "less": "less in",
}  # fmt: skip
#: Rows of a table that a page shows.
_ROWS: Final = 60
#: Sentences shown at once.
_SENTENCES: Final = 8


def headline(diagnosis: TableDiagnosis) -> str:
    """Return the content of the table, in a line."""
    frame = diagnosis.table.frame
    gpus = ", ".join(frame["gpu"].unique().sort().to_list())
    models = counted(frame["family"].n_unique(), "model")
    return f"{counted(frame.height, 'configuration')} of {models} on {gpus}"


def comparison_rows(diagnosis: TableDiagnosis) -> pl.DataFrame:
    """Return the comparisons as people read them, the ratio of energies first; empty without any."""
    summaries = diagnosis.summaries()
    if not summaries.height:
        return summaries
    return summaries.select(
        pl.col("label").alias("name"),
        "ratio",
        "ratio_low",
        "ratio_high",
        pl.format("{} of {}", "less", "pairs").alias("less"),
        pl.format("{} {} %", "factor", pl.col("factor_pct").round(0).cast(pl.Int64)).alias("factor"),
    )


def table_view(diagnosis: TableDiagnosis) -> View:
    """Return the report of a table of runs; its table is the configurations with their latent factors."""
    runs = diagnosis.table.frame
    blocks: list[Block] = [Line(headline(diagnosis), "headline")]
    lines = [Line(s.text) for s in diagnosis.statements]
    blocks += lines[:_SENTENCES]
    if lines[_SENTENCES:]:
        blocks.append(Fold(f"{len(lines) - _SENTENCES} more findings", tuple(lines[_SENTENCES:])))
    blocks += [Line(note, "note") for note in diagnosis.table.notes]
    bars = factor_picture(diagnosis.contrasts)
    if bars:
        caption = "What each latent factor adds to the energy, or takes, in the pair of the median ratio"
        blocks.append(Drawing(bars, f"{caption}: they sum to its difference exactly"))
    for unit in runs["unit"].unique().sort(descending=True).to_list():
        front = front_picture(runs, unit)
        if front:
            blocks.append(Drawing(front, f"Energy of one {unit} against time, a line per GPU under it all"))
        curves = batch_picture(runs, diagnosis.curves, unit)
        if curves:
            blocks.append(Drawing(curves, f"Energy of one {unit} against the batch, measured and fitted"))
    comparisons = comparison_rows(diagnosis)
    if comparisons.height:
        blocks.append(Grid(comparisons, "Comparisons", headers=HEADERS))
    if diagnosis.curves.frame.height:
        blocks.append(Fold("Curves over the batch", (Grid(_curve_rows(diagnosis), "", _ROWS),)))
    if diagnosis.ranked.height:
        blocks.append(Fold("Models left out", (Grid(diagnosis.ranked, "", _ROWS),)))
    blocks.append(Fold("Configurations and their latent factors", (Grid(diagnosis.latent, "", _ROWS),)))
    return View("Why the energy of runs differs", diagnosis.latent, None, tuple(blocks), document(diagnosis))


def _curve_rows(diagnosis: TableDiagnosis) -> pl.DataFrame:
    named = pl.format("{}, {}, {}x{}", "model", "task", pl.col("gpus").cast(pl.Int64), "gpu")
    return diagnosis.curves.frame.select(named.alias("curve"), pl.exclude(*CURVE, "smallest_batch"))


def document(diagnosis: TableDiagnosis) -> dict[str, Any]:
    """Return the JSON document."""
    runs = diagnosis.table.frame
    return {
        "configurations": runs.height,
        "models": runs["family"].n_unique(),
        "gpus": runs["gpu"].unique().sort().to_list(),
        "findings": [
            {"subject": s.subject, "text": s.text, "figures": dict(s.figures), "rows": list(s.rows)}
            for s in diagnosis.statements
        ],
        "comparisons": [
            {**summary, "pairs": contrast.pairs.to_dicts()}
            for summary, contrast in zip(
                diagnosis.summaries().rename({"pairs": "count"}).to_dicts() if diagnosis.contrasts else [],
                diagnosis.contrasts,
                strict=True,
            )
        ],
        "batch_curves": diagnosis.curves.frame.to_dicts(),
        "context_growth": diagnosis.growth.to_dicts(),
        "left_out": diagnosis.ranked.to_dicts(),
        "notes": list(diagnosis.table.notes),
    }
