"""The run directory: Parquet tables plus ``run.json``."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.one_process import stay_in_process
from tracetool.core.paths import text_name
from tracetool.core.version import __version__
from tracetool.tables.run_folder import RUN_FILE, replaced_run, wait_for_run
from tracetool.tables.schema import load_schema
from tracetool.tables.scopes import gpu_readings
from tracetool.tables.table_file import parquet_columns, read_parquet, reading_table
from tracetool.tables.table_list import (
    KEYS,
    RowNumbers,
    Stamp,
    broken_reference,
    check_tables,
    file_sha256,
    impossible_figure,
    listed_table,
    stamp_of,
)
from tracetool.tables.write import write_parquet

__all__ = ["RUN_FILE", "RUN_SCHEMA", "Run", "file_sha256", "tool_version", "write_run"]

RUN_SCHEMA = "run/2"
#: Of runs made before ``run.json`` listed the tables: they are read as they are, unchecked.
UNLISTED_SCHEMA = "run/1"


def tool_version() -> str:
    """Return the version of the tool."""
    return __version__


#: Parts of ``run.json`` that commands look into, and what they are; of a list, what it holds.
_PARTS: Mapping[str, tuple[type, type | None]] = {
    "tables": (dict, None), "clock": (dict, None), "sources": (list, dict), "warnings": (list, str),
}  # fmt: skip


def _as_text(value: Any) -> Any:
    """Return a JSON value whose strings can be written: halves of surrogates, as of paths, are replaced."""
    if isinstance(value, dict):
        return {_as_text(k): _as_text(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_as_text(v) for v in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _odd_part(info: Mapping[str, Any]) -> str:
    """Return which part of a ``run.json`` is not what it should be, nothing where all are."""
    for name, (kind, of) in _PARTS.items():
        part = items = info.get(name, kind())
        if not isinstance(part, kind) or (of and not all(isinstance(p, of) for p in items)):
            return f"{name} is not {'a list' if kind is list else 'an object'} as this tool writes it"
    return ""


@dataclass(frozen=True)
class Run:
    """A run directory opened for reading. Tables load at first use."""

    path: Path
    info: Mapping[str, Any] = field(repr=False)
    #: Of every table as it was when checked; None where nothing states which tables there should be.
    stamps: Mapping[str, Stamp] | None = field(default=None, repr=False)
    #: What several parts of one command ask of the run, worked out once.
    memo: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickles hold: the folder, not the tables, which load again where they are used."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "memo"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, memo={})

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """Open a run directory and check its tables against the list in its ``run.json``.

        Raises
        ------
        BadInput
            If it is not one, is from a newer major version, its ``run.json`` is broken, or a table is
            missing, cut short, changed or of another run.
        """
        stay_in_process()
        folder = text_name(path)
        wait_for_run(folder)
        info = _read_info(folder)
        if info["schema"] == UNLISTED_SCHEMA:
            return cls(folder, info)
        try:
            return cls(folder, info, check_tables(folder, info.get("tables")))
        except BadInput:
            newer = _read_info(folder)
            if newer == info:
                raise
            return cls(folder, newer, check_tables(folder, newer.get("tables")))  # replaced meanwhile

    def table(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return a table, or some of its columns; empty with the right ones where the run has none."""
        stay_in_process()
        schema = load_schema(name)
        if columns is not None:
            schema = replace(schema, columns=tuple(c for c in schema.columns if c.name in columns))
        file = self.path / f"{name}.parquet"
        if name not in self.stamps if self.stamps is not None else not file.is_file():
            return schema.empty()
        whole = self.stamps is not None
        with reading_table(file, whole=whole):
            if self.stamps is not None and stamp_of(file) != self.stamps[name]:
                raise BadInput.in_file(file, "was replaced while it was read", "run the command again")
            stored = parquet_columns(file, whole=whole)
            names = {c.name for c in schema.columns} | set(schema.renamed(stored))
            readable = [name for name in stored if name in names] or list(stored)[:1]
            frame = schema.conform(read_parquet(file, readable, whole=whole))
        if fault := impossible_figure(name, frame) or broken_reference(name, frame, self._row_numbers):
            raise BadInput.in_file(file, f"broken table: {fault}", "ingest the trace again")
        return frame

    def _row_numbers(self, name: str) -> RowNumbers | None:
        """Return the numbers of a table's rows, None where the run was written without it."""
        if name not in self.info.get("tables", ()):
            return None
        key = ("row numbers", name)
        if key not in self.memo:
            self.memo[key] = RowNumbers.of(self.table(name, [KEYS[name]])[KEYS[name]])
        return cast("RowNumbers", self.memo[key])

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Return all activities, sorted by device and start."""
        return self.table("kernels")

    @cached_property
    def signatures(self) -> pl.DataFrame:
        """Return the distinct pieces of work."""
        return self.table("signatures")

    @cached_property
    def telemetry(self) -> pl.DataFrame:
        """Return the readings of GPUs, sorted by device and time; the table has other scopes too."""
        return gpu_readings(self.table("telemetry"))

    @cached_property
    def devices(self) -> pl.DataFrame:
        """Return the GPUs."""
        return self.table("devices")


def _read_info(folder: Path) -> dict[str, Any]:
    """Return the content of ``run.json``."""
    if not folder.exists():
        raise BadInput.in_file(folder, "no such run", "make one with: tracetool ingest TRACE -o RUN")
    file = folder / RUN_FILE
    if not file.is_file():
        raise BadInput.in_file(
            folder, f"not a run (no {RUN_FILE})", "make one with: tracetool ingest TRACE -o RUN"
        )
    try:
        info = _as_text(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput.in_file(file, f"cannot be read: {error}", "ingest the trace again") from error
    if not isinstance(info, dict) or not str(info.get("schema", "")).startswith("run/"):
        raise BadInput.in_file(file, "has no run schema", "ingest the trace again")
    if info["schema"] not in (RUN_SCHEMA, UNLISTED_SCHEMA):
        raise BadInput.in_file(
            file, f"is {info['schema']}, this tool reads {RUN_SCHEMA}", "update the tool or ingest again"
        )
    if fault := _odd_part(info):
        raise BadInput.in_file(file, fault, "ingest the trace again")
    return info


@contextmanager
def run_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a scratch folder that becomes the run ``path`` when all is in it, and nothing on failure."""
    with replaced_run(path) as folder:
        yield folder


