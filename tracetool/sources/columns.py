"""Columns every reader makes: text cleaned, numbers bounded, rows that cannot be used set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import polars as pl

#: No trace lies beyond these: years 1970 to 2200 in ns for absolute times, 30 days for one activity.
TIME_LIMIT_NS = 7_258_118_400_000_000_000
DURATION_LIMIT_NS = 30 * 86_400 * 1_000_000_000
DEVICE_LIMIT = 1_000_000
GRID_LIMIT = 1 << 40
TEXT_LIMIT = 500
#: A damaged file may make every row bad: this many of a kind are kept as text, the rest only counted.
KEPT_ROWS = 10_000
#: Rows of a long table worked on at once: bounds what lies in memory beside it.
BLOCK_ROWS = 1 << 19
_Made = TypeVar("_Made")


def clean_text(column: str | pl.Expr) -> pl.Expr:
    """Return a text column with control characters (NULs, terminal escapes, newlines) made spaces."""
    text = pl.col(column) if isinstance(column, str) else column
    return text.cast(pl.String).str.replace_all(r"[\p{Cc}\p{Zl}\p{Zp}]", " ")


def plain_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table that another program wrote with numbers and text only.

    Text held as codes or bytes becomes text. Lists, structures, dates and clock times become null: no
    column of a trace is one, and a date's own unit must not pass for the column's.
    """
    conversions = []
    for column, kind in frame.schema.items():
        if kind.is_nested() or kind.is_temporal() or kind == pl.Object:
            conversions.append(pl.lit(None, dtype=pl.String).alias(column))
        elif kind in (pl.Categorical, pl.Enum, pl.Binary):
            conversions.append(pl.col(column).cast(pl.String, strict=False))
    return frame.with_columns(conversions)


_NARROWER = ((pl.Int8(), 1 << 7), (pl.Int16(), 1 << 15), (pl.Int32(), 1 << 31))


def narrow(frame: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """Return the frame with these whole-number columns as narrow as their values allow.

    For identities and launch geometry, never for times: what is added to or summed keeps its width.
    """
    integer_columns = [c for c in columns if frame.schema[c].is_integer()]
    if not integer_columns or not frame.height:
        return frame
    ends = frame.select(
        *[pl.col(c).min().cast(pl.Int64).alias(f"{c}<") for c in integer_columns],
        *[pl.col(c).max().cast(pl.Int64).alias(f"{c}>") for c in integer_columns],
    ).row(0, named=True)
    casts = []
    for c in integer_columns:
        low, high = ends[f"{c}<"] or 0, ends[f"{c}>"] or 0
        kind = next((k for k, limit in _NARROWER if -limit <= low and high < limit), pl.Int64())
        if kind != frame.schema[c]:
            casts.append(pl.col(c).cast(kind))
    return frame.with_columns(casts)


def look_up(frame: pl.DataFrame, table: pl.DataFrame, *keys: str, nulls_equal: bool = False) -> pl.DataFrame:
    """Add the columns of a small table to each row, null where it has no such key.

    Parameters
    ----------
    frame, table : DataFrame
        The rows, and what to add: one row for each key, or pair of keys.
    keys : str
        Columns of both.
    nulls_equal : bool
        Whether the table's row without a key applies to rows without one.

    Notes
    -----
    Only the keys go through the join: joined whole, a frame of millions would lie in memory twice. Keys that
    are all alike, and whole numbers that lie close together, need none: it would take ten times as long.
    """
    row_keys = frame.select(keys)
    if row_keys.height > 1 and (first := row_keys.head(1)).height and _is_constant(row_keys):
        one = first.join(table, on=list(keys), how="left", nulls_equal=nulls_equal).drop(keys)
        return frame.hstack([s.new_from_index(0, frame.height) for s in one.get_columns()])
    places = _places(table[keys[0]]) if len(keys) == 1 and row_keys[keys[0]].dtype.is_integer() else None
    values = table.drop(keys)
    blocks = []
    for block in blocks_of(row_keys):
        if places is None:
            joined = block.join(
                table, on=list(keys), how="left", nulls_equal=nulls_equal, maintain_order="left"
            )
            blocks.append(joined.drop(keys))
            continue
        low, rows, null_row = places
        at = block[keys[0]].cast(pl.Int64) - low
        inside = pl.select(pl.when(at.is_between(0, len(rows) - 1)).then(at)).to_series()
        row = rows.gather(inside)
        if nulls_equal and null_row is not None:
            row = pl.select(pl.when(block[keys[0]].is_null()).then(null_row).otherwise(row)).to_series()
        blocks.append(values.select(pl.all().gather(row)))
    return frame.hstack(pl.concat(blocks))


def _is_constant(frame: pl.DataFrame) -> bool:
    """Return whether all rows are equal."""
    alike = pl.all().min().eq_missing(pl.all().max()) & pl.all().null_count().is_in([0, frame.height])
    return all(frame.select(alike).row(0))


def _places(keys: pl.Series) -> tuple[int, pl.Series, int | None] | None:
    """Return the lowest of distinct whole numbers, the row of each from there on, and that of the null.

    None where they lie too far apart, or some repeat.
    """
    present = keys.drop_nulls()
    low, high = present.min(), present.max()
    if not isinstance(low, int) or not isinstance(high, int) or high - low > 4 * len(keys) + BLOCK_ROWS:
        return None
    if present.n_unique() < len(present) or keys.null_count() > 1:
        return None
    rows = pl.select(pl.repeat(None, high - low + 1, dtype=pl.UInt32)).to_series()
    numbers = pl.int_range(len(keys), dtype=pl.UInt32, eager=True)
    rows.scatter(present.cast(pl.Int64) - low, numbers.filter(keys.is_not_null()))
    return low, rows, keys.is_null().arg_max() if keys.null_count() else None


def blocks_of(frame: pl.DataFrame) -> list[pl.DataFrame]:
    """Return a frame in blocks of rows, at least one, so that work on a block needs bounded memory."""
    return [frame.slice(at, BLOCK_ROWS) for at in range(0, max(1, frame.height), BLOCK_ROWS)]


def each_block(frame: pl.DataFrame, make: Callable[[pl.DataFrame], _Made]) -> list[_Made]:
    """Return the results for each block of a frame, in order; two are made at a time."""
    blocks = blocks_of(frame)
    if len(blocks) == 1:
        return [make(blocks[0])]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(make, blocks))


