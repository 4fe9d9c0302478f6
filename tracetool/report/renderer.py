"""The shape of an output plug-in: one file of ``renderers/`` writes one file extension."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracetool.core import escape
from tracetool.report.view import View


@dataclass(frozen=True)
class Renderer:
    """Writes a view to a file.

    Parameters
    ----------
    suffix : str
        File extension with its dot, lower case.
    comment : str
        What the file is for, one phrase.
    write : callable
        ``write(view, path)``; the path is a temporary one, renamed by the caller.
    judged : bool
        Whether it holds nothing but broken limits: commands that judge no figure do not offer it.
    """

    suffix: str
    comment: str
    write: Callable[[View, Path], None]
    judged: bool = False


def flat_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with lists, structs and other rich types written as text."""
    columns = []
    for column in frame.get_columns():
        kind = column.dtype
        if kind.is_nested():
            texts = [None if v is None else json.dumps(v, default=str) for v in column.to_list()]
            columns.append(pl.Series(column.name, texts, dtype=pl.String))
        elif kind.is_numeric() or kind in (pl.Boolean, pl.String):
            columns.append(column)
        elif kind == pl.Binary:
            texts = [None if v is None else v.decode("utf-8", "replace") for v in column.to_list()]
            columns.append(pl.Series(column.name, texts, dtype=pl.String))
        else:
            columns.append(column.cast(pl.String))
    return pl.DataFrame(columns)


def spreadsheet_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table as a CSV file: no text, of whatever type, is taken for a formula.

    Lists and structs are text, not-a-number is empty.
    """
    flat = flat_columns(frame)
    texts = [escape.map_distinct(c, escape.csv) for c in flat.get_columns() if c.dtype == pl.String]
    safe = flat.with_columns(texts).with_columns(pl.selectors.float().fill_nan(None))
    return safe.rename(dict(zip(safe.columns, map(escape.csv, safe.columns), strict=True)))
