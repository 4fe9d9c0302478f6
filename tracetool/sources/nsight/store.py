"""Storage of an Nsight Systems export: a SQLite file, or a folder of Parquet or Arrow files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import plain_columns
from tracetool.sources.io.sqlite_arrow import Readers
from tracetool.sources.io.sqlite_file import (
    Only,
    list_tables,
    open_sqlite,
    refuse_view,
    start_columns,
    typed_series,
)
from tracetool.sources.io.sqlite_guard import bounded_rows
from tracetool.tables.library_output import muted_panics
from tracetool.tables.memory import check_parquet
from tracetool.tables.table_file import FAULTS, fault_of, parquet_columns

if TYPE_CHECKING:
    import pyarrow as pa

_EVENTS = "NVTX_EVENTS"
_PAYLOAD_COLUMNS = ("start", "end", "globalTid", "textId", "binaryData")
_PAYLOADS = {**dict.fromkeys(_PAYLOAD_COLUMNS[:-1], pl.Int64()), "payload": pl.Binary()}
#: Columns that hold the number of a string; exports of many files may hold the text itself.
STRING_IDS = frozenset({"demangledName", "shortName", "nameId", "textId"})


class Store(Protocol):
    """Tables by name, columns by name."""

    @property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """Tables and their columns."""

    def begin(self, table: str, columns: Mapping[str, pl.DataType]) -> None:
        """Read columns that :meth:`read` will be asked for beside other work, where that is quicker."""

    def read(self, table: str, columns: Mapping[str, pl.DataType], only: Only | None = None) -> pl.DataFrame:
        """Return columns, null where absent, with ``rowid``; of rows whose column is one of some numbers."""

    def count(self, table: str) -> int:
        """Return the number of rows of a table, 0 where there is none of that name.

        Raises
        ------
        BadInput
            If the name is that of a view.
        """

    def payload_events(self) -> pl.DataFrame:
        """Return NVTX events with a payload: ``start``, ``end``, ``globalTid``, ``textId``, ``payload``."""


@dataclass(frozen=True)
class SqliteStore:
    """A SQLite export."""

    path: Path
    db: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]
    readers: Readers
    _begun: dict[tuple[str, ...], Callable[[], pl.DataFrame]] = field(default_factory=dict)

    def begin(self, table: str, columns: Mapping[str, pl.DataType]) -> None:
        """Read columns that :meth:`read` will be asked for beside other work."""
        self._begun[table, *columns] = self._start(table, columns)

    def read(self, table: str, columns: Mapping[str, pl.DataType], only: Only | None = None) -> pl.DataFrame:
        """Return columns of a table."""
        begun = None if only else self._begun.pop((table, *columns), None)
        rows = (begun or self._start(table, columns, only))()
        return rows.with_row_index("rowid", offset=1)

    def _start(
        self, table: str, columns: Mapping[str, pl.DataType], only: Only | None = None
    ) -> Callable[[], pl.DataFrame]:
        return start_columns(
            self.path, self.db, self.tables, table, columns, self.readers, only=only, rowid=False
        )

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        if table not in self.tables:
            refuse_view(self.path, self.db, table)
            return 0
        (rows,) = self.db.execute(f'SELECT count(*) FROM "{table}"').fetchone()  # noqa: S608 - a plain table
        return int(rows)

    def payload_events(self) -> pl.DataFrame:
        """Return the NVTX events with a payload, whatever type the column of bytes is declared as."""
        real = {c.lower(): c for c in self.tables.get(_EVENTS, ())}
        if not {c.lower() for c in _PAYLOAD_COLUMNS} <= set(real):
            return pl.DataFrame(schema=_PAYLOADS)
        *numbers, payload = (f'"{real[c.lower()]}"' for c in _PAYLOAD_COLUMNS)
        selected = ", ".join([*numbers, f"CAST({payload} AS BLOB)"])
        query = f'SELECT {selected} FROM "{_EVENTS}" WHERE {payload} IS NOT NULL'  # noqa: S608 - the file's own names
        blocks = bounded_rows(self.path, _EVENTS, self.db.execute(query))
        rows = [row for block in blocks for row in block]
        *cells, payloads = zip(*rows, strict=True) if rows else ([],) * len(_PAYLOADS)
        columns = [typed_series(n, c, pl.Int64()) for n, c in zip(_PAYLOADS, cells, strict=False)]
        data = [p if isinstance(p, bytes) else None for p in payloads]
        return pl.DataFrame([*columns, pl.Series("payload", data, dtype=pl.Binary)]).drop_nulls("payload")


@dataclass(frozen=True)
class FolderStore:
    """A ``parquetdir`` or ``arrowdir`` export: one file per table."""

    files: Mapping[str, Path]
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def begin(self, table: str, columns: Mapping[str, pl.DataType]) -> None:
        """Do nothing: columns of these files are read side by side as it is."""

    def read(self, table: str, columns: Mapping[str, pl.DataType], only: Only | None = None) -> pl.DataFrame:
        """Return columns of a table; text in place of a string's number stays text."""
        schema = {**columns, "rowid": pl.Int64()}
        present = {c.lower(): c for c in self.tables.get(table, ())}
        names = {c: present[c.lower()] for c in columns if c.lower() in present}
        if not names:
            return pl.DataFrame(schema=schema)
        file = self.files[table]
        try:
            frame = plain_columns(_file_columns(file, list(dict.fromkeys(names.values()))))
        except FAULTS as error:
            fault = f"is a broken table of the export: {fault_of(error)}"
            raise BadInput.in_file(file, fault, "export again") from error
        frame = frame.with_row_index("rowid", offset=1)
        expressions = [pl.col("rowid").cast(pl.Int64)]
        for column, kind in columns.items():
            if column not in names:
                expressions.append(pl.lit(None, dtype=kind).alias(column))
            elif frame.schema[names[column]] == pl.String and column in STRING_IDS:
                expressions.append(pl.col(names[column]).alias(column))
            else:
                expressions.append(pl.col(names[column]).cast(kind, strict=False).alias(column))
        frame = frame.select(expressions)
        return frame.filter(pl.col(only[0]).is_in(list(only[1]))) if only and only[0] in names else frame

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        columns = sorted(self.tables.get(table, ()))
        return self.read(table, {columns[0]: pl.Int64()}).height if columns else 0

    def payload_events(self) -> pl.DataFrame:
        """Return the NVTX events with a payload: exports declare its bytes as text, which they are not."""
        import pyarrow as pa

        real = {c.lower(): c for c in self.tables.get(_EVENTS, ())}
        if not {c.lower() for c in _PAYLOAD_COLUMNS} <= set(real):
            return pl.DataFrame(schema=_PAYLOADS)
        file = self.files[_EVENTS]
        try:
            table = _arrow_columns(file, [real[c.lower()] for c in _PAYLOAD_COLUMNS])
            cells = [
                table.column(n).cast(pa.large_binary() if c == "binaryData" else pa.int64(), safe=False)
                for n, c in enumerate(_PAYLOAD_COLUMNS)
            ]
        except (*FAULTS, pa.ArrowException) as error:
            fault = f"is a broken table of the export: {fault_of(error)}"
            raise BadInput.in_file(file, fault, "export again") from error
        names = list(_PAYLOADS)
        frame = pl.DataFrame({n: pl.from_arrow(cell) for n, cell in zip(names, cells, strict=True)})
        return frame.drop_nulls("payload")


