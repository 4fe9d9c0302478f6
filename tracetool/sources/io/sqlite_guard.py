"""Bounds on what a SQLite file of unknown origin may cost: steps, rows, text, and time to an interrupt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.tables.memory import COPIES, check_memory

#: Longest text or value read. The longest kernel names are thousands of characters long. [bytes]
LONGEST_CELL = 16 << 20
#: Steps of SQLite's machine between two looks at signals and at the budget: a few milliseconds.
STEPS_AT_ONCE = 100_000
#: Steps any file may take, and those for each of its bytes. Reading a row takes some ten steps, and no row
#: is smaller than :data:`SMALLEST_ROW`; a table is read a few times.
FREE_STEPS, STEPS_PER_BYTE = 20_000_000, 30
#: A cell takes at least 4 bytes of a page. Source: SQLite, Database File Format, section 1.6. [bytes]
SMALLEST_ROW = 4
#: Text read may exceed the file by this factor and amount: a column's default is stored once for all rows.
TEXT_GROWTH, FREE_TEXT = 4, 64 << 20
#: Memory that making a run takes for each row of a table, and for each column read of it. Measured. [bytes]
ROW_BYTES, COLUMN_BYTES = 120, 12
#: Rows made into columns together, and rows taken from SQLite between two looks at how much there is.
_BLOCK_ROWS, _ROWS_AT_ONCE = 50_000, 64


class Guard:
    """Watches a connection: what it was stopped for is raised by :meth:`reraise`.

    Parameters
    ----------
    path : Path
        The database; its size sets the budget.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = FREE_STEPS + STEPS_PER_BYTE * _size(path)
        self._stopped_for: BaseException | None = None

    def watch(self, connection: sqlite3.Connection) -> None:
        """Set the bounds on a new connection."""
        # No cell is longer than its file: shared by many rows, long ones must not fill the memory.
        longest = max(1 << 20, min(LONGEST_CELL, _size(self.path)))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA mmap_size = 0")
        connection.set_authorizer(_allow)
        looks = self._looks()
        next(looks)
        connection.set_progress_handler(looks.__next__, STEPS_AT_ONCE)

    def _looks(self) -> Iterator[int]:
        """Yield 1 to stop SQLite, which asks every so many steps, else 0.

        Notes
        -----
        SQLite drops what its callbacks raise. A signal's handler runs as soon as Python code does: in a
        generator that is within the ``try``, in a function it would be before it.
        """
        verdict = 0
        while True:
            try:
                yield verdict
                self._left -= STEPS_AT_ONCE
                self._check()
            except GeneratorExit:
                return
            except BaseException as error:  # noqa: BLE001 - raised again once SQLite has let go
                self._stopped_for, verdict = error, 1

    def _check(self) -> None:
        if self._left < 0:
            raise BadInput.in_file(
                self.path,
                "takes more work to read than its size explains: it is damaged, or made to hang readers",
                "export it again",
            )

    def reraise(self) -> None:
        """Raise what SQLite was stopped for, if it was."""
        if self._stopped_for is not None:
            raise self._stopped_for


def _allow(action: int, _first: str | None, _second: str | None, _base: str | None, view: str | None) -> int:
    """Allow what is asked for directly; nothing a view would ask for, and no recursion."""
    if view is not None or action == sqlite3.SQLITE_RECURSIVE:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _size(path: Path) -> int:
    return path.stat().st_size


def check_size(
    path: Path, db: sqlite3.Connection, table: str, texts: Sequence[str], columns: int, beside: int = 0
) -> tuple[int, int]:
    """Return the number of rows of a table with row numbers, and the memory that reading it may take [bytes].

    Parameters
    ----------
    texts : sequence of str
        Columns of text.
    columns : int
        Columns that are read.
    beside : int
        Memory that tables which are read at the same time may take. [bytes]

    Raises
    ------
    BadInput
        If it holds more rows, or more text in the columns ``texts``, than the file can hold: pages
        entered in a table many times over. If its rows need more memory than is available.
    """
    lengths = " + ".join(f'coalesce(length(CAST("{c}" AS BLOB)), 0)' for c in texts) or "0"
    total = f"total({lengths})" if texts else "0"
    # The condition keeps SQLite from counting whole pages, which nothing can interrupt.
    query = f'SELECT count(*), {total} FROM "{table}" WHERE rowid >= {-(1 << 63)}'  # noqa: S608
    rows, text = db.execute(query).fetchone()
    _check(path, table, int(rows), int(text))
    needed = int(rows) * (ROW_BYTES + COLUMN_BYTES * columns) + COPIES * int(text)
    check_memory(path, needed + beside, f"{int(rows):,} rows of {table[:80]}", driver=True)
    return int(rows), needed


def bounded_rows(path: Path, table: str, rows: sqlite3.Cursor) -> Iterator[list[tuple[object, ...]]]:
    """Yield the rows of a query in blocks.

    Raises
    ------
    BadInput
        If there are more of them, or more text in them, than the file can hold.
    """
    count = text = 0
    block: list[tuple[object, ...]] = []
    while batch := rows.fetchmany(_ROWS_AT_ONCE):
        count += len(batch)
        text += sum(len(c) for row in batch for c in row if isinstance(c, str | bytes))
        _check(path, table, count, text)
        block += batch
        if len(block) >= _BLOCK_ROWS:
            yield block
            block = []
    if block:
        yield block


def _check(path: Path, table: str, rows: int, text: int) -> None:
    size = _size(path)
    if rows > size // SMALLEST_ROW or text > FREE_TEXT + TEXT_GROWTH * size:
        raise BadInput.in_file(
            path,
            f"table {table[:80]} holds more than a file of {size:,} bytes has space for"
            f" ({rows:,} rows, {text:,} bytes of text)",
            "export it again",
        )
