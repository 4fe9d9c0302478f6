"""Dumps of meters: a line of names, then a line of numbers per reading, with marks of the program between."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Trace

#: How a line begins that a program wrote to mark a moment.
_MARK = "M "


@dataclass(frozen=True)
class DumpRows:
    """The lines of a dump: readings as lists of their cells, and what is none."""

    cells: pl.Series  # list of str
    bad: pl.DataFrame  # columns line and text

    def reject(self, trace: Trace, path: Path) -> None:
        """State on a trace the lines that are no readings."""
        if self.bad.height:
            rows = rejected_rows(path.name, self.bad["line"], "not a reading", self.bad["text"])
            trace.rejected.append(rows)


def dump_rows(lines: list[str], row: str, columns: int) -> DumpRows:
    """Return the readings below a dump's line of names.

    Parameters
    ----------
    lines : list of str
        The dump, its names first.
    row : str
        Pattern of a reading.
    columns : int
        Cells of a reading.
    """
    table = pl.DataFrame({"text": lines[1:]}, schema={"text": pl.String}).with_row_index("line", offset=2)
    text = pl.col("text").str.strip_chars()
    table = table.with_columns(text).filter((text != "") & ~text.str.starts_with(_MARK))
    cells = pl.col("text").str.split(" ")
    is_reading = pl.col("text").str.contains(row) & (cells.list.len() == columns)
    return DumpRows(table.filter(is_reading).select(cells).to_series(), table.filter(~is_reading))
