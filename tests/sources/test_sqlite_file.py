"""Tables of SQLite files, whatever their row numbers are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import connectorx
import polars as pl
import pytest

from tracetool.sources import sqlite_file
from tracetool.sources.sqlite_file import list_tables, open_sqlite, read_columns

_WANTED = {"a": pl.Int64(), "name": pl.String()}


def _database(path: Path, numbers: list[int]) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, name TEXT)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, n % 97, f"n{n}") for n in numbers])
    db.close()
    return path


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(list(range(1, 1201)), id="dense"),
        pytest.param([n * 2_500_000 for n in range(1200)], id="far-apart"),
        pytest.param([*range(-600, 0), *range(2**63 - 601, 2**63)], id="both-ends"),
    ],
)
def test_rows_come_back_whole_and_in_order_in_few_parts(
    numbers: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", 500)
    monkeypatch.setattr(sqlite_file, "PART_ROWS", 250)
    asked: list[str] = []
    through: Callable[..., object] = connectorx.read_sql

    def counted(connection: str, query: str, **more: object) -> object:
        asked.append(query)
        return through(connection, query, **more)

    monkeypatch.setattr(connectorx, "read_sql", counted)
    path = _database(tmp_path / "t.sqlite", numbers)
    with open_sqlite(path) as db:
        frame = read_columns(path, db, list_tables(path), "t", _WANTED)
    assert frame["rowid"].to_list() == numbers
    assert frame["name"].to_list() == [f"n{n}" for n in numbers]
    assert 2 <= len(asked) <= 10


def test_a_short_table_with_row_numbers_far_apart_needs_no_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connectorx, "read_sql", None)
    numbers = [1, 3_000_000_000, 2**62]
    path = _database(tmp_path / "t.sqlite", numbers)
    with open_sqlite(path) as db:
        assert read_columns(path, db, list_tables(path), "t", _WANTED)["rowid"].to_list() == numbers