def finish_run(
    folder: Path,
    tables: Mapping[str, pl.DataFrame],
    rows: Mapping[str, int],
    written: Path,
    info: Mapping[str, Any],
) -> None:
    """Write small tables and ``run.json`` beside tables that were written row group by row group.

    Parameters
    ----------
    folder : Path
        From :func:`run_folder`.
    tables : mapping of str to DataFrame
        Tables still to write.
    rows : mapping of str to int
        Rows of each table that stands in ``written`` as Parquet; the files are moved.
    info : mapping
        As for :func:`write_run`.
    """
    listed = {}
    for name, count in rows.items():
        file = folder / f"{name}.parquet"
        shutil.move(written / f"{name}.parquet", file)
        listed[name] = listed_table(file, load_schema(name).tag, count)
    for name, frame in tables.items():
        file, schema = folder / f"{name}.parquet", load_schema(name)
        write_parquet(schema.conform_lazily(frame), file, schema)
        listed[name] = listed_table(file, schema.tag, frame.height)
    full = {"schema": RUN_SCHEMA, "tool_version": tool_version(), "tables": listed, **info}
    (folder / RUN_FILE).write_text(json.dumps(full, indent=1, ensure_ascii=False) + "\n", "utf-8")


def write_run(
    path: str | os.PathLike[str], tables: Mapping[str, pl.DataFrame], info: Mapping[str, Any]
) -> Path:
    """Write a run directory, whole or not at all, and return its path.

    Parameters
    ----------
    path : path
        The run directory; one that is already a run is replaced.
    tables : mapping of str to DataFrame
        Tables by name, conformed to their schemas here.
    info : mapping
        Everything else of ``run.json``; schema and tool version are added.
    """
    with replaced_run(path) as folder:
        schemas = {name: load_schema(name) for name in tables}

        def write(name: str) -> tuple[str, dict[str, Any]]:
            file = folder / f"{name}.parquet"
            table = schemas[name].conform_lazily(tables[name])
            write_parquet(table, file, schemas[name], statistics=False)  # its tables are read whole
            return name, listed_table(file, schemas[name].tag, tables[name].height)

        with ThreadPoolExecutor(2) as pool:  # small tables beside the big one
            listed = dict(pool.map(write, sorted(tables, key=lambda n: -tables[n].height)))
        in_order = {name: listed[name] for name in tables}
        full = {"schema": RUN_SCHEMA, "tool_version": tool_version(), "tables": in_order, **info}
        (folder / RUN_FILE).write_text(json.dumps(full, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return Path(path)
