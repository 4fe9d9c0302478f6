"""How the diagnosis of a table of runs looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetool.report.console import show_table
from tracetool.report.run_table_page import HEADERS, comparison_rows, headline
from tracetool.report.sentences import open_console
from tracetool.report.terminal.diagnosis import say_plain

if TYPE_CHECKING:
    from tracetool.compare.run_tables.diagnosis import TableDiagnosis

#: Sentences printed at most.
_MOST_SENTENCES = 8


def print_table_diagnosis(diagnosis: TableDiagnosis, written: Sequence[str | os.PathLike[str]] = ()) -> None:
    """Print the sentences of the largest differences, and the comparisons."""
    screen = open_console()
    say_plain(screen, headline(diagnosis), "bold")
    for i, statement in enumerate(diagnosis.statements[:_MOST_SENTENCES], 1):
        say_plain(screen, f"{i}. {statement.text}")
    more = len(diagnosis.statements) - _MOST_SENTENCES
    if more > 0:
        say_plain(screen, f"{more} more findings, and pictures: -o page.html; all of it: --json", "dim")
    comparisons = comparison_rows(diagnosis)
    if comparisons.height:
        show_table(comparisons, headers=HEADERS, console=screen)
    for note in diagnosis.table.notes:
        say_plain(screen, f"note: {note}", "dim")
    for path in written:
        say_plain(screen, f"wrote {path}")
