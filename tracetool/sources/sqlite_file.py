"""SQLite files: looked at read-only, never created, never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

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
    except (sqlite3.Error, OverflowError) as error:
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