#: Memory that making a run takes for each row of a table of the export. Measured. [bytes]
_ROW_BYTES = 200
_ENDINGS = (".parquet", ".arrow", ".arrows", ".feather")


def _file_columns(file: Path, columns: list[str] | None = None) -> pl.DataFrame:
    with muted_panics():
        check_parquet(file, columns, per_row=_ROW_BYTES)
        if file.suffix == ".parquet":
            return pl.read_parquet(file, columns=columns, glob=False)
        try:
            scan = pl.scan_ipc(file, glob=False)
            return (scan if columns is None else scan.select(columns)).collect()
        except pl.exceptions.ComputeError:
            return pl.read_ipc_stream(file, columns=columns)


def _arrow_columns(file: Path, columns: list[str]) -> pa.Table:
    """Return columns of a file as Arrow has them, whose texts are not looked at."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_parquet(file, columns, per_row=_ROW_BYTES)
    if file.suffix == ".parquet":
        return pq.read_table(file, columns=columns)
    with pa.memory_map(str(file)) as source:
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
    return table.select(columns)


def folder_tables(folder: Path) -> dict[str, Path]:
    """Return the files of an export by table name."""
    try:
        files = sorted(p for p in folder.iterdir() if p.suffix in _ENDINGS and p.is_file())
    except OSError as error:
        raise BadInput.in_file(folder, f"cannot be read: {error.strerror or error}") from error
    return {p.stem: p for p in files}


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Open an export.

    Raises
    ------
    BadInput
        If it is broken: also for faults inside the block.
    """
    if path.is_dir():
        files = folder_tables(path)
        columns = {}
        for name, file in files.items():
            try:
                columns[name] = frozenset(_file_schema(file))
            except FAULTS as error:
                raise BadInput.in_file(file, "is a broken table of the export", "export again") from error
        yield FolderStore(files, columns)
        return
    tables = list_tables(path)
    with open_sqlite(path) as db, Readers() as readers:
        yield SqliteStore(path, db, tables, readers)


def _file_schema(file: Path) -> list[str]:
    if file.suffix == ".parquet":
        return list(parquet_columns(file))
    return _file_columns(file).columns
