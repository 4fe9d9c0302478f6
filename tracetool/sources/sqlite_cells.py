"""Cells of big SQLite tables, decoded a column at a time: what a loop over rows would spend a second on."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetool.sources.columns import narrow
from tracetool.sources.sqlite_pages import (
    Bytes,
    Column,
    OddFile,
    Pages,
    cells_of,
    table_layout,
    varints,
)
from tracetool.vocabulary.arrays import Ints

Bools = NDArray[np.bool_]
#: Bytes of a value by its serial type, up to 127. [B]
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *[(t - 12) // 2 for t in range(12, 128)]], np.int64)
_NULL, _REAL, _ZERO, _ONE, _TEXT = 0, 7, 8, 9, 13
#: Rows too long for their page are asked of SQLite one by one, while they are few.
_MOST_LONG_ROWS = 10_000


@dataclass(frozen=True)
class _Rows:
    """The rows of a block: the bytes, each row's number, and where its serial types and values start."""

    raw: Bytes
    number: Ints
    types: Ints
    values: Ints
    end: Ints
    long: Bools


def read_cells(
    path: Path, db: sqlite3.Connection, table: str, wanted: Mapping[str, tuple[str, pl.DataType]]
) -> pl.DataFrame | None:
    """Return columns of a table, decoded from the file's pages.

    Parameters
    ----------
    path : Path
        The database.
    db : Connection
        The same, opened read-only: it tells the layout, and the rows too long for their page.
    table : str
        A table; for a view nothing comes back.
    wanted : mapping of str to (column of the table, polars type)
        Names to give them. The column ``rowid`` may be among them.

    Returns
    -------
    DataFrame or None
        In the order of row numbers; cells of another type than wanted are null; 32-bit columns come back
        as narrow as their values allow. None where the file has to be read by SQLite.
    """
    kinds = {name: kind for name, (_, kind) in wanted.items()}
    try:
        root, columns = table_layout(db, table)
        places = {name: columns.get(column.lower()) for name, (column, _) in wanted.items()}
        check_columns(wanted, places)
        pages = Pages.of(path)

        def block(numbers: Ints) -> _Part:
            rows = _rows(pages, numbers)
            long = np.flatnonzero(rows.long)
            ends = (int(rows.number[0]), int(rows.number[-1])) if len(rows.number) else None
            return _Part(_decoded(rows, places, kinds), ends, long, rows.number[long])

        with ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2))) as pool:
            parts = list(pool.map(block, pages.blocks(pages.leaves(root))))
    except (OddFile, OSError, MemoryError, IndexError, ValueError, pl.exceptions.PolarsError):
        return None
    long = np.concatenate([p.long_number for p in parts])
    ends = [p.ends for p in parts if p.ends]
    if len(long) > _MOST_LONG_ROWS or any(a[1] >= b[0] for a, b in pairwise(ends)):
        return None
    before = np.cumsum([0, *(p.frame.height for p in parts[:-1])])
    at = np.concatenate([p.long_at + first for p, first in zip(parts, before, strict=True)])
    made = _stacked([p.frame for p in parts])
    if not len(long):
        return made
    patch = _asked(db, table, wanted, long.tolist())
    return made.with_columns(
        made[name].cast(patch[name].dtype).scatter(at, patch[name].to_list()) for name in wanted
    )


@dataclass(frozen=True)
class _Part:
    """A block decoded: its rows, their first and last number, and which of them SQLite has to read."""

    frame: pl.DataFrame
    ends: tuple[int, int] | None
    long_at: Ints
    long_number: Ints


def check_columns(wanted: Mapping[str, tuple[str, pl.DataType]], places: Mapping[str, Column | None]) -> None:
    """Raise ``OddFile`` for a column that is not stored, or is stored as what it is not."""
    for name, (column, kind) in wanted.items():
        place = places[name]
        if place is None and column != "rowid":
            raise OddFile
        # Fractions are stored as whole numbers where they are ones, yet are fractions to SQLite.
        if place is not None and kind.is_integer() and place.affinity.startswith(("REAL", "FLOA", "DOUB")):
            raise OddFile


