"""Databases that are programs: none of it runs, and what reading them costs is bounded by their size."""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.damaged.refused import refused
from tests.sources.makers import nsys_sqlite, rocprof_db, rpd
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.io import sqlite_file, sqlite_guard
from tracetool.sources.io.sqlite_file import list_tables, open_sqlite, read_columns

ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)"
HEAVY = "hex(zeroblob(450000000))"


def _changed(path: Path, *statements: str) -> Path:
    made = sqlite3.connect(path)
    for statement in statements:
        made.execute(statement)
    made.commit()
    made.close()
    return path


TABLES = [
    pytest.param(nsys_sqlite, "StringIds", "id, 'x' AS value", id="nsight-names"),
    pytest.param(nsys_sqlite, "CUPTI_ACTIVITY_KIND_KERNEL", 'id AS start, id AS "end"', id="nsight-kernels"),
    pytest.param(nsys_sqlite, "NVTX_EVENTS", "id AS start, 'x' AS text", id="nsight-ranges"),
    pytest.param(rpd, "rocpd_string", "id, 'x' AS string", id="rpd-names"),
    pytest.param(rpd, "rocpd_op", "id, id AS start", id="rpd-operations"),
    pytest.param(rocprof_db, "KERN", "id AS BeginNs, id AS EndNs, 'k' AS KernelName", id="rocprof-kernels"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "table", "columns"), TABLES)
@pytest.mark.parametrize("kind", ["view", "disguised view", "heavy view"])
def test_no_view_is_ever_run(make: object, table: str, columns: str, kind: str, tmp_path: Path) -> None:
    path = make(tmp_path)  # type: ignore[operator]
    query = f"{ENDLESS} SELECT {columns} FROM n"
    if kind == "heavy view":
        query = f"SELECT {columns}, {HEAVY} AS junk FROM (SELECT 1 AS id)".replace("'x'", HEAVY)
    _changed(path, f'DROP TABLE "{table}"', f'CREATE VIEW "{table}" AS {query}')
    if kind == "disguised view":  # the catalog calls it a table
        disguise = f"UPDATE sqlite_master SET type = 'table' WHERE name = '{table}'"
        _changed(path, "PRAGMA writable_schema = ON", disguise)
    line = refused(path, tmp_path / "run")
    assert "view" in line or "table" in line


@pytest.mark.timeout(60)
def test_a_view_behind_the_name_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = _changed(
        tmp_path / "t.sqlite",
        "CREATE TABLE t (id INTEGER)",
        f"CREATE VIEW v AS {ENDLESS} SELECT id FROM n",
        "PRAGMA writable_schema = ON",
        # What the catalog calls t is a table elsewhere; what SQLite calls t is the view.
        "UPDATE sqlite_master SET sql = replace(sql, 'TABLE t', 'TABLE u') WHERE name = 't'",
        "UPDATE sqlite_master SET sql = replace(sql, 'VIEW v', 'VIEW t') WHERE name = 'v'",
    )
    with pytest.raises(BadInput), open_sqlite(path) as db:
        read_columns(path, db, list_tables(path), "t", {"id": sqlite_file.pl.Int64()})


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stored", ["VIRTUAL", "STORED"])
def test_a_computed_column_is_not_computed(stored: str, tmp_path: Path) -> None:
    path = nsys_sqlite(tmp_path)
    heavy = HEAVY if stored == "VIRTUAL" else "'planted'"
    _changed(
        path,
        "DROP TABLE StringIds",
        f"CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT GENERATED ALWAYS AS ({heavy}) {stored})",
        "INSERT INTO StringIds (id) VALUES (1), (2), (3)",
    )
    assert "value" not in list_tables(path)["StringIds"]
    run = ingest([path], out=tmp_path / "run").path
    assert "planted" not in (run / "run.json").read_text()


def test_a_virtual_table_is_refused(tmp_path: Path) -> None:
    path = nsys_sqlite(tmp_path)
    try:
        _changed(path, "DROP TABLE StringIds", "CREATE VIRTUAL TABLE StringIds USING fts5(id, value)")
    except sqlite3.OperationalError:
        pytest.skip("this SQLite has no virtual tables to plant")
    assert "views, which are not read" in refused(path, tmp_path / "run")


