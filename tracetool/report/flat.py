"""Tables whose cells are numbers and texts only, for outputs that know nothing else."""

from __future__ import annotations

import json

import polars as pl


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
