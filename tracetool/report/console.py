"""Reports on the terminal: tables that fit it, every name one printable line; annotations of a CI runner.

References
----------
.. [1] GitHub, "Workflow commands for GitHub Actions": at most ten errors and ten warnings a step are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import polars as pl
from rich.console import Console

from tracetool.core import escape
from tracetool.core.number_text import counted
from tracetool.report.columns import show_columns
from tracetool.report.layout import Column, Table
from tracetool.report.sentences import open_console, say
from tracetool.report.view import Drawing, Fold, Grid, Line, View

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
    about: Collection[str] = (),
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
    about : collection of str, optional
        Columns that the table is sorted by or was asked for: only energy comes before them.
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
                about=shown.column in about,
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
                block.frame,
                title=block.title,
                limit=block.limit or 20,
                headers=block.headers,
                console=target,
                about=block.about,
            )
        elif isinstance(block, Fold | Drawing):
            continue


_MOST: Final = 10
_COMMANDS: Final = {"failed": "error", "skipped": "warning"}


def annotation_lines(view: View) -> list[str]:
    """Return the commands, worst first; beyond ten of a kind the last one says how many more there are."""
    commands = []
    for outcome, command in _COMMANDS.items():
        cases = [c for c in view.cases if c.outcome == outcome]
        for i, case in enumerate(cases[:_MOST]):
            more = f" (and {len(cases) - _MOST} more)" if i == _MOST - 1 and len(cases) > _MOST else ""
            title = escape.command_property(escape.name(f"{case.group}: {case.name}"))
            message = escape.command_value(escape.name(case.message, 1000) + more)
            commands.append(f"::{command} title={title}::{message}")
    return commands