@pytest.mark.parametrize("fast_rows", [0, 1 << 62])
def test_a_cell_longer_than_any_name_is_refused(
    fast_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", fast_rows)
    path = _changed(
        nsys_sqlite(tmp_path),
        f"INSERT INTO StringIds VALUES (9000, CAST(zeroblob({sqlite_guard.LONGEST_CELL + 1}) AS TEXT))",
        "INSERT INTO StringIds VALUES (9001, 'x')",
    )
    assert "too big" in refused(path, tmp_path / "run")


@pytest.mark.parametrize("fast_rows", [0, 1 << 62])
def test_a_long_default_shared_by_many_rows_is_refused(
    fast_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", fast_rows)
    path = nsys_sqlite(tmp_path)
    made = sqlite3.connect(path)
    made.execute("DROP TABLE StringIds")
    made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY)")
    made.executemany("INSERT INTO StringIds VALUES (?)", [(i,) for i in range(1, 3001)])
    made.execute(f"ALTER TABLE StringIds ADD COLUMN value TEXT DEFAULT '{'x' * 50_000}'")
    made.commit()
    made.close()
    assert "has space for" in refused(path, tmp_path / "run")


def _one_page_many_times(path: Path, rows: int) -> Path:
    """Make every entry of a table's root point at the same page: few bytes, rows without end if stacked."""
    made = sqlite3.connect(path)
    made.execute("PRAGMA page_size = 512")
    made.execute("CREATE TABLE t (a INTEGER)")
    made.executemany("INSERT INTO t VALUES (?)", [(i % 100,) for i in range(rows)])
    made.commit()
    (root,) = made.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()
    made.close()
    raw = bytearray(path.read_bytes())
    size, todo = 512, [root]
    while todo:
        at = (todo.pop() - 1) * size
        if raw[at] != 5:  # a leaf
            continue
        cells = struct.unpack_from(">H", raw, at + 3)[0]
        places = struct.unpack_from(f">{cells}H", raw, at + 12)
        first = raw[at + places[0] : at + places[0] + 4]
        for place in places:
            raw[at + place : at + place + 4] = first
        raw[at + 8 : at + 12] = first
        todo.append(struct.unpack(">I", first)[0])
    path.write_bytes(bytes(raw))
    return path


@pytest.mark.parametrize("fast_rows", [0, 1 << 62])
def test_rows_a_file_has_no_room_for_are_refused(
    fast_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", fast_rows)
    monkeypatch.setattr(sqlite_guard, "SMALLEST_ROW", 512)
    path = _one_page_many_times(tmp_path / "t.sqlite", 4000)
    with pytest.raises(BadInput, match="has space for"), open_sqlite(path) as db:
        read_columns(path, db, list_tables(path), "t", {"a": sqlite_file.pl.Int64()})


def test_steps_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_guard, "FREE_STEPS", 200_000)
    path = _one_page_many_times(tmp_path / "t.sqlite", 4000)
    with pytest.raises(BadInput, match="more work"), open_sqlite(path) as db:
        db.execute("SELECT count(*) FROM t x, t y, t z WHERE x.a + y.a > z.a").fetchone()


#: Runs a query of a trillion rows and says when SQLite is at it.
_LONG_QUERY = """
import sys
from pathlib import Path
from tracetool.sources.io import sqlite_guard
from tracetool.sources.io.sqlite_file import open_sqlite

sqlite_guard.FREE_STEPS = 1 << 62  # the bound on steps has a test of its own
check, looks = sqlite_guard.Guard._check, []

def told(guard):
    if not looks:
        print("running", flush=True)
    looks.append(1)
    check(guard)

sqlite_guard.Guard._check = told
try:
    with open_sqlite(Path(sys.argv[1])) as db:
        db.execute(f"SELECT sum(t0.a) FROM {', '.join(f't t{i}' for i in range(12))}").fetchone()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_reaches_a_query_that_runs(tmp_path: Path) -> None:
    rows = ", ".join(f"({i})" for i in range(10))
    path = _changed(nsys_sqlite(tmp_path), "CREATE TABLE t (a)", f"INSERT INTO t VALUES {rows}")
    with subprocess.Popen(
        [sys.executable, "-c", _LONG_QUERY, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            assert job.stdout
            assert job.stdout.readline() == "running\n"
            job.send_signal(signal.SIGINT)
            assert job.communicate(timeout=200) == ("interrupted\n", "")
        finally:
            job.kill()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_pipe_beside_a_database_is_not_waited_for(ending: str, tmp_path: Path) -> None:
    path = nsys_sqlite(tmp_path)
    os.mkfifo(tmp_path / f"{path.name}{ending}")
    assert ingest([path], out=tmp_path / "run").path.is_dir()
