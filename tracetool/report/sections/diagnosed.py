"""Where the joules go, by cause, and the findings."""

from __future__ import annotations

import polars as pl

from tracetool.core.number_text import number
from tracetool.replay.diagnosis.findings import Finding
from tracetool.report.pictures.causes import cause_colors, causes_picture
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, legend_html, line_html, picture_html, table_html
from tracetool.report.sentences import with_short_names

#: Most letters of a kernel's name in a sentence; the table of kernels has it whole. [letters]
_NAME = 60


def diagnosed(page: RunPage) -> Section | None:
    """Return the causes of a run's joules: a bar, the findings as sentences, the table."""
    diagnosis = page.diagnosis
    if diagnosis is None:
        return None
    totals = diagnosis.causes
    run_row = totals.row(-1, named=True)
    joules = diagnosis.energy_words or f"{number(run_row['energy_j'])} J"
    intro = (
        f"{joules} (90 %: {number(run_row['energy_low_j'])} to"
        f" {number(run_row['energy_high_j'])}) by cause; the joules of the causes sum to the run's."
    )
    colors = cause_colors(totals)
    body = picture_html(causes_picture(totals), "Joules by cause") + legend_html(colors.items())
    for place, one in enumerate(diagnosis.findings, start=1):
        claim, *more = one.sentences
        body += line_html(f"{place}. {claim}", "finding")
        body += "".join(line_html(_shorter(text, one)) for text in more)
    if not diagnosis.findings and not diagnosis.warnings:
        body += line_html("0 causes take 1 % of the energy or more.")
    body += "".join(line_html(text, "warning") for text in diagnosis.warnings)
    rows = totals.select(
        "cause", "energy_j", "energy_low_j", "energy_high_j", (100.0 * pl.col("share")).alias("share_pct"),
        "time_ms",
    )  # fmt: skip
    return Section("causes", "Why so many joules", intro, body + table_html(rows, "Energy by cause"))


def _shorter(text: str, finding: Finding) -> str:
    """Return a sentence of a finding with the names of kernels in it cut."""
    names = {str(row["name"]) for row in finding.evidence if row.get("name")}
    return with_short_names(text, names, _NAME)
