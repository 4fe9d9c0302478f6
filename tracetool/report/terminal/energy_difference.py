"""How the difference of two runs looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetool.compare.energy_difference.sentences import causes_of_change, headline
from tracetool.report.sentences import open_console
from tracetool.report.terminal.diagnosis import say_basis, say_numbered, say_plain, show_causes

if TYPE_CHECKING:
    from tracetool.compare.energy_difference.difference import EnergyDifference


def print_energy_difference(of: EnergyDifference, written: Sequence[str | os.PathLike[str]] = ()) -> None:
    """Print the change by cause, largest first, then each cause with what shows it."""
    screen = open_console()
    say_plain(screen, headline(of), "bold")
    headers = {"change_j": f"change [J a {of.unit}]", "share_pct": "of change"}
    show_causes(screen, of.totals, ("change_j", "change_low_j", "change_high_j", "share"), headers)
    for place, cause in enumerate(causes_of_change(of), start=1):
        names = [row[c] for row in cause.evidence for c in ("operator", "name") if row[c]]
        say_numbered(screen, place, cause.sentences, names)
    say_basis(screen, of.notes, written)
