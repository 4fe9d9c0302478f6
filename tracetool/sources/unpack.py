"""Packed databases: a database has to lie unpacked on disk to be read."""

from __future__ import annotations

from pathlib import Path

from tracetool.sources.format import ReadOptions
from tracetool.sources.sqlite_file import SQLITE_MAGIC
from tracetool.sources.text import GZIP_MAGIC, head_bytes, unpacked_chunks
from tracetool.vocabulary.errors import BadInput


def readable(path: Path, options: ReadOptions) -> Path:
    """Return where the content lies as its reader needs it: unpacked into the scratch folder if it must be.

    Raises
    ------
    BadInput
        If it is cut short, grows beyond the ratio, or the scratch folder is full.
    """
    try:
        if options.scratch is None or not path.is_file():
            return path
        with path.open("rb") as f:
            if f.read(2) != GZIP_MAGIC:
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
