"""Tables of SQLite files: read in columns, they hold what SQLite says they hold."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracetool.core.errors import BadInput
from tracetool.sources.detect import readable
from tracetool.sources.format import ReadOptions
from tracetool.sources.io import sqlite_arrow, sqlite_file
from tracetool.sources.io.sqlite_arrow import Readers, read_table
from tracetool.sources.io.sqlite_file import Only, list_tables, open_sqlite, read_columns, typed_series
from tracetool.sources.nsight.store import open_store

_WANTED: dict[str, tuple[str, pl.DataType]] = {
    "row": ("rowid", pl.Int64()), "key": ("id", pl.Int64()), "a": ("a", pl.Int64()), "b": ("b", pl.Float64()),
    "name": ("name", pl.String()), "last": ("last", pl.Int64()),
}  # fmt: skip
_EDGES = [0, 1, -1, 127, -128, 128, 32_767, -32_769, 1 << 23, -(1 << 31), 1 << 40, 2**47, -(2**63), 2**63 - 1]


def _cells(seed: int) -> list[object]:
    """Return cells of every kind SQLite stores: every width, constants, fractions, text, bytes, nothing."""
    rolled = random.Random(seed)
    texts = ["", "k", "naïve", "x" * 57, "y" * 58, "z" * 9000, "\u4e2d", "a\0b"]
    kinds = [*_EDGES, *texts, 1.5, -0.0, b"\xff\x00", None, rolled.randrange(-(2**62), 2**62)]
    return rolled.choices(kinds, k=4)


def _database(path: Path, numbers: list[int], *, page: int = 4096, columns: int = 0, grown: str = "") -> Path:
    path.unlink(missing_ok=True)
    between = "".join(f", c{i} INTEGER" for i in range(columns))
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA page_size = {page}")
    db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, a, b{between}, name TEXT)")
    marks = ",".join("?" * (4 + columns))
    rows = [(n, *_cells(i)[:2], *[i % 3] * columns, _cells(i)[2]) for i, n in enumerate(numbers)]
    db.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    db.execute(f"ALTER TABLE t ADD COLUMN last INTEGER{grown}")
    extra = max(numbers) + 1 if max(numbers) < 2**63 - 1 else min(numbers) - 1
    db.execute("INSERT INTO t (id, a, last) VALUES (?, 5, 6)", (extra,))
    db.commit()
    db.close()
    return path


def _as_sqlite_says(db: sqlite3.Connection) -> pl.DataFrame:
    asked = ", ".join(column for column, _ in _WANTED.values())
    cells = zip(*db.execute(f"SELECT {asked} FROM t ORDER BY rowid").fetchall(), strict=True)
    return pl.DataFrame(
        [typed_series(n, c, k) for (n, (_, k)), c in zip(_WANTED.items(), cells, strict=True)]
    )


@pytest.mark.parametrize(
    ("numbers", "columns"),
    [
        pytest.param(list(range(1, 3001)), 0, id="dense"),
        pytest.param([n * 2_500_000 for n in range(1200)], 20, id="far-apart"),
        pytest.param([*range(-600, 0), *range(2**63 - 601, 2**63)], 150, id="both-ends-wide-rows"),
        pytest.param([7], 0, id="two-rows"),
    ],
)
def test_columns_hold_what_sqlite_says(
    numbers: list[int], columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_arrow, "BATCH_ROWS", 250)
    path = _database(tmp_path / "t.sqlite", numbers, columns=columns, grown=" DEFAULT 9")
    with open_sqlite(path) as db:
        said = _as_sqlite_says(db)
    found = read_table(path, "t", _WANTED, said["row"][0], said["row"][-1])
    assert found is not None
    assert_frame_equal(found, said)


def test_empty_stretches_of_numbers_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, typed = [], sqlite_arrow._typed
    monkeypatch.setattr(sqlite_arrow, "_typed", lambda *given: blocks.append(given) or typed(*given))
    numbers = [*range(1, 9), *range(1 << 40, (1 << 40) + 9), *range(1 << 60, (1 << 60) + 9)]
    path = _database(tmp_path / "t.sqlite", numbers)
    with open_sqlite(path) as db:
        said = _as_sqlite_says(db)
    found = read_table(path, "t", {"row": _WANTED["row"]}, said["row"][0], said["row"][-1])
    assert found is not None
    assert found["row"].to_list() == said["row"].to_list()
    assert len(blocks) <= 5  # one for each cluster, two at the start of the second half


def test_clean_numbers_are_read_as_they_are_and_narrow(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE t (a INTEGER, b, f REAL)")
        made.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, 1 << i % 60, i / 2) for i in range(1, 500)])
    made.close()
    wanted = {"a": ("a", pl.Int32()), "b": ("b", pl.Int64()), "f": ("f", pl.Float64())}
    found = read_table(path, "t", wanted, 1, 499)
    assert found is not None
    assert found.schema == {"a": pl.Int16(), "b": pl.Int64(), "f": pl.Float64()}
    assert found.rows() == [(i, 1 << i % 60, i / 2) for i in range(1, 500)]
    whole = read_table(path, "t", {"f": ("f", pl.Int64())}, 1, 499)  # fractions to SQLite, whatever they hold
    assert whole is not None
    assert whole["f"].null_count() == 499


def test_a_table_without_row_numbers_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", 0)
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID")
        made.execute("INSERT INTO t VALUES (3), (5)")
    made.close()
    with open_sqlite(path) as db:
        found = read_columns(path, db, list_tables(path), "t", {"a": pl.Int64()}, rowid=False)
        assert found["a"].to_list() == [3, 5]


def test_no_file_is_made_and_none_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "not there?%20.sqlite"
    assert read_table(path, "t", {"a": ("a", pl.Int64())}, 1, 9) is None
    assert not list(tmp_path.iterdir())
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("PRAGMA journal_mode = WAL")  # what others open of it grows files beside it
        made.execute("CREATE TABLE t (a INTEGER)")
        made.execute("INSERT INTO t VALUES (3), (5)")
    made.close()
    path.chmod(0o444)
    before = path.read_bytes()
    found = read_table(path, "t", {"a": ("a", pl.Int64())}, 1, 2)
    assert found is not None
    assert found["a"].to_list() == [3, 5]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("absent", ["adbc_driver_manager", "adbc_driver_sqlite", "pyarrow"])
def test_without_the_driver_rows_are_read_too(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", 0)
    monkeypatch.setitem(sys.modules, absent, None)
    path = _database(tmp_path / "t.sqlite", [1, 2, 3])
    with open_sqlite(path) as db:
        found = read_columns(path, db, list_tables(path), "t", {"id": pl.Int64()}, rowid=False)
    assert found["id"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_what_lies_beside_a_database_is_not_missed(mode: str, tmp_path: Path) -> None:
    """Of a killed recording: rows committed to the log count, rows half-written are taken back."""
    folder, scratch = tmp_path / "killed", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    path = folder / "t.sqlite"
    made = sqlite3.connect(tmp_path / "t.sqlite", isolation_level=None)
    made.execute(f"PRAGMA journal_mode = {mode}")
    made.execute("PRAGMA cache_size = 1")  # so that half of a transaction is in the file
    made.execute("CREATE TABLE t (a INTEGER)")
    made.execute("INSERT INTO t VALUES (1)")
    made.execute("BEGIN")
    made.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(2, 20_000)])
    made.execute("COMMIT" if mode == "WAL" else "UPDATE t SET a = 0")
    for file in tmp_path.glob("t.sqlite*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, folder)
    made.close()
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert len(before) == 2
    with pytest.raises(BadInput, match="not whole without"), open_sqlite(path):
        pass
    whole = readable(path, ReadOptions(scratch=scratch))
    with open_sqlite(whole) as db:
        assert db.execute("SELECT count(*), min(a) FROM t").fetchone() == (19_999 if mode == "WAL" else 1, 1)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    path.write_bytes(sqlite_file.SQLITE_MAGIC + bytes(999))
    path.with_name("t.sqlite-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(99))
    with pytest.raises(BadInput, match="broken"):
        readable(path, ReadOptions(scratch=scratch))


@pytest.mark.skipif(os.name == "nt", reason="names there are text")
def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff?.sqlite")
    try:
        sqlite3.connect(path).close()
    except (OSError, sqlite3.Error, UnicodeError):
        pytest.skip("a file system whose names are text")
    path.write_bytes(_database(tmp_path / "t.sqlite", [1, 2]).read_bytes())
    assert "t" in list_tables(path)


def test_a_big_table_and_some_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", 500)
    path = _database(tmp_path / "t.sqlite", list(range(1000)))
    wanted: dict[str, pl.DataType] = {"a": pl.Int64(), "name": pl.String(), "absent": pl.Int32()}
    with open_sqlite(path) as db:
        tables = list_tables(path)
        for only in (None, ("a", (127, 128, 5)), ("not there", (1,))):
            asked: Only | None = only
            fast = read_columns(path, db, tables, "t", wanted, only=asked)
            monkeypatch.setattr(sqlite_file, "FAST_ROWS", 1 << 40)
            assert_frame_equal(fast, read_columns(path, db, tables, "t", wanted, only=asked))
            monkeypatch.setattr(sqlite_file, "FAST_ROWS", 500)
            assert (fast.height == 1001) is (only is None or only[0] != "a")


def test_text_that_is_no_utf8_becomes_replacement_characters(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE t (name TEXT)")
        made.executemany(
            "INSERT INTO t VALUES (CAST(? AS TEXT))", [(b"ab\xff",), (b"\xc3",), (b"\xa9!",), (b"ok",)]
        )
    made.close()
    with open_sqlite(path) as db:
        found = read_table(path, "t", {"name": ("name", pl.String())}, 1, 4)
        assert found is not None
        assert found["name"].to_list() == [r[0] for r in db.execute("SELECT name FROM t")]


@settings(max_examples=60, deadline=None)
@given(
    flips=st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 3),
)
def test_a_damaged_file_gives_rows_or_one_line(
    flips: list[tuple[int, int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = tmp_path_factory.getbasetemp() / "whole.sqlite"
    if not whole.exists():
        _database(whole, list(range(1500)))
    raw = bytearray(whole.read_bytes())
    for at, value in flips:
        raw[at % len(raw)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.sqlite"
    path.write_bytes(bytes(raw[: len(raw) * (4 - cut) // 4]))
    wanted = {n: k for n, (_, k) in _WANTED.items() if n not in ("row", "key")}
    kept = sqlite_file.FAST_ROWS
    found: list[pl.DataFrame | None] = []
    for fast_rows in (1, 1 << 62):
        sqlite_file.FAST_ROWS = fast_rows
        try:
            with open_sqlite(path) as db:
                found.append(read_columns(path, db, list_tables(path), "t", wanted))
        except BadInput:
            found.append(None)
        finally:
            sqlite_file.FAST_ROWS = kept
    fast, slow = found
    if fast is not None and slow is not None:
        assert_frame_equal(fast, slow)


def test_a_fault_in_one_half_stops_the_other() -> None:
    taken: list[int] = []

    def endless() -> Iterator[pl.DataFrame]:
        while True:
            taken.append(1)
            yield pl.DataFrame({"a": [1]})

    def faulty() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"a": [2]})
        raise OSError("torn")

    with ThreadPoolExecutor(2) as pool, pytest.raises(OSError, match="torn"):
        sqlite_arrow._Streams(pool, [endless(), faulty()]).frames()
    assert taken


def test_readers_that_are_left_stop_what_they_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> Iterator[pl.DataFrame]:
        while True:
            yield pl.DataFrame({"a": [1]})

    monkeypatch.setattr(sqlite_arrow, "_blocks", endless)
    with pytest.raises(KeyboardInterrupt), Readers() as readers:
        for table in ("t", "u"):
            readers.start(tmp_path / "t.sqlite", table, {"a": ("a", pl.Int64())}, 1, 9)
        raise KeyboardInterrupt


def test_tables_asked_for_ahead_are_those_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        for table in ("t", "u", "few"):
            made.execute(f"CREATE TABLE {table} (a INTEGER, b)")
            rows = 30 if table == "few" else 30_000
            made.executemany(
                f"INSERT INTO {table} VALUES (?, ?)",
                [(i * len(table), "dirt" if i == 17 and table == "u" else i) for i in range(rows)],
            )
    wanted = {"a": pl.Int32(), "b": pl.Int64(), "absent": pl.String()}
    with open_store(path) as store:
        alone = {t: store.read(t, wanted) for t in ("t", "u", "few", "none")}
    with open_store(path) as store:
        for table in alone:
            store.begin(table, wanted)
        for table in reversed(alone):
            assert_frame_equal(store.read(table, wanted), alone[table])
        assert store.read("u", wanted, ("a", (17, 18)))["b"].to_list() == [None, 18]
