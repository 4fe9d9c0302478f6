"""Storage of baselines: one Parquet file per run, in a folder or a bucket."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tracetool.compare.baseline_checks import check_stored
from tracetool.compare.run_options import Basis
from tracetool.compare.run_side import LoadedRun
from tracetool.compare.sides import RunClasses
from tracetool.compare.steps import Steps
from tracetool.core.errors import BadInput
from tracetool.core.paths import text_name
from tracetool.tables.library_output import muted_panics
from tracetool.tables.run import tool_version
from tracetool.tables.table_file import FAULTS, fault_of
from tracetool.tables.write import aside_file

SCHEMA: Final = "baseline/1"
_KEY: Final = b"tracetool.baseline"
#: Year 3000, as an age since 1970. [s]
_LATEST_S: Final = 32_503_680_000
_READ: Final = "allow reading it, or name another folder"
_MALFORMED: Final = (KeyError, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Entry:
    """One stored run: its path and its header, without its classes."""

    path: str
    gpu: str
    branch: str
    commit: str
    time_s: float
    label: str
    basis: str
    energy_j: float
    span_s: float
    reason: str = ""


class Store:
    """A folder or bucket of baselines: ``gpu=NAME/branch=NAME/commit=ID/HASH.parquet``.

    Files are named by their content and never changed, so that two jobs never collide.
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        text = os.fspath(where)
        try:
            if "://" in text or text.startswith("mock:"):
                self._files, self._root = pafs.FileSystem.from_uri(text)
            else:
                self._files, self._root = pafs.LocalFileSystem(), os.path.abspath(text_name(text))  # noqa: PTH100
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise BadInput.in_file(text, f"no such store: {_first_line(error)}") from error
        self.where = text

    def require(self) -> None:
        """Raise :class:`BadInput` if there is no such folder."""
        if self._kind() == pafs.FileType.NotFound:
            raise BadInput.in_file(
                self.where, "no such folder of baselines", "make it: tracetool baseline add DIR RUN"
            )

    def _kind(self) -> pafs.FileType:
        """Return what stands at the store's place; BadInput where that is a file."""
        try:
            kind = self._files.get_file_info(self._root).type
        except OSError as error:
            raise BadInput.in_file(self.where, f"cannot be read: {_first_line(error)}", _READ) from error
        if kind == pafs.FileType.File:
            raise BadInput.in_file(self.where, "is a file, not a folder of baselines", "name a folder")
        return kind

    def entries(self, gpu: str | None = None, branch: str | None = None) -> list[Entry]:
        """Return the stored runs, oldest first.

        Raises
        ------
        BadInput
            If the store cannot be read, or a file in it is no baseline.
        """
        folder = self._root
        for key, value in (("gpu", gpu), ("branch", branch)):
            if value is None:
                break
            folder = f"{folder}/{key}={_path_segment(value)}"
        selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
        try:
            files = self._files.get_file_info(selector)
        except OSError as error:
            raise BadInput.in_file(self.where, f"cannot be read: {_first_line(error)}", _READ) from error
        paths = [f.path for f in files if f.path.endswith(".parquet") and not f.base_name.startswith(".")]
        stored = [self._entry(p) for p in sorted(paths)]
        selected = [
            e for e in stored if (gpu is None or e.gpu == gpu) and (branch is None or e.branch == branch)
        ]
        return sorted(selected, key=lambda e: (e.time_s, e.path))

    def _entry(self, path: str) -> Entry:
        header = self._header(path)
        try:
            if not 0 <= header["time_s"] < _LATEST_S:
                raise ValueError("no time")
            return Entry(
                path=path,
                gpu=_text(header["gpu"]),
                branch=_text(header["branch"]),
                commit=_text(header["commit"]),
                time_s=float(header["time_s"]),
                label=_text(header["label"]),
                basis=_text(header["basis"]),
                energy_j=float(header["energy_j"]),
                span_s=float(header["span_s"]),
                reason=_text(header.get("reason", "")),
            )
        except _MALFORMED as error:
            raise BadInput.in_file(
                path, "is not a baseline of this tool", "tracetool baseline prune"
            ) from error

    def _header(self, path: str) -> Mapping[str, Any]:
        try:
            with self._files.open_input_file(path) as f:
                raw = (pq.read_metadata(f).metadata or {}).get(_KEY)
            header = json.loads(raw) if raw else {}
            json.dumps(header, ensure_ascii=False).encode()  # half a surrogate is text that no table holds
        except (OSError, pa.ArrowException, ValueError, RecursionError) as error:
            raise BadInput.in_file(
                path, f"broken baseline: {_first_line(error)}", "remove the file"
            ) from error
        if not isinstance(header, dict) or header.get("schema") != SCHEMA:
            raise BadInput.in_file(path, f"is no {SCHEMA} file", "remove it, or update the tool")
        return header

    def read(self, entry: Entry) -> LoadedRun:
        """Return a stored run as one side's run."""
        header = self._header(entry.path)
        try:
            with self._files.open_input_file(entry.path) as f, muted_panics():
                frame = pl.read_parquet(io.BytesIO(f.read()))
            check_stored(frame, header)
            classes = frame.drop("places", "step", "step_time_s", strict=False)
            rows = frame.select(pl.int_range(pl.len()).alias("row"), "places").explode("places").drop_nulls()
            ordered = rows.sort("places").select(
                pl.lit(0, dtype=pl.Int64).alias("device"), pl.col("row").cast(pl.Int64),
                pl.lit(None, dtype=pl.Int64).alias("call"),
            )  # fmt: skip
            classes_of_run = RunClasses(
                label=f"{entry.label}@{entry.commit[:9]}",
                classes=classes,
                sequence=ordered,
                gap_s=float(header["gap_s"]),
                gap_j=float(header["gap_j"]),
                span_s=entry.span_s,
                steps=int(header["steps"]),
                keys={str(k): str(v) for k, v in header["keys"].items()},
                clock_mhz=float(header["clock_mhz"]),
                steps_taken=_steps(frame, header),
            )
        except (AttributeError, *_MALFORMED, *FAULTS) as error:
            raise BadInput.in_file(entry.path, f"broken baseline: {fault_of(error)}", "remove it") from error
        return LoadedRun(classes_of_run, _basis(entry.basis), None, None, [], clock_recorded=False)

    def find(self, run: LoadedRun, *, branch: str, commit: str) -> Entry | None:
        """Return the stored entry of the very same run for a commit, whatever its folder is called."""
        one = run.classes
        same = (commit, run.basis, _energy_j(one), one.span_s)
        for entry in self.entries(one.keys.get("GPU", "unknown"), branch):
            if (entry.commit, entry.basis, entry.energy_j, entry.span_s) != same:
                continue
            if self.read(entry).classes.classes.equals(one.classes):
                return entry
        return None

    def add(
        self, run: LoadedRun, *, branch: str, commit: str, reason: str = "", when_s: float | None = None
    ) -> str:
        """Store a run and return the path of its file."""
        self._kind()
        one = run.classes
        places = (
            one.sequence.with_row_index("place")
            .group_by("row", maintain_order=True)
            .agg(pl.col("place").cast(pl.Int32).alias("places"))
        )
        frame = (
            one.classes.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
            .join(places, on="row", how="left", maintain_order="left").drop("row")
        )  # fmt: skip
        if one.steps_taken is not None:
            times = one.steps_taken.times.group_by("row", maintain_order=True).agg(
                pl.col("step").cast(pl.Int32), pl.col("time_s").alias("step_time_s")
            )
            numbered = frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"))
            frame = numbered.join(times, on="row", how="left", maintain_order="left").drop("row")
        header = {
            "schema": SCHEMA,
            "tool_version": tool_version(),
            "gpu": one.keys.get("GPU", "unknown"),
            "branch": branch,
            "commit": commit,
            "time_s": time.time() if when_s is None else when_s,
            "label": one.label,
            "basis": run.basis,
            "energy_j": _energy_j(one),
            "gap_s": one.gap_s,
            "gap_j": one.gap_j,
            "span_s": one.span_s,
            "steps": one.steps,
            "keys": dict(one.keys),
            "clock_mhz": one.clock_mhz,
            "reason": reason,
            "step_span_s": [] if one.steps_taken is None else one.steps_taken.span_s.tolist(),
        }
        table = frame.to_arrow()
        table = table.replace_schema_metadata({_KEY: json.dumps(header, ensure_ascii=False).encode()})
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        content = buffer.getvalue()
        folder = "/".join(
            [
                self._root,
                f"gpu={_path_segment(str(header['gpu']))}",
                f"branch={_path_segment(branch)}",
                f"commit={_path_segment(commit)}",
            ]
        )
        target = f"{folder}/{hashlib.sha256(content).hexdigest()[:20]}.parquet"
        try:
            self._files.create_dir(folder, recursive=True)
            if isinstance(self._files, pafs.LocalFileSystem):
                with aside_file(target) as aside:
                    aside.write_bytes(content)
            else:
                with self._files.open_output_stream(f"{target}.part") as f:
                    f.write(content)
                self._files.move(f"{target}.part", target)
        except OSError as error:
            raise BadInput.unwritable(self.where, error) from error
        return target

    def remove(self, entry: Entry) -> None:
        """Delete a stored run."""
        self._files.delete_file(entry.path)


def _steps(frame: pl.DataFrame, header: Mapping[str, Any]) -> Steps | None:
    """Return the figures of each step, where they were stored."""
    if "step" not in frame.columns:
        return None
    rows = frame.select(
        "step", pl.int_range(pl.len(), dtype=pl.Int64).alias("row"), pl.col("step_time_s").alias("time_s")
    )
    times = rows.explode("step", "time_s").drop_nulls().with_columns(pl.col("step").cast(pl.Int64))
    return Steps(times, np.asarray(header["step_span_s"], np.float64))


def _energy_j(one: RunClasses) -> float:
    """Return the energy of a run: of its classes and gaps. [J]"""
    return float(one.classes["energy_j"].sum()) + one.gap_j


def _path_segment(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text or "none", safe="") if text not in (".", "..") else quote(text).replace(".", "%2E")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unreadable"])[0][:160]


def _basis(text: str) -> Basis:
    if text == "measured":
        return "measured"
    return "predicted" if text == "predicted" else "anchored"
