"""Tables that users write, as CSV or Parquet, read under their own names and in bounds.

polars takes brackets, stars and question marks in a path for a pattern, under which ``ops[1].csv`` is the
file ``ops1.csv``; decompresses to any size; and waits forever for a pipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.paths import regular_file, text_name
from tracetool.tables.library_output import muted_panics
from tracetool.tables.memory import check_memory, check_parquet
from tracetool.tables.unpacked import content_bytes, decode, unpacked_bytes

#: Memory that reading a table of text takes for each of its bytes. Measured.
_TEXT_RATIO: Final = 8.0
#: How files of Zstandard and zlib begin, which polars would unpack. Source: RFC 8878 and RFC 1950.
_PACKED: Final = (b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
#: What a library raises at a file that is damaged.
FAULTS: Final = (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
#: What would be read in place of a table that cannot be.
_FIX: Final = "save it as CSV in UTF-8, or as Parquet"


def parquet_columns(path: Path, *, whole: bool = False) -> pl.Schema:
    """Return the columns that a Parquet file declares, under exactly its own name.

    ``whole`` says that a checksum of it was met: nothing in it makes a library panic.
    """
    with nullcontext() if whole else muted_panics():
        return pl.scan_parquet(text_name(path), glob=False).collect_schema()


def read_parquet(path: Path, columns: Sequence[str] | None = None, *, whole: bool = False) -> pl.DataFrame:
    """Return a Parquet file whose columns fit into memory (``check_parquet``), ``whole`` as above."""
    with nullcontext() if whole else muted_panics():
        check_parquet(text_name(path), columns)
        return pl.read_parquet(path, columns=None if columns is None else list(columns), glob=False)


@contextmanager
def reading_table(file: Path, *, whole: bool = False) -> Iterator[None]:
    """Let what is wrong with a table of a run end in one line, a library's panic too; ``whole`` as above.

    Raises
    ------
    BadInput
        If the table cannot be read.
    """
    try:
        with nullcontext() if whole else muted_panics():
            yield
    except FAULTS as error:
        fault = f"broken table: {fault_of(error)}"
        raise BadInput.in_file(file, fault, "ingest the trace again") from error


def text_bytes(path: Path) -> bytes:
    """Return a table of text as UTF-8: unpacked if it is gzip, from UTF-16 where its first bytes say so.

    Raises
    ------
    BadInput
        If it is not a file, does not fit into memory, decompresses beyond the accepted ratio, or its
        compression is not supported.
    """
    if not regular_file(path).stat().st_size:
        raise BadInput.in_file(path, "is empty (0 bytes)", "write it again: a header, and a row each")
    check_memory(path, _TEXT_RATIO * content_bytes(path), "its rows")
    raw = unpacked_bytes(path)
    if raw.startswith(_PACKED):
        raise BadInput.in_file(path, "is packed other than by gzip", "unpack it")
    return decode(raw).encode() if raw.startswith(_UTF16) else raw


def stored_table(
    path: Path, read_text: Callable[[bytes], pl.DataFrame], kind: str = "a table"
) -> pl.DataFrame:
    """Return a table of Parquet by its ending, else of text.

    Parameters
    ----------
    path : Path
        The file.
    read_text : callable
        What makes a table of the bytes of a file of text.
    kind : str
        What the file should have been, for the message.

    Raises
    ------
    BadInput
        As :func:`text_bytes`, and where it cannot be read as such.
    """
    regular_file(path)
    try:
        frame = read_parquet(path) if path.suffix.lower() == ".parquet" else read_text(text_bytes(path))
        return frame.with_columns(_plain(frame[c]) for c in frame.columns)
    except FAULTS as error:
        raise BadInput.in_file(path, f"cannot be read as {kind}: {fault_of(error)}", _FIX) from error


def plain_texts(column: pl.Series) -> pl.Series:
    """Return texts that are stored as categories as texts: no number can be made of a category."""
    return column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column


def _plain(column: pl.Series) -> pl.Series:
    """Return a column as numbers, truths or texts, which is what a table of text holds.

    Dates, durations, bytes and lists become texts, which are no numbers: cast, a date is a number of days,
    and a moment one of whatever unit its file has.
    """
    if column.dtype in (pl.Decimal, pl.Int128):
        return column.cast(pl.Float64)
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Duration, pl.Object):
        texts = [None if value is None else str(value) for value in column.to_list()]
        return pl.Series(column.name, texts, dtype=pl.String)
    return column.cast(pl.String) if column.dtype.is_temporal() else plain_texts(column)


def fault_of(error: BaseException) -> str:
    """Return what is wrong with a file, in one line, from what a library raised at it."""
    if isinstance(error, pl.exceptions.PanicException):
        return "it is damaged"
    return (str(error).splitlines() or ["unreadable"])[0][:160]
