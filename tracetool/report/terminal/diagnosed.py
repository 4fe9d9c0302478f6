"""How a diagnosis looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracetool.core import escape
from tracetool.core.figures import number
from tracetool.report.console import show_table
from tracetool.report.sentences import compact, cut_middle, open_console, say

if TYPE_CHECKING:
    from tracetool.replay.diagnosis.findings import Finding
    from tracetool.replay.diagnosis.ledger import Ledger

#: Columns a kernel's name takes in a sentence.
_NAME = 40


def print_diagnosis(
    booked: Ledger, findings: Sequence[Finding], written: Sequence[str | os.PathLike[str]]
) -> None:
    """Print the causes, highest energy first, then each finding with its evidence and its replay."""
    screen = open_console()
    whole = booked.totals.row(-1, named=True)
    ends = f"{number(whole['energy_low_j'])} to {number(whole['energy_high_j'])}"
    source = "predicted" if booked.energies.measured is None else "measured"
    say(screen, f"{number(whole['energy_j'])} J {source} (90 %: {ends}), by cause", "bold")
    show_table(
        booked.totals.select(
            pl.col("cause").alias("name"),
            "energy_j",
            "energy_low_j",
            "energy_high_j",
            (100.0 * pl.col("share")).alias("share_pct"),
            "time_ms",
        ),
        console=screen,
        headers={"name": "cause"},
        limit=None,
    )
    for place, finding in enumerate(findings, start=1):
        first, *more = (_shorter(text, finding) for text in finding.sentences)
        say(screen, f"{place}. {first}", "bold")
        for text in more:
            say(screen, f"   {text}")
    if not findings:
        say(screen, "0 causes take 1 % of the energy or more")
    for note in booked.notes:
        say(screen, f"note: {note}", "dim")
    for path in written:
        say(screen, f"wrote {path}")


def _shorter(text: str, finding: Finding) -> str:
    """Return a sentence with its kernel's name cut."""
    for row in finding.evidence:
        text = text.replace(row["name"], cut_middle(compact(row["name"]), _NAME))
    return escape.terminal(text, 400)
