"""Big SQLite tables as columns, through the Arrow project's driver: a loop over rows takes thrice as long."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Self
from urllib.parse import quote

import polars as pl

from tracetool.sources.columns import narrow

#: Rows of a batch; the driver takes the type of a column from the first batch.
BATCH_ROWS = 65_536
#: Batches that become columns together.
BATCHES_AT_ONCE = 3
#: Blocks that the numbers of half a table are read in, however far apart they are.
MOST_BLOCKS = 4096
#: Column of the table and the type wanted of it, by the name it is to have.
Wanted = Mapping[str, tuple[str, pl.DataType]]


class _Dirty(Exception):  # noqa: N818 - not a fault: the cells are then looked at one by one
    """A column has cells of another type than wanted."""


def read_only_uri(path: Path) -> str:
    """Return the address that opens a file without locks, journals or the will to create it."""
    return f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"


def read_table(path: Path, table: str, columns: Wanted, low: int, high: int) -> pl.DataFrame | None:
    """Return columns of a table in the order of its row numbers.

    Parameters
    ----------
    path : Path
        The database, known to be one: its text in UTF-8.
    table : str
        A table with row numbers.
    columns : mapping of str to (column of the table, polars type)
        Names to give them. The column ``rowid`` may be among them.
    low, high : int
        First and last row number.

    Returns
    -------
    DataFrame or None
        Cells of another type are null; 32-bit columns come back as narrow as their values allow.
        None where the driver cannot read it.
    """
    with Readers() as readers:
        return readers.start(path, table, columns, low, high)()


class Readers:
    """Two threads that read tables beside other work, one table after the other as they were asked for."""

    #: Memory that tables under way may take. [bytes]
    expected_bytes: int

    def __init__(self) -> None:
        self.expected_bytes = 0
        self._pool = ThreadPoolExecutor(2)
        self._stops: list[threading.Event] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stop in self._stops:
            stop.set()
        self._pool.shutdown(cancel_futures=True)

    def start(
        self, path: Path, table: str, columns: Wanted, low: int, high: int
    ) -> Callable[[], pl.DataFrame | None]:
        """Begin to read a table as :func:`read_table`; what is returned waits for its rows."""
        try:
            import adbc_driver_manager
        except ImportError:  # no build for this machine: SQLite's own rows take longer, and say the same
            return lambda: None
        middle = (low + high) // 2
        spans = [(low, middle), (middle + 1, high)]

        def begin(*, cautious: bool) -> _Streams:
            selection = _selection(columns, cautious=cautious)
            halves = [_blocks(path, selection, table, *span, columns) for span in spans]
            streams = _Streams(self._pool, halves)
            self._stops.append(streams.stop)
            return streams

        def rows() -> pl.DataFrame | None:
            # A table that is what it says is read as it is; what is not has every cell looked at.
            for streams in (plain, None):
                try:
                    halves = (streams or begin(cautious=True)).frames()
                    return _stacked([frame for half in halves for frame in half], columns)
                except (
                    _Dirty,
                    ImportError,
                    OSError,
                    adbc_driver_manager.Error,
                    sqlite3.Error,
                    pl.exceptions.PolarsError,
                ):
                    continue
            return None

        plain = begin(cautious=False)
        return rows


class _Streams:
    """Streams of frames, each read by a thread of its own; a fault or an interrupt stops them all."""

    def __init__(self, pool: ThreadPoolExecutor, streams: Sequence[Iterator[pl.DataFrame]]) -> None:
        self.stop = threading.Event()
        self._futures = [pool.submit(self._read, stream) for stream in streams]

    def _read(self, stream: Iterator[pl.DataFrame]) -> list[pl.DataFrame]:
        try:
            return list(takewhile(lambda _: not self.stop.is_set(), stream))
        except BaseException:
            self.stop.set()
            raise

    def frames(self) -> list[list[pl.DataFrame]]:
        """Return the tables of all streams, once all have ended."""
        try:
            # Polars lets what waits go on after a signal: an endless wait would see an interrupt at its end.
            while wait(self._futures, timeout=0.1).not_done:
                pass
            return [future.result() for future in self._futures]
        except BaseException:
            self.stop.set()
            wait(self._futures)
            raise


def _selection(columns: Wanted, *, cautious: bool) -> str:
    """Return what to select: of numbers the value, of text its bytes and whether it is one."""
    expressions = []
    for i, (column, kind) in enumerate(columns.values()):
        cell = "rowid" if column == "rowid" else f'"{column}"'
        if kind == pl.String():
            expressions.append(
                f"CASE typeof({cell}) WHEN 'text' THEN CAST({cell} AS BLOB) ELSE X'' END AS c{i}"
            )
            expressions.append(f"typeof({cell}) = 'text' AS k{i}")
        elif not cautious:
            expressions.append(f"{cell} AS c{i}")
        elif kind.is_integer():
            expressions.append(f"CASE typeof({cell}) WHEN 'integer' THEN {cell} END AS c{i}")
        else:
            number = f"typeof({cell}) IN ('integer', 'real')"
            expressions.append(f"CASE WHEN {number} THEN CAST({cell} AS REAL) ELSE 0.0 END AS c{i}")
            expressions.append(f"{number} AS k{i}")
    return ", ".join(expressions)


def _blocks(
    path: Path, selection: str, table: str, low: int, high: int, columns: Wanted
) -> Iterator[pl.DataFrame]:
    """Yield the rows from one number to another, a block of numbers at a time."""
    import adbc_driver_manager as manager
    import adbc_driver_sqlite

    step = max(BATCH_ROWS * BATCHES_AT_ONCE, (high - low) // MOST_BLOCKS)
    first: int | None = low
    with (
        closing(sqlite3.connect(read_only_uri(path), uri=True, check_same_thread=False)) as numbers,
        adbc_driver_sqlite.connect(read_only_uri(path)) as database,
        manager.AdbcConnection(database) as connection,
        manager.AdbcStatement(connection) as statement,
    ):
        statement.set_options(**{adbc_driver_sqlite.StatementOptions.BATCH_ROWS.value: BATCH_ROWS})
        while first is not None:
            last = min(first + step - 1, high)
            statement.set_sql_query(
                f'SELECT {selection} FROM "{table}" WHERE rowid BETWEEN {first} AND {last} ORDER BY rowid'  # noqa: S608 - names from the file's own catalog
            )
            stream, _ = statement.execute_query()
            # Joined in memory of their own: what the driver hands over lies in buffers twice as long.
            yield _typed(pl.DataFrame(stream).rechunk(), columns)
            first = _next_number(numbers, table, last, high)


def _next_number(db: sqlite3.Connection, table: str, last: int, high: int) -> int | None:
    """Return the next row number that is there: a process's may begin billions after another's."""
    if last == high:
        return None
    query = f'SELECT min(rowid) FROM "{table}" WHERE rowid BETWEEN {last + 1} AND {high}'  # noqa: S608
    (number,) = db.execute(query).fetchone()
    # of a damaged index: on from where the block ended
    return None if number is None else max(int(number), last + 1)


def _typed(batch: pl.DataFrame, columns: Wanted) -> pl.DataFrame:
    """Return a batch in the types wanted."""
    typed = []
    for i, (name, (_, kind)) in enumerate(columns.items()):
        cells = batch[f"c{i}"]
        if kind == pl.String() and batch.height:
            cells = _text(cells)
        elif not (cells.dtype.is_integer() or (kind.is_float() and cells.dtype.is_float())) and batch.height:
            raise _Dirty
        cells = cells.cast(kind, strict=False)
        if f"k{i}" in batch.columns:
            cells = pl.select(pl.when(batch[f"k{i}"] == 1).then(cells)).to_series()
        typed.append(cells.alias(name))
    return narrow(pl.DataFrame(typed), [n for n, (_, kind) in columns.items() if kind == pl.Int32()])


def _text(cells: pl.Series) -> pl.Series:
    """Return bytes as text; what is no UTF-8 becomes replacement characters."""
    try:
        return cells.cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series([c.decode("utf-8", "replace") for c in cells.to_list()], dtype=pl.String)


_WIDTHS: Mapping[pl.DataType, int] = {pl.Int8(): 1, pl.Int16(): 2, pl.Int32(): 4, pl.Int64(): 8}


def _stacked(frames: list[pl.DataFrame], columns: Wanted) -> pl.DataFrame:
    """Put parts one below the other, each column as wide as its widest part; nothing else is copied."""
    filled = [frame for frame in frames if frame.height]
    if not filled:
        return pl.DataFrame(schema={name: kind for name, (_, kind) in columns.items()})
    wide = {c: [frame.schema[c] for frame in filled] for c in filled[0].columns}
    kinds = {c: max(types, key=lambda kind: _WIDTHS.get(kind, 0)) for c, types in wide.items()}
    return pl.concat(
        [frame.cast({c: k for c, k in kinds.items() if frame.schema[c] != k}) for frame in filled]
    )
