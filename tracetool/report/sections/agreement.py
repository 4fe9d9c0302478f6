"""Predicted against measured."""

from __future__ import annotations

import polars as pl

from tracetool.report.accuracy import headline, whole_line
from tracetool.report.coverage import coverage_line
from tracetool.report.pictures.charts import chart_html
from tracetool.report.pictures.colors import family_colors
from tracetool.report.pictures.scatter import scatter
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, line_html, table_html

_MOST_DOTS = 600


def agreement(page: RunPage) -> Section:
    """Return the scatter of energies (or of times, without a power log) and the families' errors."""
    accuracy = page.accuracy
    rows = accuracy.table.filter((pl.col("level") == "signature") & (pl.col("compared_pct") > 0))
    colors = family_colors(page.families)
    pictures = []
    for quantity, unit, column in (("energy", "J", "energy{}_j"), ("time", "ms", "time{}_ms")):
        measured, predicted = column.format(""), column.format("_predicted")
        shown = rows.filter(pl.col(measured).is_not_null() & pl.col(predicted).is_not_null())
        shown = shown.sort(measured, descending=True).head(_MOST_DOTS)
        if not shown.height:
            continue
        chart = scatter(
            shown[measured].to_numpy(),
            shown[predicted].to_numpy(),
            shown["name"].to_list(),
            shown["family"].fill_null("unknown").to_list(),
            colors,
            quantity=quantity,
            unit=unit,
        )
        pictures.append(chart_html(chart, f"agreement-{quantity}"))
    listed = pl.col("level").is_in(["total", "family"]) & (pl.col("compared_pct") > 0)
    parts = accuracy.table.filter(listed | (pl.col("level") == "gap")).select(
        "name",
        "share_pct",
        "time_ms",
        pl.col("time_error_pct").round(1),
        "energy_j",
        "energy_low_j",
        "energy_high_j",
        "energy_predicted_j",
        "energy_predicted_low_j",
        "energy_predicted_high_j",
        pl.col("energy_error_pct").round(1),
        "agrees",
    )
    parts = parts.select(c for c in parts.columns if parts[c].null_count() < parts.height)
    lines = line_html(coverage_line(accuracy.coverage))
    lines += "".join(line_html(w, "warning") for w in (*accuracy.breaches, *accuracy.warnings))
    families = table_html(parts, "Errors by family, worst first")
    return Section(
        "agreement",
        "Predicted (unanchored) against measured",
        f"{headline(accuracy)}. {whole_line(accuracy)}. On the diagonal both agree; the band is a tenth to"
        " either side.",
        f'{lines}<div class="pair">{"".join(pictures)}</div>{families}',
    )
