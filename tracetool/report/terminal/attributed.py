"""How measured energies look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracetool.measure.measured_scopes import scopes_line
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from tracetool.measure.attribute import Attribution

_SHOWN = (
    "class", "energy_j", "energy_low_j", "energy_high_j", "identified", "duration_ns", "launches", "power_w",
    "coverage", "prior_share",
)  # fmt: skip


def print_attributed(found: Attribution, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the notes, the scopes, the classes that ran and the windows."""
    screen = open_console()
    for note in found.notes:
        say(screen, note)
    if whole := scopes_line(found.scopes):
        say(screen, whole)
    ran = found.energy.filter(pl.col("duration_ns") > 0).sort("energy_j", descending=True, nulls_last=True)
    show_table(ran.select(_SHOWN), console=screen)
    if found.windows is not None:
        show_table(found.windows, title="windows", limit=10, console=screen)
    for path in written:
        say(screen, f"wrote {path}")