def _rows(pages: Pages, numbers: Ints) -> _Rows:
    raw = pages.load(numbers)
    base, cell = cells_of(raw, len(numbers), pages.size, header=8)
    payload, taken = varints(raw, cell)
    at = cell + taken
    number, taken = varints(raw, at)
    header = at + taken
    long = payload > pages.usable - 35
    if (number[1:] <= number[:-1]).any():  # rows rise in a sound table
        raise OddFile
    length, taken = varints(raw, header)
    values = header + length
    end = np.where(long, base + pages.size, header + payload)
    if (length < 1).any() or (payload < length)[~long].any() or (end > base + pages.usable)[~long].any():
        raise OddFile
    return _Rows(raw, number, header + taken, values, end, long)


def _decoded(
    rows: _Rows, places: Mapping[str, Column | None], kinds: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Return the wanted columns of a block."""
    names: dict[int, list[str]] = {}
    for name, place in places.items():
        if place is not None:
            names.setdefault(place.place, []).append(name)
    count, has_long = len(rows.number), bool(rows.long.any())
    made = {n: _column(rows.number, None, kinds[n]) for n, place in places.items() if place is None}
    at, value = rows.types.copy(), rows.values.copy()
    for nth in range(max(names, default=-1) + 1):
        code: NDArray[np.integer] = rows.raw.take(at, mode="clip")
        if count and code.max() >= 0x80:
            code, taken = varints(rows.raw, at)
            at += taken
        else:
            at += 1
        past = (at > rows.values) & ~rows.long
        if has_long:
            code = np.where(rows.long, _NULL, code)
        if past.any():  # a row from before the column was added
            code = np.where(past, _NULL, code)
            if any(c.has_default for n in names.get(nth, []) if (c := places[n])):
                raise OddFile
        for name in names.get(nth, []):
            made[name] = _values(rows, value, code, places[name], kinds[name])
        value += _size(code)
    if (value > rows.end)[~rows.long].any():
        raise OddFile
    frame = pl.DataFrame({n: made[n] for n in places})
    return narrow(frame, [n for n, kind in kinds.items() if kind == pl.Int32])


def _size(code: NDArray[np.integer]) -> Ints | int:
    if not len(code):
        return 0
    low, high = int(code.min()), int(code.max())
    if high >= 128:
        return np.where(code < 12, _SIZES[np.minimum(code, 12)], (code - 12) >> 1)
    return int(_SIZES[low]) if low == high else _SIZES.take(code)


def _values(
    rows: _Rows, at: Ints, code: NDArray[np.integer], column: Column | None, kind: pl.DataType
) -> pl.Series:
    """Return one column of a block."""
    if kind == pl.String:
        return _texts(rows, at, code)
    if not len(code):
        return pl.Series([], dtype=kind)
    made = np.zeros(len(code), dtype=np.float64 if kind.is_float() else np.int64)
    known: Bools | None = None
    low, high = int(code.min()), int(code.max())
    for one in [low] if low == high else np.unique(code).tolist():
        which = None if low == high else np.flatnonzero(code == one)
        found = _number(rows.raw, at if which is None else at[which], one, floats=kind.is_float())
        if found is None:
            known = np.ones(len(code), dtype=np.bool_) if known is None else known
            known[slice(None) if which is None else which] = False
        elif which is None:
            made[:] = found
        else:
            made[which] = found
    if (
        column is not None and column.is_rowid and known is not None
    ):  # stored as nothing: it is the row number
        return _column(np.where(known, made, rows.number), None, kind)
    return _column(made, known, kind)


def _column(values: NDArray[np.generic], known: Bools | None, kind: pl.DataType) -> pl.Series:
    series = pl.Series(values)
    if known is not None:
        series = pl.select(pl.when(pl.Series(known)).then(series)).to_series()
    return series.cast(kind, strict=False)


def _number(raw: Bytes, at: Ints, code: int, *, floats: bool) -> NDArray[np.generic] | int | None:
    """Return the values of one serial type, None where it is no number of this sort."""
    if code in (_ZERO, _ONE):
        return code - _ZERO
    if code == _REAL and floats:
        return _eight(raw, at, 8).view(np.float64)
    if not 1 <= code <= 6:
        return None
    return _eight(raw, at, int(_SIZES[code]))


def _eight(raw: Bytes, at: Ints, width: int) -> Ints:
    """Return signed big-endian numbers of some bytes each."""
    made = raw.take(at, mode="clip").view(np.int8).astype(np.int64)
    for more in range(1, width):
        made <<= 8
        made |= raw.take(at + more, mode="clip")
    return made


def _texts(rows: _Rows, at: Ints, code: NDArray[np.integer]) -> pl.Series:
    known = (code >= _TEXT) & (code % 2 == 1)
    length = np.where(known, (code.astype(np.int64) - _TEXT) // 2, 0)
    if known.any() and (at + length > rows.end)[known].any():
        raise OddFile
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    letters = rows.raw.take(np.repeat(at - offsets[:-1], length) + np.arange(offsets[-1]), mode="clip")
    series = _spelled(letters, offsets)
    return series if known.all() else pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def _spelled(letters: Bytes, offsets: Ints) -> pl.Series:
    """Return texts that lie one behind the other; what is no UTF-8 becomes replacement characters."""
    import pyarrow as pa

    whole = letters.tobytes()
    first = letters[offsets[:-1][np.diff(offsets) > 0]]
    try:
        whole.decode()
        sound = not (first & 0xC0 == 0x80).any()  # none starts within a letter
    except UnicodeDecodeError:
        sound = False
    if not sound:
        return pl.Series([whole[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets.tolist())])
    array = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(whole))
    return pl.Series(pl.from_arrow(array), dtype=pl.String)


def _asked(
    db: sqlite3.Connection, table: str, wanted: Mapping[str, tuple[str, pl.DataType]], numbers: Sequence[int]
) -> pl.DataFrame:
    """Return rows by their numbers, from SQLite."""
    columns = ", ".join("rowid" if c == "rowid" else f'"{c}"' for c, _ in wanted.values())
    rows = [db.execute(f'SELECT {columns} FROM "{table}" WHERE rowid = ?', (n,)).fetchone() for n in numbers]  # noqa: S608
    return pl.DataFrame(
        [
            typed_series(n, cells, kind)
            for (n, (_, kind)), cells in zip(wanted.items(), zip(*rows, strict=True), strict=True)
        ]
    )


def typed_series(name: str, cells: Sequence[object], kind: pl.DataType) -> pl.Series:
    """Return cells as a column; those of another type are null."""
    if kind.is_integer():
        kept: list[object] = [c if type(c) is int else None for c in cells]
        return pl.Series(name, kept, dtype=pl.Int64).cast(kind, strict=False)
    if kind.is_float():
        return pl.Series(name, [float(c) if isinstance(c, int | float) else None for c in cells], dtype=kind)
    return pl.Series(name, [c if isinstance(c, str) else None for c in cells], dtype=pl.String)


_WIDTHS: Mapping[pl.DataType, int] = {pl.Int8(): 1, pl.Int16(): 2, pl.Int32(): 4, pl.Int64(): 8}


def _stacked(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Put parts one below the other, each column as wide as its widest part; nothing else is copied."""
    wide = {c: [p.schema[c] for p in parts] for c in parts[0].columns}
    kinds = {c: max(found, key=lambda kind: _WIDTHS.get(kind, 0)) for c, found in wide.items()}
    return pl.concat([p.cast({c: k for c, k in kinds.items() if p.schema[c] != k}) for p in parts])
