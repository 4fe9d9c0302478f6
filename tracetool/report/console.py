"""Reports on the terminal: at most 100 columns, every name one printable line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracetool.report import escape
from tracetool.report.columns import Shown, show_columns
from tracetool.report.view import Fold, Grid, Line, View

WIDTH = 100
_NARROWEST = 26
_STYLES = {"headline": "bold", "warning": "yellow", "note": "dim", "plain": ""}


def _console(console: Console | None) -> Console:
    return console or Console(highlight=False, soft_wrap=False, width=WIDTH)


def show_table(
    frame: pl.DataFrame,
    *,
    title: str = "",
    limit: int | None = 20,
    headers: Mapping[str, str] | None = None,
    console: Console | None = None,
) -> None:
    """Print a table at most 100 columns wide.

    Units come from the column names, figures get four digits and a unit that fits the column, an
    interval stands beside its figure. Long names are cut in the middle; columns that do not fit are
    named below the table: verdicts (:data:`tracetool.report.columns.VERDICTS`) are the last of them.

    Parameters
    ----------
    frame : DataFrame, shape (n, columns)
        The table, in the order to print.
    title : str, optional
        Line above the table.
    limit : int, optional
        Rows printed; None for all. What is left out is said below.
    headers : mapping of str to str, optional
        Headings by column name.
    console : Console, optional
        Where to print; standard output by default.
    """
    target = _console(console)
    width = min(target.width, WIDTH)
    head = frame if limit is None else frame.head(limit)
    columns = show_columns(head, headers or {}, 2 * WIDTH)
    fitted, left_out = _fit(columns, width)
    grid = Table(box=None, title=None, pad_edge=False, padding=(0, 2, 0, 0))
    for shown in fitted:
        grid.add_column(
            Text(escape.terminal(shown.heading)), justify="right" if shown.numeric else "left", no_wrap=True
        )
    for row in zip(*(shown.cells for shown in fitted), strict=True):
        grid.add_row(*(Text(escape.terminal(cell)) for cell in row))
    if title:
        target.print(Text(escape.terminal(title), style="bold"))
    target.print(grid)
    rest = []
    if frame.height > head.height:
        rest.append(f"{frame.height - head.height:,} more rows")
    if left_out:
        rest.append("columns that did not fit: " + ", ".join(escape.terminal(c) for c in left_out))
    if rest:
        target.print(Text("(" + "; ".join(rest) + ")", style="dim"))


def _fit(columns: list[Shown], width: int) -> tuple[list[Shown], list[str]]:
    """Return the columns that fit, texts shortened, and the headings of those that do not."""

    def needed(shown: Shown, narrow: bool) -> int:
        longest = max([len(shown.heading), *(len(escape.terminal(c)) for c in shown.cells)])
        return min(longest, max(_NARROWEST, len(shown.heading))) if narrow and not shown.numeric else longest

    room_left = width + 2
    chosen: set[int] = set()
    # the first column names the row, verdicts say what the figures are worth; the others in their order
    for place in sorted(range(len(columns)), key=lambda i: (i > 0, not columns[i].verdict, i)):
        cost = needed(columns[place], True) + 2
        if cost <= room_left or not chosen:
            chosen.add(place)
            room_left -= cost
    kept = [c for i, c in enumerate(columns) if i in chosen]
    left_out = [c.heading for i, c in enumerate(columns) if i not in chosen]
    made = []
    for shown in kept:
        least, full = needed(shown, True), needed(shown, False)
        room = min(full, least + max(room_left, 0))
        room_left -= room - least
        cells = (
            shown.cells if shown.numeric else [escape.shorten(escape.terminal(c), room) for c in shown.cells]
        )
        made.append(replace(shown, heading=escape.shorten(shown.heading, max(room, 4)), cells=cells))
    return made, left_out


def show_view(view: View, console: Console | None = None) -> None:
    """Print a report; folds are left out, they are in the other outputs."""
    target = _console(console)
    for block in view.shown():
        if isinstance(block, Line):
            target.print(Text(escape.terminal(block.text, 2000), style=_STYLES[block.kind]))
        elif isinstance(block, Grid):
            target.print()
            show_table(
                block.frame, title=block.title, limit=block.limit or 20, headers=block.headers, console=target
            )
        elif isinstance(block, Fold):
            continue
