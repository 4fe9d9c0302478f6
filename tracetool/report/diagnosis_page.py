"""Diagnoses as pages and Markdown: what the console says, and the rows it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from tracetool.compare.energy_difference.sentences import causes_of_change, headline
from tracetool.core.number_text import number
from tracetool.report.sentences import with_short_names
from tracetool.report.view import Block, Grid, Line

if TYPE_CHECKING:
    from tracetool.compare.energy_difference.difference import EnergyDifference
    from tracetool.replay.diagnosis.findings import Finding
    from tracetool.replay.diagnosis.ledger import Ledger
    from tracetool.replay.diagnosis.what_if import WhatIfAnswer

#: Most letters of a kernel's name in a sentence; the rows have it whole. [letters] By definition.
_NAME: Final = 60
#: Most rows shown; all of them are in the data outputs. [1] By definition.
_ROWS: Final = 200
#: Columns of rows of a difference that come first: what changed, by how much, from what.
_FIRST: Final = (
    "level", "name", "head_name", "change_j", "energy_base_j", "energy_head_j", "time_base_ms",
    "time_head_ms", "launches_base", "launches_head",
)  # fmt: skip


def energy_line(booked: Ledger) -> str:
    """Return the sentence on the run's energy, its source and interval."""
    run_row = booked.totals.row(-1, named=True)
    ends = f"{number(run_row['energy_low_j'])} to {number(run_row['energy_high_j'])}"
    return f"{booked.energy_words} (90 %: {ends}), by cause"


def diagnosis_blocks(
    booked: Ledger, findings: Sequence[Finding], what_if: WhatIfAnswer | None
) -> tuple[Block, ...]:
    """Return what people read of a run's causes: energies, findings, what was asked, basis, rows."""
    totals = _in_percent(booked.totals).select(
        "cause", "energy_j", "energy_low_j", "energy_high_j", "share_pct", "time_ms"
    )
    asked = () if what_if is None else what_if.sentences
    notes = (*booked.notes, *(() if what_if is None else what_if.notes))
    return (
        Line(energy_line(booked), "headline"),
        Grid(totals, "Energy by cause", headers={"share_pct": "of run"}),
        *_numbered([(one.sentences, [str(row["name"]) for row in one.evidence]) for one in findings]),
        *(Line(f"what if {text}") for text in asked),
        *(Line(note, "note") for note in notes),
        Grid(booked.rows, "By GPU, cause and kernel", _ROWS),
    )


def difference_blocks(of: EnergyDifference) -> tuple[Block, ...]:
    """Return what people read of two runs: the change, its causes, basis, rows."""
    totals = _in_percent(of.totals).select("cause", "change_j", "change_low_j", "change_high_j", "share_pct")
    heads = {"change_j": f"change a {of.unit}", "share_pct": "of change"}
    found = [
        (one.sentences, [str(row[c]) for row in one.evidence for c in ("operator", "name") if row[c]])
        for one in causes_of_change(of)
    ]
    rest = [c for c in of.rows.columns if c not in _FIRST]
    return (
        Line(headline(of), "headline"),
        Grid(totals, "Change by cause", headers=heads),
        *_numbered(found),
        *(Line(note, "note") for note in of.notes),
        Grid(of.rows.select(*_FIRST, *rest), "By what was matched, largest change first", _ROWS),
    )


def _in_percent(totals: pl.DataFrame) -> pl.DataFrame:
    return totals.with_columns((100.0 * pl.col("share")).alias("share_pct"))


def _numbered(findings: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Iterator[Line]:
    """Yield findings as lines, their claims numbered; each comes with the names in its sentences."""
    for place, (sentences, names) in enumerate(findings, start=1):
        claim, *more = (with_short_names(text, names, _NAME) for text in sentences)
        yield Line(f"Finding {place}: {claim}")  # "1." would begin a list in Markdown
        yield from (Line(text, "note") for text in more)
