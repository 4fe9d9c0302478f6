"""Databases as their readers need them: unpacked on disk, all their rows in the one file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.sources.format import ReadOptions
from tracetool.sources.io.sqlite_file import SQLITE_MAGIC, broken, pending
from tracetool.sources.io.text import GZIP_MAGIC, head_bytes, unpacked_chunks


def readable(path: Path, options: ReadOptions) -> Path:
    """Return where the content lies as its reader needs it: unpacked or put together in the scratch folder.

    Raises
    ------
    BadInput
        If it is cut short or broken, grows beyond the ratio, or the scratch folder is full.
    """
    try:
        if options.scratch is None or not path.is_file():
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
    """Return a copy of a database with what lies beside it worked in, or taken back, by SQLite itself.

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
