"""Valid SQLite files of another shape: columns gone, renamed or retyped, ids nobody knows, odd cells."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.damaged.mutate.cells import cell

Change = Callable[[sqlite3.Connection, str, list[str], random.Random], str]


def change_sqlite(path: Path, draw: random.Random) -> str:
    """Change one table of a database in place."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        names = [
            r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        if not names:
            return "no table is left"
        table = draw.choice(names)
        columns = [r[0] for r in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        table, columns = table.replace('"', '""'), [c.replace('"', '""') for c in columns]
        step = draw.choice(_CHANGES)
        # a view in the way, a table without columns: the file stays as it is
        with contextlib.suppress(sqlite3.Error):
            return f"{table}: {step(db, table, columns, draw)}"
        return f"{table}: {step.__name__} is not possible"
    finally:
        db.close()


def _rows(db: sqlite3.Connection, table: str, draw: random.Random) -> str:
    """Return a condition that holds for one row, or for all."""
    ids = [r[0] for r in db.execute(f'SELECT rowid FROM "{table}"')]
    return f"rowid = {draw.choice(ids)}" if ids and draw.random() < 0.6 else "1"


def set_cell(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    column, value, rows = draw.choice(columns), cell(draw), _rows(db, table, draw)
    db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {rows}', (value,))
    return f"{column} = {value!r:.60} where {rows}"


def drop_column(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    column = draw.choice(columns)
    db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    return f"without {column}"


def rename_column(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    column = draw.choice(columns)
    new = draw.choice((column.upper(), column + "_", 'odd"name', "value", "rowid"))
    quoted = new.replace('"', '""')
    db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{quoted}"')
    return f"{column} called {new}"


def retype_column(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    column, kind = draw.choice(columns), draw.choice(("TEXT", "BLOB", "REAL"))
    db.execute(f'ALTER TABLE "{table}" ADD COLUMN "#new" {kind}')
    db.execute(f'UPDATE "{table}" SET "#new" = CAST("{column}" AS {kind})')
    db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "#new" TO "{column}"')
    return f"{column} as {kind}"


def drop_table(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    db.execute(f'DROP TABLE "{table}"')
    return "gone"


def delete_rows(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    rows = _rows(db, table, draw)
    db.execute(f'DELETE FROM "{table}" WHERE {rows}')
    return f"no rows where {rows}"


def repeat_rows(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    names = ", ".join(f'"{c}"' for c in columns)
    rows = _rows(db, table, draw)
    db.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{table}" WHERE {rows}')
    return f"rows again where {rows}"


def swap_columns(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    one, other = draw.choice(columns), draw.choice(columns)
    db.execute(f'UPDATE "{table}" SET "{one}" = "{other}", "{other}" = "{one}"')
    return f"{one} and {other} swapped"


def negate(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    column, rows = draw.choice(columns), _rows(db, table, draw)
    db.execute(f'UPDATE "{table}" SET "{column}" = -"{column}" WHERE {rows}')
    return f"{column} negated where {rows}"


def far_rowid(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    db.execute(f'UPDATE "{table}" SET rowid = rowid + {draw.choice((30_000, 2**40))} WHERE rowid % 2')
    return "row numbers far apart"


def become_view(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    db.execute("PRAGMA legacy_alter_table = ON")
    db.execute(f'ALTER TABLE "{table}" RENAME TO "#{table}"')
    db.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "#{table}"')
    return "a view"


def add_table(db: sqlite3.Connection, table: str, columns: list[str], draw: random.Random) -> str:
    db.execute('CREATE TABLE "odd""name; --" (x INTEGER, "y z" TEXT)')
    db.execute('INSERT INTO "odd""name; --" VALUES (1, ?)', (cell(draw),))
    return "beside a table nobody knows"


#: Odd cells are the commonest fault of real files: they come up as often as all others together.
_CHANGES: tuple[Change, ...] = (
    *[set_cell] * 9, drop_column, drop_column, rename_column, retype_column, drop_table, delete_rows,
    delete_rows, repeat_rows, swap_columns, negate, far_rowid, become_view, add_table,
)  # fmt: skip
