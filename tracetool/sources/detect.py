"""Format of a file: recognized by its content, never by its name alone; databases unpacked."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.core.registry import members_inside
from tracetool.sources.format import Format, Probe, ReadOptions
from tracetool.sources.io.sqlite_file import SQLITE_MAGIC, broken, has_views, list_tables, pending
from tracetool.sources.io.text import GZIP_MAGIC, head_bytes, unpacked_chunks
from tracetool.sources.request_log import is_request_log
from tracetool.tables.run import RUN_FILE


def all_formats() -> dict[str, Format]:
    """Return every format by file name."""
    return members_inside("tracetool.sources", "formats", "FORMAT", Format)


def probe_file(path: Path) -> Probe:
    """Look at a file or folder.

    Raises
    ------
    BadInput
        If it does not exist, is empty, is not a regular file or folder, or cannot be read.
    """
    try:
        if path.is_dir():
            return Probe(path, b"")
        if not path.exists():
            raise BadInput.in_file(path, "no such file", "check the path")
        if not path.is_file():
            raise BadInput.in_file(path, "is not a regular file", "write what it gives to a file")
        size = path.stat().st_size
        if not size:
            raise BadInput.in_file(path, "is empty (0 bytes)", "record or copy it again")
        head, packed = head_bytes(path)
    except OSError as error:
        raise BadInput.in_file(path, f"cannot be read: {error.strerror or error}") from error
    if packed and not head:
        raise BadInput.in_file(path, "is corrupt gzip: nothing can be unpacked", "copy the file again")
    tables = list_tables(path) if head.startswith(SQLITE_MAGIC) and not packed else {}
    return Probe(path, head, packed, tables, size)


def detect(path: Path, holds: str | None = None) -> tuple[str, Format]:
    """Return the format of a file and its name.

    Parameters
    ----------
    path : Path
        File, or folder for exports of many files.
    holds : str, optional
        ``trace`` or ``telemetry``: only such formats are tried.

    Raises
    ------
    BadInput
        If no format claims it.
    """
    _refuse_run(path)
    probe = probe_file(path)
    scored = [
        (format_.sniff(probe), name, format_)
        for name, format_ in all_formats().items()
        if holds is None or format_.holds == holds
    ]
    score, name, format_ = max(scored, key=lambda s: s[0], default=(0.0, "", None))
    if format_ is None or score <= 0:
        if is_request_log(path):
            raise BadInput.in_file(
                path, "holds requests, no trace and no power", f"tracetool attribute {path} --power LOG"
            )
        raise BadInput.in_file(path, f"{_describe(probe)}: no known {holds or 'trace or telemetry'} format",
                               "tracetool formats lists what can be read")  # fmt: skip
    return name, format_


def _refuse_run(path: Path) -> None:
    """Raise :class:`BadInput` if a path is a run, or a file of one."""
    folder = path if path.is_dir() else path.parent
    of_run = path.is_dir() or path.name == RUN_FILE or path.suffix == ".parquet"
    if of_run and _is_run(folder):
        fault = "is already a run" if path.is_dir() else f"is a file of a run, {folder}"
        hint = (
            f"use it as it is, e.g. tracetool predict {folder}; ingest takes profilers' files and power logs"
        )
        raise BadInput.in_file(path, fault, hint)


def _is_run(folder: Path) -> bool:
    try:
        if not (folder / RUN_FILE).is_file():  # a pipe of that name waits forever
            return False
        with (folder / RUN_FILE).open("rb") as file:
            return b'"schema": "run/' in file.read(4096)
    except OSError:
        return False


def _describe(probe: Probe) -> str:
    head = probe.head.lstrip()
    if not probe.head and probe.path.is_dir():
        return "is a folder"
    if probe.head.startswith(SQLITE_MAGIC) and not probe.packed:
        listed = f"with tables {', '.join(sorted(probe.tables)[:5])}" if probe.tables else "without tables"
        views = " (and views, which are not read)" if has_views(probe.path) else ""
        return f"is an SQLite database {listed}{views}"
    if probe.head.startswith(GZIP_MAGIC):
        return "is gzip within gzip"
    if head[:1] in (b"{", b"["):
        return "is JSON"
    if b"\0" in probe.head[:1024]:
        return "is binary"
    first = (probe.lines(1) or [""])[0][:60]
    return f"is text starting {first!r}"


def readable(path: Path, options: ReadOptions) -> Path:
    """Return the path of the content as its reader needs it: unpacked or joined in the scratch folder.

    Raises
    ------
    BadInput
        If it is cut short or broken, grows beyond the ratio, or the scratch folder is full.
    """
    try:
        if options.scratch is None or not path.is_file() or not path.stat().st_size:
            return path
        with path.open("rb") as f:
            start = f.read(len(SQLITE_MAGIC))
        if start == SQLITE_MAGIC and (beside := pending(path)):
            return _settled(path, beside, options.scratch)
        if not start.startswith(GZIP_MAGIC):
            return path
        if not head_bytes(path)[0].startswith(SQLITE_MAGIC):
            return path
        target = options.scratch / path.name.removesuffix(".gz")
        with target.open("wb") as out:
            for chunk in unpacked_chunks(path, options.max_ratio):
                out.write(chunk)
    except OSError as error:
        raise BadInput.in_file(path, f"cannot be unpacked: {error.strerror or error}") from error
    return target


def _settled(path: Path, beside: Path, scratch: Path) -> Path:
    """Return a copy of a database whose side files SQLite itself has merged or rolled back.

    A reader that writes nothing must not touch either file, and one that looks at the database alone misses
    the last rows of a recording that was killed, or takes half of them for whole.
    """
    target = scratch / path.name
    shutil.copyfile(path, target)
    shutil.copyfile(beside, target.with_name(target.name + beside.name[beside.name.rindex("-") :]))
    try:
        with contextlib.closing(sqlite3.connect(target)) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.Error as error:
        raise broken(path, error) from error
    return target
