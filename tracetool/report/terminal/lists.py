"""Plain lists on the console: families, formats, tables, checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracetool.report.layout import Table
from tracetool.report.sentences import open_console


def print_list(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    prose: Sequence[str] = (),
    figures: Sequence[str] = (),
) -> None:
    """Print rows of text.

    Parameters
    ----------
    headings : sequence of str
        Of the columns.
    rows : iterable of sequences of str
        Raw text; it is escaped here.
    prose, figures : sequence of str
        Columns that are never cut, and columns of numbers.
    """
    from rich.markup import escape

    grid = Table(all_with="--json")
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in figures else "left", prose=heading in prose)
    for row in rows:
        grid.add_row(*(escape(text) for text in row))
    open_console().print(grid)
