"""Reports on the terminal: tables that fit it, every name one printable line."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from rich.console import Console

from tracetool.core import escape
from tracetool.core.figures import counted
from tracetool.report.columns import show_columns
from tracetool.report.layout import Column, Table
from tracetool.report.sentences import open_console, say
from tracetool.report.view import Fold, Grid, Line, View

_LONGEST_NAME = 400
_STYLES = {"headline": "bold", "warning": "yellow", "note": "dim", "plain": ""}


def show_table(
    frame: pl.DataFrame,
    *,
    title: str = "",
    limit: int | None = 20,
    headers: Mapping[str, str] | None = None,
    console: Console | None = None,
    all_with: str = "-o FILE",
) -> None:
    """Print a table that fits the console.

    Units come from the column names, figures get four digits and a unit that fits the column, an
    interval stands beside its figure. :mod:`tracetool.report.layout` chooses the columns.

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
    all_with : str, optional
        What shows all rows and columns.
    """
    target = console or open_console()
    head = frame if limit is None else frame.head(limit)
    table = Table(title=escape.terminal(title), all_with=all_with)
    for shown in show_columns(head, headers or {}, _LONGEST_NAME):
        table.columns.append(
            Column(
                escape.terminal(shown.heading),
                [escape.terminal(cell, _LONGEST_NAME) for cell in shown.cells],
                text=not shown.numeric,
                rank=shown.rank,
            )
        )
    target.print(table)
    if frame.height > head.height:
        say(target, f"{counted(frame.height - head.height, 'more row')} (use {all_with})", "dim")


def show_view(view: View, console: Console | None = None) -> None:
    """Print a report; folds are left out, they are in the other outputs."""
    target = console or open_console()
    for block in view.shown():
        if isinstance(block, Line):
            say(target, escape.terminal(block.text, 2000), _STYLES[block.kind])
        elif isinstance(block, Grid) and block.frame.height:
            target.print()
            show_table(
                block.frame, title=block.title, limit=block.limit or 20, headers=block.headers, console=target
            )
        elif isinstance(block, Fold):
            continue
