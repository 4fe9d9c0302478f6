"""Write aside, then rename: nothing half-written is ever left."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.paths import text_name
from tracetool.tables.run_folder import clean_up
from tracetool.tables.schema import TableSchema
from tracetool.tables.scratch import note_in_place, scratch_prefix, sync_file

#: More than a disk without space has left in the last block of a file.
_PROBE_BYTES: Final = 1 << 16


def write_parquet(
    frame: pl.DataFrame | pl.LazyFrame,
    path: Path,
    schema: TableSchema | None = None,
    *,
    statistics: bool = True,
) -> None:
    """Write one Parquet file, its schema's tag in the key-value metadata (``tracetool.schema``).

    Parameters
    ----------
    statistics : bool, default True
        Whether to state the ends of each column of each row group, which takes a fifth of the time: of use
        to who looks for few rows of many files.

    Raises
    ------
    OSError
        If it cannot be written whole.
    """
    metadata = {"tracetool.schema": schema.tag} if schema else None
    try:
        frame.lazy().sink_parquet(
            path,
            compression="zstd",
            compression_level=1,
            row_group_size=131_072,
            metadata=metadata,
            statistics=statistics,
        )
    except pl.exceptions.PolarsError as error:  # how a full disk shows: the writer hides the cause
        _write_more(path)
        raise OSError(f"{str(error).splitlines()[0][:120]} (is the disk full?)") from error


def _write_more(path: Path) -> None:
    """Write more of a file that could not be written whole, so that the system says why it takes no more."""
    with path.open("ab") as file:
        file.write(bytes(_PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def aside_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it there on success, remove it on any failure.

    What killed processes left in the same folder is removed first.

    Raises
    ------
    BadInput
        If the folder does not exist or cannot be written.
    """
    target = text_name(path, "choose another name")
    clean_up(target.parent)
    try:
        handle, name = tempfile.mkstemp(
            prefix=scratch_prefix(target), suffix=target.suffix, dir=target.parent
        )
    except OSError as error:
        raise BadInput.unwritable(target, error) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        sync_file(temporary)
        temporary.replace(target)
        note_in_place(target)
    except OSError as error:
        raise BadInput.unwritable(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)
