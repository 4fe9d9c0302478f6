"""Valid Parquet and Arrow files of another shape: columns gone, renamed or of another type, odd cells."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl

from tests.damaged.mutate.cells import TEXTS, integer


def change_table(path: Path, draw: random.Random) -> str:
    """Change one column of a table file in place."""
    arrow = path.read_bytes()[:6] == b"ARROW1"
    frame = pl.read_ipc(path.read_bytes()) if arrow else pl.read_parquet(path)
    frame, step = change_frame(frame, draw)
    if arrow:
        frame.write_ipc(path)
    else:
        frame.write_parquet(path)
    return step


def change_frame(frame: pl.DataFrame, draw: random.Random) -> tuple[pl.DataFrame, str]:  # noqa: PLR0911
    """Return a frame with one column or its rows changed, and what was done."""
    kind = draw.randrange(12)
    if not frame.width:
        return pl.DataFrame({"x": [1]}), "one column nobody knows"
    column = draw.choice(frame.columns)
    if kind == 0:
        return frame.drop(column), f"without {column}"
    if kind == 1:
        new = draw.choice((column.upper(), column + "_", "x y", ""))
        return (
            frame.rename({column: new}) if new not in frame.columns else frame
        ), f"{column} called {new!r}"
    if kind == 2:
        return frame.clear(), "no rows"
    if kind == 3:
        return pl.concat([frame, frame.sample(fraction=0.5, seed=draw.randrange(99))]), "rows twice"
    if kind == 4:
        return frame.reverse(), "rows backwards"
    if kind == 5:
        return frame.drop_nulls(column).head(draw.randrange(3)), "few rows"
    if kind <= 8:
        return change_cells(frame, column, draw)
    return retype(frame, column, draw)


def change_cells(frame: pl.DataFrame, column: str, draw: random.Random) -> tuple[pl.DataFrame, str]:
    """Return a frame in which one cell of a column, or all, hold something else of the same type."""
    kind = frame.schema[column]
    value: Any = None
    if draw.random() < 0.8:
        if kind.is_integer():
            value = integer(draw)
        elif kind.is_float():
            value = draw.choice((float("nan"), float("inf"), -1.0, 1e300, 0.0, 1e-320, -1e300))
        elif kind == pl.String:
            value = draw.choice(TEXTS)
        elif kind == pl.Boolean:
            value = draw.random() < 0.5
    new = pl.select(pl.lit(value).cast(kind, strict=False)).to_series()[0]
    cells = frame[column].to_list()
    if cells and draw.random() < 0.6:
        cells[draw.randrange(len(cells))] = new
        where = "in one row"
    else:
        cells = [new] * len(cells)
        where = "in all rows"
    return frame.with_columns(pl.Series(column, cells, dtype=kind)), f"{column} is {new!a:.60} {where}"


def retype(frame: pl.DataFrame, column: str, draw: random.Random) -> tuple[pl.DataFrame, str]:
    """Return a frame with a column of another type."""
    held = pl.col(column)
    ways = {
        "text": held.cast(pl.String, strict=False),
        "list": pl.concat_list(held),
        "list of lists": pl.concat_list(pl.concat_list(held)),
        "struct": pl.struct(held.alias("x")),
        "null": pl.lit(None).alias(column),
        "binary": held.cast(pl.String, strict=False).cast(pl.Binary),
        "category": held.cast(pl.String, strict=False).cast(pl.Categorical()),
        "real": held.cast(pl.Float64, strict=False),
        "small": held.cast(pl.Int8, strict=False),
        "unsigned": held.cast(pl.UInt64, strict=False),
        "time": held.cast(pl.Int64, strict=False).cast(pl.Datetime("ns")),
        "duration": held.cast(pl.Int64, strict=False).cast(pl.Duration("us")),
        "date": held.cast(pl.Int32, strict=False).cast(pl.Date),
        "flag": held.cast(pl.Int64, strict=False).cast(pl.Boolean),
        "decimal": held.cast(pl.Int64, strict=False).cast(pl.Decimal(38, 2), strict=False),
        "words": pl.lit("soon").alias(column),
    }
    name = draw.choice(sorted(ways))
    try:
        return frame.with_columns(ways[name].alias(column)), f"{column} as {name}"
    except pl.exceptions.PolarsError:
        return frame.with_columns(pl.lit("soon").alias(column)), f"{column} as words"
