"""Tables and sentences that fit the width there is: of the terminal, of ``COLUMNS``, or 100 in a pipe.

A column has a rank: what names the row comes first, then energy, then what the table is about (the figure
it is sorted by, or that was asked for), then share and time, then verdicts, then the rest. Columns that do
not fit are named below the table; those that do stay in their order. Long names are cut in the middle before
a column is left out for them. Cells are never wrapped: a table of prose becomes a list. A column without a
single entry is left out.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tracetool.core import escape
from tracetool.report.sentences import cell_width, cut_middle, shorten_names, wrapped

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

_GAP: Final = 2
#: Characters a name keeps at least where its energy, its share or time, or another column needs the place.
_SHORTEST_NAMES: Final = {0: 16, 1: 16, 2: 22, 3: 22}
#: Characters a name keeps at least where the first energy needs the place: it comes before all else.
_SHORTEST_BESIDE_ENERGY: Final = 12
_CLEAR_NAME: Final = 26
_LONGEST_CELL: Final = 1000
_OTHER: Final = 6
#: Ranks of columns by what is in their names or headings; the first that matches counts.
_RANKS: Final = (
    (0, re.compile(r"^(name|kernel|class|GPU)$|^(clock|best) MHz$|^cap W$")),
    (2, re.compile(r"^((kernel )?share|saved|of (run|kernels|all|change))\b|^energy (change|error) pct$")),
    (3, re.compile(r"^time error pct$")),
    (5, re.compile(r"\bmeasured\b")),
    (5, re.compile(r"^energy (base|head) j$")),
    (_OTHER, re.compile(r"\b(base|head|self|prior|predicted|error|saved there|within limit)\b")),
    (1, re.compile(r"\benergy\b")),
    (3, re.compile(r"\b(time|duration|makespan|span)\b|^(kernels|gap) \[?[mµnu]?s\b|^gap\b")),
    (2, re.compile(r"^(cost|co2)\b")),
    (4, re.compile(r"^(agrees|identified|verdict|slowdown|throttled)$")),
    (5, re.compile(r"\b(power|launches)\b|\bW$")),
)


def rank_of(heading: str) -> int:
    """Return the rank of a column by its name or heading: the lower, the longer it stays.

    >>> [rank_of(h) for h in ("energy [J]", "energy_low_mj", "share", "time [ms]", "agrees", "basis")]
    [1, 1, 2, 3, 4, 6]
    """
    words = heading.replace("_", " ")
    return next((number for number, pattern in _RANKS if pattern.search(words)), _OTHER)


@dataclass
class Column:
    """One column: heading and cells as they are printed.

    ``text`` columns are cut in the middle where they are too long; others are figures, whole or left out.
    ``prose`` is never cut or left out: where the table is too wide for it, the table becomes a list.
    ``about`` columns are what the table is for: they follow energy, whatever their rank.
    """

    heading: str
    cells: list[str] = field(default_factory=list)
    text: bool = False
    rank: int = _OTHER
    prose: bool = False
    about: bool = False

    def width(self) -> int:
        """Return the columns its longest cell takes."""
        return max(map(cell_width, (self.heading, *self.cells)))


def fit(columns: Sequence[Column], width: int) -> tuple[list[tuple[Column, int]], list[Column]]:
    """Return the columns that fit, each with its width, and those that do not.

    Parameters
    ----------
    columns : sequence of Column
        In the order to print; the first names the row.
    width : int
        Columns of the terminal.
    """
    ranks = [0 if i == 0 else column.rank for i, column in enumerate(columns)]
    if 1 not in ranks:  # without a measured energy the predicted one is the energy
        ranks = [
            1 if "energy" in c.heading and r == _OTHER else r for c, r in zip(columns, ranks, strict=True)
        ]

    ranks = [1 if c.about and r > 1 else r for c, r in zip(columns, ranks, strict=True)]
    order = sorted(range(len(columns)), key=lambda i: (ranks[i], columns[i].about, i))

    def least(place: int, shortest_name: int) -> int:
        column = columns[place]
        if not column.text or column.prose:
            return column.width()
        return min(
            column.width(), max(_CLEAR_NAME if ranks[place] else shortest_name, cell_width(column.heading))
        )

    chosen: set[int] = set()
    for place in order:
        shortest = _SHORTEST_NAMES.get(ranks[place], _CLEAR_NAME)
        if ranks[place] == 1 and all(ranks[i] == 0 for i in chosen):
            shortest = _SHORTEST_BESIDE_ENERGY
        together = [*chosen, place]
        if not chosen or sum(least(i, shortest) + _GAP for i in together) <= width + _GAP:
            chosen.add(place)
    shown = sorted(chosen)
    widths = {i: least(i, _SHORTEST_NAMES[0]) for i in shown}
    spare = width + _GAP - sum(w + _GAP for w in widths.values())
    if spare < 0:
        widths = {i: least(i, _SHORTEST_BESIDE_ENERGY) for i in shown}
        spare = width + _GAP - sum(w + _GAP for w in widths.values())
    for i in (i for i in order if i in chosen):
        more = min(columns[i].width() - widths[i], max(spare, 0))
        widths[i] += more
        spare -= more
    fitted = [(columns[i], min(widths[i], width)) for i in shown]
    return fitted, [c for i, c in enumerate(columns) if i not in chosen]


class Table:
    """A table for a rich console: ``console.print(table)``.

    Parameters
    ----------
    *headings : str
        Columns of text; further ones with :meth:`add_column`.
    title : str, optional
        Line above it.
    all_with : str, optional
        The option that shows hidden columns.
    """

    def __init__(self, *headings: str, title: str = "", all_with: str = "-o FILE") -> None:
        self.title = title
        self.all_with = all_with
        self.columns: list[Column] = []
        for heading in headings:
            self.add_column(heading)

    def add_column(
        self,
        heading: str,
        *,
        justify: str = "left",
        rank: int | None = None,
        prose: bool = False,
        about: bool = False,
    ) -> None:
        """Add a column: figures with ``justify="right"``, else text; ``about`` is what the table is for."""
        text = _text(heading)
        ranked = 0 if prose else rank_of(text) if rank is None else rank
        self.columns.append(Column(text, [], justify != "right", ranked, prose, about))

    def add_row(self, *cells: str | Text) -> None:
        """Add a row, a cell for each column; strings are read as rich's markup, as its own table does."""
        for column, cell in zip(self.columns, cells, strict=True):
            column.cells.append(_text(cell))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        from rich.text import Text

        def line(text: str, style: str = "") -> Text:
            return Text(text.rstrip(), style=style, no_wrap=True, overflow="ignore", end="\n")

        width = options.max_width
        columns = [c for i, c in enumerate(self.columns) if i == 0 or not c.cells or any(c.cells)]
        if self.title:
            yield line(cut_middle(self.title, width), "bold")
        if not columns:
            return
        needed = sum(c.width() + _GAP for i, c in enumerate(columns) if c.prose or not i) - _GAP
        if needed > width and any(c.prose for c in columns):
            for text in _listed(columns, width):
                yield line(text)
            return
        fitted, hidden = fit(columns, width)
        yield line(_row([(c, w, cut_middle(c.heading, w)) for c, w in fitted]), "bold")
        cells = [shorten_names(c.cells, w) if c.text else c.cells for c, w in fitted]
        for row in zip(*cells, strict=True):
            yield line(_row([(c, w, cell) for (c, w), cell in zip(fitted, row, strict=True)]))
        if hidden:
            for text in wrapped(hidden_columns(hidden, self.all_with), width, console):
                yield line(text, "dim")


