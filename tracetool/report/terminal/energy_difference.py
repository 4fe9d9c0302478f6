"""How the difference of two runs looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracetool.compare.energy_difference.sentences import causes_of_change, headline
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console
from tracetool.report.terminal.diagnosed import say_numbered, say_plain

if TYPE_CHECKING:
    from tracetool.compare.energy_difference.difference import EnergyDifference


def print_energy_difference(of: EnergyDifference, written: Sequence[str | os.PathLike[str]] = ()) -> None:
    """Print the change by cause, largest first, then each cause with what shows it."""
    screen = open_console()
    say_plain(screen, headline(of), "bold")
    show_table(
        of.totals.select(
            pl.col("cause").alias("name"),
            "change_j",
            "change_low_j",
            "change_high_j",
            (100.0 * pl.col("share")).alias("share_pct"),
        ),
        console=screen,
        headers={"name": "cause", "change_j": f"change [J a {of.unit}]"},
        limit=None,
    )
    for place, cause in enumerate(causes_of_change(of), start=1):
        names = [row[c] for row in cause.evidence for c in ("operator", "name") if row[c]]
        say_numbered(screen, place, cause.sentences, names)
    for note in of.notes:
        say_plain(screen, f"note: {note}", "dim")
    for path in written:
        say_plain(screen, f"wrote {path}")
