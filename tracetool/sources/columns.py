"""Columns every reader makes: text cleaned, numbers bounded, rows that cannot be used kept apart."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

#: No trace lies beyond these: years 1970 to 2200 in ns for absolute times, 30 days for one activity.
TIME_LIMIT_NS = 7_258_118_400_000_000_000
DURATION_LIMIT_NS = 30 * 86_400 * 1_000_000_000
DEVICE_LIMIT = 1_000_000
GRID_LIMIT = 1 << 40
TEXT_LIMIT = 500

#: Activity columns beyond those of the kernels table.
LINK_COLUMNS = {"external_id": pl.Int64(), "thread": pl.Int64()}


def clean_text(column: str | pl.Expr) -> pl.Expr:
    """Return a text column with control characters (NULs, terminal escapes, newlines) made spaces."""
    made = pl.col(column) if isinstance(column, str) else column
    return made.cast(pl.String).str.replace_all(r"[\p{Cc}\p{Zl}\p{Zp}]", " ")


def look_up(frame: pl.DataFrame, table: pl.DataFrame, *keys: str, nulls_equal: bool = False) -> pl.DataFrame:
    """Add what a small table says of each row, null where it says nothing.

    Only the keys go through the join: joined whole, a frame of millions would lie in memory twice.
    """
    found = frame.select(keys).join(
        table, on=list(keys), how="left", nulls_equal=nulls_equal, maintain_order="left"
    )
    return frame.hstack(found.drop(keys))


def rejected_rows(
    source: str, places: Iterable[object], reason: str, texts: Iterable[object]
) -> pl.DataFrame:
    """Return rows of the ``rejected`` table."""
    place = [str(p) for p in places]
    text = ["".join(c if c.isprintable() else " " for c in str(t)[:TEXT_LIMIT]) for t in texts]
    return pl.DataFrame(
        {"source": [source] * len(place), "place": place, "reason": [reason] * len(place), "text": text},
        schema={"source": pl.String, "place": pl.String, "reason": pl.String, "text": pl.String},
    )


def leading_number(column: str | pl.Expr) -> pl.Expr:
    """Return the number a text starts with (``18.81 W`` is 18.81); null for ``[N/A]`` and the like."""
    made = pl.col(column) if isinstance(column, str) else column
    return made.str.extract(r"^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", 1).cast(
        pl.Float64, strict=False
    )
