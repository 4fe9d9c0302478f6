"""SQLite files: looked at read-only, never created, never changed."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import polars as pl

from tracetool.sources.columns import narrow
from tracetool.vocabulary.errors import BadInput

SQLITE_MAGIC = b"SQLite format 3\0"


def read_only_uri(path: Path) -> str:
    """Return the address that opens a file without locks, journals or the will to create it."""
    return f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"


@contextmanager
def open_sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database read-only.

    Raises
    ------
    BadInput
        If it is not a database, is cut short or is corrupt: also for faults met inside the block.
    """
    try:
        connection = sqlite3.connect(read_only_uri(path), uri=True)
        connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        try:
            yield connection
        finally:
            connection.close()
    except (
        sqlite3.Error,
        OverflowError,
        UnicodeDecodeError,
    ) as error:  # garbled schema
        raise BadInput.in_file(
            path, f"is a broken SQLite file: {error}", "export or copy it again"
        ) from error


def list_tables(path: Path) -> dict[str, frozenset[str]]:
    """Return every table and view with its column names."""
    found: dict[str, frozenset[str]] = {}
    with open_sqlite(path) as db:
        names = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        for name in names:
            if isinstance(name, str):
                try:
                    rows = db.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()
                except sqlite3.OperationalError:  # a view over tables that are not there
                    continue
                found[name] = frozenset(str(r[0]) for r in rows)
    return found


#: Tables with more rows are read through connectorx, in parts.
FAST_ROWS = 50_000
#: Rows read at once: bounds what lies in memory twice.
PART_ROWS = 250_000
#: No row of a SQLite table takes fewer bytes; tables whose numbers span more have gaps.
_ROW_BYTES = 4


def read_columns(
    path: Path,
    db: sqlite3.Connection,
    tables: Mapping[str, frozenset[str]],
    table: str,
    wanted: Mapping[str, pl.DataType],
    *,
    where: str = "",
    rowid: bool = True,
) -> pl.DataFrame:
    """Return columns of a table by name, null where it lacks them.

    Parameters
    ----------
    path : Path
        The database, for the fast way in.
    db : Connection
        The same, opened read-only.
    tables : mapping
        From :func:`list_tables`.
    table : str
        Table or view; one that is absent gives no rows.
    wanted : mapping of str to polars type
        Integer, float or text columns.
    where : str
        SQL condition.
    rowid : bool
        Whether to add ``rowid``.

    Returns
    -------
    DataFrame
        The columns of ``wanted`` and ``rowid``. A cell of another type than wanted (text in a
        number column) is null. Columns wanted as 32-bit integers of a big table come back as narrow as their
    values allow.
    """
    schema = {**wanted, **({"rowid": pl.Int64()} if rowid else {})}
    if table not in tables:
        return pl.DataFrame(schema=schema)
    real = {c.lower(): c for c in tables[table]}
    there = {c: real[c.lower()] for c in wanted if c.lower() in real}
    if not there:
        return pl.DataFrame(schema=schema)
    columns = ", ".join([f'"{name}"' for name in there.values()] + (["rowid"] if rowid else []))
    condition = f" WHERE {where}" if where else ""
    names = [*there, *(["rowid"] if rowid else [])]
    frame = _fast(path, db, table, columns, where, {n: schema[n] for n in names})
    if frame is None:
        rows = db.execute(f'SELECT {columns} FROM "{table}"{condition}').fetchall()  # noqa: S608 - names from the file's own catalogue
        cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        frame = pl.DataFrame([_series(n, c, schema[n]) for n, c in zip(names, cells, strict=True)])
    return frame.with_columns(
        pl.lit(None, dtype=kind).alias(n) for n, kind in schema.items() if n not in frame.columns
    ).select(list(schema))


def _series(name: str, cells: Sequence[object], kind: pl.DataType) -> pl.Series:
    if kind.is_integer():
        kept: list[object] = [c if type(c) is int else None for c in cells]
        return pl.Series(name, kept, dtype=pl.Int64).cast(kind, strict=False)
    if kind.is_float():
        return pl.Series(name, [float(c) if isinstance(c, int | float) else None for c in cells], dtype=kind)
    return pl.Series(name, [c if isinstance(c, str) else None for c in cells], dtype=pl.String)


