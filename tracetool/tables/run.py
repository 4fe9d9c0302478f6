"""The run directory: Parquet tables plus ``run.json``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tracetool import __version__
from tracetool.tables.schema import load_schema
from tracetool.tables.write import aside_folder, write_parquet
from tracetool.vocabulary.errors import BadInput

RUN_FILE = "run.json"
RUN_SCHEMA = "run/1"


def tool_version() -> str:
    """Return the version of the tool."""
    return __version__


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in chunks."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@dataclass(frozen=True)
class Run:
    """A run directory opened for reading. Tables load at first use."""

    path: Path
    info: Mapping[str, Any] = field(repr=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """Open a run directory.

        Raises
        ------
        BadInput
            If it is not one, is from a newer major version, or its ``run.json`` is broken.
        """
        folder = Path(path)
        if not folder.exists():
            raise BadInput.in_file(folder, "no such run", "make one with: tracetool ingest TRACE -o RUN")
        file = folder / RUN_FILE
        if not file.is_file():
            raise BadInput.in_file(
                folder, f"not a run (no {RUN_FILE})", "make one with: tracetool ingest TRACE -o RUN"
            )
        try:
            info = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput.in_file(file, f"cannot be read: {error}", "ingest the trace again") from error
        if not isinstance(info, dict) or not str(info.get("schema", "")).startswith("run/"):
            raise BadInput.in_file(file, "has no run schema", "ingest the trace again")
        if info["schema"] != RUN_SCHEMA:
            raise BadInput.in_file(
                file, f"is {info['schema']}, this tool reads {RUN_SCHEMA}", "update the tool or ingest again"
            )
        return cls(folder, info)

    def table(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return a table, or some of its columns; empty with the right ones where the run has none."""
        schema = load_schema(name)
        if columns is not None:
            schema = replace(schema, columns=tuple(c for c in schema.columns if c.name in columns))
        file = self.path / f"{name}.parquet"
        if not file.is_file():
            return schema.empty()
        try:
            wanted = None if columns is None else [c for c in pl.read_parquet_schema(file) if c in columns]
            return schema.conform(pl.read_parquet(file, columns=wanted))
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            fault = str(error).splitlines()[0] if str(error) else "unreadable"
            raise BadInput.in_file(file, f"broken table: {fault}", "ingest the trace again") from error

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
        """Return the readings, sorted by device and time."""
        return self.table("telemetry")

    @cached_property
    def devices(self) -> pl.DataFrame:
        """Return the GPUs."""
        return self.table("devices")


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
    with aside_folder(path, RUN_FILE) as folder:
        schemas = {name: load_schema(name) for name in tables}

        def write(name: str) -> None:
            whole = schemas[name].conform_lazily(tables[name])
            write_parquet(whole, folder / f"{name}.parquet", schemas[name])

        with ThreadPoolExecutor(2) as pool:  # small tables beside the big one
            list(pool.map(write, sorted(tables, key=lambda n: -tables[n].height)))
        tags = {name: schema.tag for name, schema in schemas.items()}
        full = {"schema": RUN_SCHEMA, "tool_version": tool_version(), "tables": tags, **info}
        (folder / RUN_FILE).write_text(json.dumps(full, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return Path(path)