def _text(cell: str | Text) -> str:
    from rich.text import Text

    plain = cell.plain if isinstance(cell, Text) else Text.from_markup(cell, emoji=False).plain
    return escape.terminal(plain, _LONGEST_CELL)


def _row(cells: Sequence[tuple[Column, int, str]]) -> str:
    padded = []
    for column, width, text in cells:
        pad = " " * max(width - cell_width(text), 0)
        padded.append(text + pad if column.text else pad + text)
    return (" " * _GAP).join(padded)


def hidden_columns(hidden: Sequence[Column], all_with: str) -> str:
    """Return the sentence that names the columns a table had no place for."""
    return f"hidden columns (use {all_with}): " + ", ".join(c.heading for c in hidden)


def _listed(columns: Sequence[Column], width: int) -> Iterator[str]:
    """Yield a table with prose as a list: its short columns in a line, its prose indented below."""
    short = [c for c in columns if not c.prose]
    prose = [c for c in columns if c.prose]
    fitted, _ = fit(short, width)
    cells = [shorten_names(c.cells, w) if c.text else c.cells for c, w in fitted]
    for place, row in enumerate(zip(*cells, strict=True)):
        yield _row([(c, w, cell) for (c, w), cell in zip(fitted, row, strict=True)])
        for column in prose:
            if text := column.cells[place]:
                label = f"{column.heading}: " if len(prose) > 1 else ""
                yield from textwrap.wrap(
                    label + text,
                    width,
                    initial_indent="    ",
                    subsequent_indent="      " if label else "    ",
                    break_on_hyphens=False,
                )