def _fast(
    path: Path,
    db: sqlite3.Connection,
    table: str,
    columns: str,
    where: str,
    kinds: Mapping[str, pl.DataType],
) -> pl.DataFrame | None:
    """Read by connectorx in parts by row number; None where it is not worth it or cannot."""
    try:
        # Asked for one at a time, both ends are found in the index; together they cost a scan.
        (low,) = db.execute(f'SELECT min(rowid) FROM "{table}"').fetchone()  # noqa: S608
        (high,) = db.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()  # noqa: S608
    except sqlite3.OperationalError:
        return None  # a view has no row numbers
    if not isinstance(low, int) or not isinstance(high, int) or high - low < FAST_ROWS:
        return None
    workers = max(2, min(8, os.cpu_count() or 2))
    edges = _edges(path, db, table, low, high, workers)
    if edges is None:
        return None
    condition = f" AND ({where})" if where else ""
    queries = [
        f'SELECT {columns} FROM "{table}" WHERE rowid >= {a} AND rowid < {b}{condition}'  # noqa: S608
        for a, b in itertools.pairwise(edges)
    ]
    import connectorx

    def part(query: str) -> pl.DataFrame:
        made: pl.DataFrame = connectorx.read_sql(
            f"sqlite://{quote(str(path.absolute()))}", query, return_type="polars"
        )
        # Made narrow at once: never do all rows lie in memory as wide as they are read.
        typed = made.select(
            pl.col(old).cast(kind, strict=False).alias(new)
            for old, (new, kind) in zip(made.columns, kinds.items(), strict=True)
        )
        return narrow(typed, [c for c, kind in kinds.items() if kind == pl.Int32])

    try:
        # One call for each part: given all at once they come back in the order they finish.
        with _quiet_panics(), ThreadPoolExecutor(workers) as pool:
            frame = _joined(list(pool.map(part, queries)))
        give_back_memory()
        return frame  # noqa: TRY300
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - one dirty cell panics it, past Exception
        return None


def _edges(
    path: Path, db: sqlite3.Connection, table: str, low: int, high: int, workers: int
) -> list[int] | None:
    """Return the row numbers that cut a table into parts of like size; None where it has few rows.

    Row numbers may be far apart (identifiers of another table, hashes): then a part is as many rows as
    there are, found in one pass, for every part costs threads that connectorx never ends.
    """
    span = high - low + 1
    if span <= path.stat().st_size // _ROW_BYTES:
        parts = max(workers, (span - 1) // PART_ROWS + 1)
        return [low + span * i // parts for i in range(parts + 1)]
    numbered = f'SELECT rowid AS r, row_number() OVER (ORDER BY rowid) AS n FROM "{table}"'  # noqa: S608
    (rows,) = db.execute(f'SELECT count(*) FROM "{table}"').fetchone()  # noqa: S608
    if rows < FAST_ROWS:
        return None
    starts = db.execute(f"SELECT r FROM ({numbered}) WHERE n % {PART_ROWS} = 1 ORDER BY r")  # noqa: S608
    return [*(r for (r,) in starts), high + 1]


def _joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Put parts one below the other, each column as wide as its widest part; nothing else is copied."""
    kinds = {
        c: max((p.schema[c] for p in parts), key=lambda kind: _BYTES.get(kind, 0)) for c in parts[0].columns
    }
    return pl.concat([p.cast({c: k for c, k in kinds.items() if p.schema[c] != k}) for p in parts])


_BYTES: Mapping[pl.DataType, int] = {pl.Int8(): 1, pl.Int16(): 2, pl.Int32(): 4, pl.Int64(): 8}


def give_back_memory() -> None:
    """Return freed memory to the system, where the C library keeps it: a reader's waste is a run's peak."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems, other libraries
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _quiet_panics() -> Iterator[None]:
    """Keep a panicking extension from writing its backtrace over the one line we print."""
    try:
        kept = os.dup(2)
    except OSError:
        yield
        return
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)


def read_spelled(
    path: Path,
    db: sqlite3.Connection,
    tables: Mapping[str, frozenset[str]],
    table: str,
    wanted: Mapping[str, tuple[Sequence[str], pl.DataType]],
) -> pl.DataFrame:
    """Return columns that releases spell differently: each the first of its spellings that is there.

    Like :func:`read_columns`, without row numbers; ``row`` counts from 1.
    """
    there = {c.lower() for c in tables.get(table, ())}
    chosen = {
        n: next((s for s in spellings if s.lower() in there), None) for n, (spellings, _) in wanted.items()
    }
    kinds = {chosen[n] or f"#{n}": kind for n, (_, kind) in wanted.items()}
    frame = read_columns(path, db, tables, table, kinds, rowid=False)
    made = frame.select(pl.col(chosen[n] or f"#{n}").alias(n) for n in wanted)
    return made.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
