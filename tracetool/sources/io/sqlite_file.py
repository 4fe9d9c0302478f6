"""SQLite files: looked at read-only, never created, never changed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.io.sqlite_arrow import Readers, read_only_uri
from tracetool.sources.io.sqlite_guard import Guard, bounded_rows, check_size

SQLITE_MAGIC = b"SQLite format 3\0"
#: A column and the numbers it may hold.
Only = tuple[str, Sequence[int]]


#: What SQLite leaves beside a database while it writes, and how it starts once something is in it.
_BESIDE = {"-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"), "-journal": (b"\xd9\xd5\x05\xf9",)}
_WAL_HEADER = 32


def pending(path: Path) -> Path | None:
    """Return the file beside a database with its last rows, or its state before them; None for none.

    Source: SQLite, Database File Format, sections 3 (rollback journal) and 4 (write-ahead log).
    """
    for ending, starts in _BESIDE.items():
        beside = Path(os.path.realpath(path) + ending)
        if not beside.is_file():  # a pipe of that name would be waited for
            continue
        with contextlib.suppress(OSError), beside.open("rb") as f:
            if f.read(4).startswith(starts) and beside.stat().st_size > _WAL_HEADER:
                return beside
    return None


def broken(path: Path, error: Exception) -> BadInput:
    """Return the error for a database that cannot be read."""
    return BadInput.in_file(path, f"is a broken SQLite file: {error}", "export or copy it again")


@contextmanager
def open_sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database of unknown origin read-only: no view runs, work and memory are bounded by its size.

    Raises
    ------
    BadInput
        If it is not a database, is cut short or is corrupt: also for faults inside the block. If its
        last rows lie beside it still: they would be missed without a word. If reading it takes more work
        than its bytes can hold rows for.
    """
    if beside := pending(path):
        raise BadInput.in_file(
            path,
            f"is not whole without {beside.name}",
            "close what writes it, or read it by tracetool ingest",
        )
    guard = Guard(path)
    try:
        connection = sqlite3.connect(read_only_uri(path), uri=True)
        try:
            connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
            guard.watch(connection)
            yield connection
            guard.reraise()
        finally:
            connection.close()
    except (
        sqlite3.Error,
        OverflowError,
        UnicodeDecodeError,
    ) as error:  # garbled schema
        guard.reraise()
        raise broken(path, error) from error


#: What a plain table's entry in the catalog starts with; SQLite itself writes these words.
_PLAIN = "type = 'table' AND sql LIKE 'CREATE TABLE%'"


def list_tables(path: Path) -> dict[str, frozenset[str]]:
    """Return every plain table with the names of its stored columns.

    Notes
    -----
    Views, virtual tables and computed columns are programs, and a database may come from anywhere: none is
    listed, so none is run.
    """
    listed: dict[str, frozenset[str]] = {}
    with open_sqlite(path) as db:
        names = [r[0] for r in db.execute(f"SELECT name FROM sqlite_master WHERE {_PLAIN}")]  # noqa: S608
        for name in names:
            if isinstance(name, str):
                rows = db.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()
                listed[name] = frozenset(str(r[0]) for r in rows)
    return listed


def has_views(path: Path) -> bool:
    """Return whether a database contains views or virtual tables."""
    with open_sqlite(path) as db:
        counted = db.execute(
            f"SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND NOT ({_PLAIN})"  # noqa: S608
            " AND name NOT LIKE 'sqlite_%'"
        ).fetchone()
    return bool(counted[0])


def refuse_view(path: Path, db: sqlite3.Connection, name: str) -> None:
    """Raise BadInput if a table that is not there is a view: its rows would be missed without a word."""
    query = "SELECT type FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')"
    if db.execute(query, (name,)).fetchone():
        raise BadInput.in_file(
            path, f"{name[:80]} is a view or a virtual table: only plain tables are read", "export it again"
        )


#: Tables of more rows are read in columns.
FAST_ROWS = 20_000


def read_columns(
    path: Path,
    db: sqlite3.Connection,
    tables: Mapping[str, frozenset[str]],
    table: str,
    columns: Mapping[str, pl.DataType],
    *,
    only: Only | None = None,
    rowid: bool = True,
) -> pl.DataFrame:
    """Return columns of a table by name, null where they are missing.

    Parameters
    ----------
    path : Path
        The database, for the fast way in.
    db : Connection
        The same, opened read-only.
    tables : mapping
        From :func:`list_tables`.
    table : str
        A table; one that is absent gives no rows.
    columns : mapping of str to polars type
        Integer, float or text columns.
    only : (str, numbers), optional
        Rows whose column of integers holds one of these; all where the table has no such column.
    rowid : bool
        Whether to add ``rowid``.

    Returns
    -------
    DataFrame
        The columns asked for and ``rowid``. A cell of another type (text in a
        number column) is null. Columns requested as 32-bit integers of a big table come
        back as narrow as their values allow.

    Raises
    ------
    BadInput
        If the name is that of a view, or the table holds more rows or text than the file can hold.
    """
    with Readers() as readers:
        return start_columns(path, db, tables, table, columns, readers, only=only, rowid=rowid)()