def each_distinct(column: pl.Series, make: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return a function's results for a column of text, called once per distinct text; null stays null.

    Parameters
    ----------
    column : Series
        Text, best held as codes (``pl.Categorical``).
    make : callable
        Distinct texts to what stands in their place.
    """
    coded = column.cast(pl.Categorical())
    distinct = coded.drop_nulls().unique()
    values = make(distinct.cast(pl.String))
    codes = distinct.to_physical()
    top = codes.max()
    if not isinstance(top, int):
        return pl.Series(column.name, [None], dtype=values.dtype).new_from_index(0, len(column))
    places = pl.select(pl.repeat(None, top + 1, dtype=pl.UInt32)).to_series()
    places.scatter(codes, pl.int_range(len(codes), dtype=pl.UInt32, eager=True))
    return values.gather(places.gather(coded.to_physical())).alias(column.name)


def distinct_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct rows of a long frame that has few."""
    if all(kind.is_integer() for kind in frame.dtypes) and frame.height and _is_constant(frame):
        return frame.head(1)
    return pl.concat([block.unique() for block in blocks_of(frame)]).unique()


def rejected_rows(
    source: str, places: Iterable[object], reason: str, texts: Iterable[object], total: int | None = None
) -> pl.DataFrame:
    """Return rows of the ``rejected`` table: one for each row listed, one for all the others.

    Parameters
    ----------
    source, reason : str
        The file and what was wrong.
    places, texts : iterable
        Where each row stands and what it says; those beyond :data:`KEPT_ROWS` are only counted.
    total : int, optional
        How many rows there are, where not all are listed.
    """
    listed = list(places)
    count = len(listed) if total is None else total
    place = [str(p) for p in listed[:KEPT_ROWS]]
    text = [_printable(str(t)[:TEXT_LIMIT]) for t in islice(texts, KEPT_ROWS)]
    rows = [1] * len(place)
    if count > len(place):
        place.append("-")
        text.append(f"and {count - len(rows):,} more rows")
        rows.append(count - len(rows))
    return pl.DataFrame(
        {
            "source": [source] * len(place),
            "place": place,
            "reason": [reason] * len(place),
            "rows": rows,
            "text": text,
        },
        schema={
            "source": pl.String,
            "place": pl.String,
            "reason": pl.String,
            "rows": pl.Int64,
            "text": pl.String,
        },
    )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def rejected_count(rejected: Iterable[pl.DataFrame]) -> int:
    """Return how many rows were rejected, listed or not."""
    return sum(int(frame["rows"].sum()) for frame in rejected)


#: What a monitor writes where it has no value, in lower case.
_NO_VALUE = r"^(?:\[|n/?a\b|0x)"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"


def measured(column: str | pl.Expr) -> pl.Expr:
    """Return the number of a cell of a monitor's log, with or without its unit.

    Null where the monitor says that it has none (``[N/A]``, ``-``, an empty cell); not a number (``nan``) for
    ``nan``, ``inf``, and digits that are no number (``1O5.3 W``, ``11.0.5``): such cells are to be rejected.
    """
    cell = pl.col(column) if isinstance(column, str) else column
    text = cell.cast(pl.String).str.strip_chars().str.to_lowercase()
    number = text.str.extract(rf"^({_NUMBER})(?:\s*[^\d\s.][^\d]*|\s+.*)?$", 1).cast(pl.Float64, strict=False)
    broken = text.str.contains(r"\d|^[-+]?(?:nan|inf)") & ~text.str.contains(_NO_VALUE)
    return pl.when(number.is_not_null()).then(number).when(broken).then(pl.lit(float("nan")))


def leading_number(column: str | pl.Expr) -> pl.Expr:
    """Return the number a text starts with (``18.81 W`` is 18.81); null for ``[N/A]`` and the like."""
    text = pl.col(column) if isinstance(column, str) else column
    return text.str.extract(r"^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", 1).cast(
        pl.Float64, strict=False
    )
