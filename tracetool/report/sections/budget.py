"""The time and energy of a run by what they were spent on."""

from __future__ import annotations

import polars as pl

from tracetool.core.number_text import counted, number
from tracetool.report.pictures.time_budget import budget_picture, part_colors
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, legend_html, line_html, picture_html, table_html
from tracetool.report.terminal.time_budget import budget_rows
from tracetool.tables.serialized import SERIALIZED


def budget(page: RunPage) -> Section | None:
    """Return the time budget: a bar of time, one of joules, and the table."""
    spent = page.budget
    if spent is None:
        return None
    run_row = spent.together().row(-1, named=True)
    energy = ""
    if run_row["energy_j"] is not None:
        energy = f" and {spent.energy_words},"
    gpus = f" on {counted(spent.devices, 'GPU')}" if spent.devices > 1 else ""
    intro = f"{number(spent.span_ms)} ms{gpus}{energy} by what they were spent on; parts sum to the run."
    parts_with_time = spent.together().filter(pl.col("time_ms") > 0)["part"].to_list()
    colors = [(part, color) for part, color in part_colors().items() if part in parts_with_time]
    body = picture_html(budget_picture(spent), "Time and energy budget") + legend_html(colors)
    rows = budget_rows(spent).rename({"name": "part"})
    body += "".join(line_html(note, "warning") for note in spent.notes if note == SERIALIZED)
    return Section("budget", "Time and energy budget", intro, body + table_html(rows, "Parts of the run"))