def start_columns(
    path: Path,
    db: sqlite3.Connection,
    tables: Mapping[str, frozenset[str]],
    table: str,
    columns: Mapping[str, pl.DataType],
    readers: Readers,
    *,
    only: Only | None = None,
    rowid: bool = True,
) -> Callable[[], pl.DataFrame]:
    """Begin to read columns as :func:`read_columns`, a big table by other threads.

    Parameters
    ----------
    readers : Readers
        Read what is asked of them in turn; the other parameters are those of :func:`read_columns`.

    Returns
    -------
    callable
        Waits for the rows and returns them.
    """
    schema = {**columns, **({"rowid": pl.Int64()} if rowid else {})}
    if table not in tables:
        refuse_view(path, db, table)
        return lambda: pl.DataFrame(schema=schema)
    real = {c.lower(): c for c in tables[table]}
    present = {c: real[c.lower()] for c in columns if c.lower() in real}
    if not present:
        return lambda: pl.DataFrame(schema=schema)
    selected = {**present, **({"rowid": "rowid"} if rowid else {})}
    only = only if only and only[0].lower() in real else None
    if only:
        selected["#only"] = only[0]
        schema["#only"] = pl.Int64()
    big = _big(path, db, table, {n: (c, schema[n]) for n, c in selected.items()}, readers)

    def rows() -> pl.DataFrame:
        frame = big()
        if frame is None:
            selection = ", ".join("rowid" if c == "rowid" else f'"{c}"' for c in selected.values())
            cursor = db.execute(f'SELECT {selection} FROM "{table}"')  # noqa: S608 - names from the file's own catalog
            blocks = [_typed(block, selected, schema) for block in bounded_rows(path, table, cursor)]
            frame = pl.concat(blocks) if blocks else _typed([], selected, schema)
        if only:
            frame = frame.filter(pl.col("#only").is_in(list(only[1])))
        dtypes = {n: kind for n, kind in schema.items() if n != "#only"}
        return frame.with_columns(
            pl.lit(None, dtype=kind).alias(n) for n, kind in dtypes.items() if n not in frame.columns
        ).select(list(dtypes))

    return rows


def _typed(
    rows: Sequence[Sequence[object]], names: Iterable[str], schema: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    listed = list(names)
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(listed)
    return pl.DataFrame([typed_series(n, c, schema[n]) for n, c in zip(listed, cells, strict=True)])


def typed_series(name: str, cells: Sequence[object], kind: pl.DataType) -> pl.Series:
    """Return cells as a column; those of another type are null."""
    if kind.is_integer():
        integers: list[object] = [c if type(c) is int else None for c in cells]
        return pl.Series(name, integers, dtype=pl.Int64).cast(kind, strict=False)
    if kind.is_float():
        return pl.Series(name, [float(c) if isinstance(c, int | float) else None for c in cells], dtype=kind)
    return pl.Series(name, [c if isinstance(c, str) else None for c in cells], dtype=pl.String)


def _big(
    path: Path,
    db: sqlite3.Connection,
    table: str,
    columns: Mapping[str, tuple[str, pl.DataType]],
    readers: Readers,
) -> Callable[[], pl.DataFrame | None]:
    """Begin to read a big table the fast way; None comes of one that is small or oddly laid out."""
    try:
        # One at a time, both ends are found in the index; together they cost a scan.
        (low,) = db.execute(f'SELECT min(rowid) FROM "{table}"').fetchone()  # noqa: S608
        (high,) = db.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()  # noqa: S608
        (encoding,) = db.execute("PRAGMA encoding").fetchone()
    except sqlite3.OperationalError as error:
        if "no such column" not in str(error):
            raise
        return lambda: None  # a table without row numbers
    if not isinstance(low, int) or not isinstance(high, int) or high - low < FAST_ROWS or encoding != "UTF-8":
        return lambda: None
    texts = [column for column, kind in columns.values() if kind == pl.String()]
    # Before the driver, which knows no bounds.
    count, needed = check_size(path, db, table, texts, len(columns), readers.expected_bytes)
    if count < FAST_ROWS:  # numbered far apart
        return lambda: None
    readers.expected_bytes += needed
    started = readers.start(path, table, columns, low, high)

    def rows() -> pl.DataFrame | None:
        frame = started()
        readers.expected_bytes -= needed
        give_back_memory()
        # Rows out of order, as in a damaged file, are not met by looking for their numbers.
        return frame if frame is not None and frame.height == count else None

    return rows


def give_back_memory() -> None:
    """Return freed memory to the system, where the C library keeps it: a reader's waste is a run's peak."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems, other libraries
        ctypes.CDLL(None).malloc_trim(0)


def read_spelled(
    path: Path,
    db: sqlite3.Connection,
    tables: Mapping[str, frozenset[str]],
    table: str,
    columns: Mapping[str, tuple[Sequence[str], pl.DataType]],
) -> pl.DataFrame:
    """Return columns that releases spell differently: each the first of its spellings that is there.

    Like :func:`read_columns`, without row numbers; ``row`` counts from 1.
    """
    present = {c.lower() for c in tables.get(table, ())}
    chosen = {
        n: next((s for s in spellings if s.lower() in present), None) for n, (spellings, _) in columns.items()
    }
    kinds = {chosen[n] or f"#{n}": kind for n, (_, kind) in columns.items()}
    frame = read_columns(path, db, tables, table, kinds, rowid=False)
    renamed = frame.select(pl.col(chosen[n] or f"#{n}").alias(n) for n in columns)
    return renamed.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
