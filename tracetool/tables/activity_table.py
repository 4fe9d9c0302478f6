"""Activity and window tables as users write them: read and checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.paths import regular_file
from tracetool.tables.benchmark_windows import START, holds_windows, read_benchmark_windows, small_json
from tracetool.tables.table_file import stored_table

#: Times from 1970 to 2255, all of which a float64 holds to the microsecond. [us] By definition.
_LATEST_US = 2**53
#: No activity lasts longer: 30 days, as for kernels of traces. [us] A prior.
_LONGEST_US = 30 * 86_400 * 1_000_000
#: Bytes of a first line that are looked at for names of columns.
_HEADER_BYTES = 65_536


def holds_activity(path: Path) -> bool:
    """Return whether a file looks like a table of activities: it names the time they start."""
    if holds_windows(path):
        return True
    if path.suffix.lower() == ".parquet":
        return True
    if not path.is_file() or not path.stat().st_size:  # nothing, or a stream of the system's
        return False
    with path.open("rb") as file:
        return b"start_us" in file.readline(_HEADER_BYTES)


def read_activity(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Return an activity table: ``name``, ``start_us``, ``end_us`` (UTC epoch), sorted by start.

    Windows of benchmarks in a power package of srt-slurm are one too, by the names of their files.

    Raises
    ------
    BadInput
        If a column is missing, a row's times are none or end before they start, or it holds no rows.
    """
    if holds_windows(Path(path)):
        return read_benchmark_windows(Path(path))
    frame = _spans(Path(path), ("name", "start_us", "end_us"), longest_us=_LONGEST_US)
    name = pl.col("name").cast(pl.String).fill_null("(unnamed)")
    return frame.select(name, "start_us", "end_us").sort("start_us")


def read_windows(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Return a window table: ``start_us``, ``end_us`` (UTC epoch), in the order written.

    A power package of srt-slurm, its folder of windows or one of them is one too.

    Raises
    ------
    BadInput
        As for :func:`read_activity`.
    """
    if holds_windows(Path(path)):
        return read_benchmark_windows(Path(path)).select("start_us", "end_us")
    return _spans(Path(path), ("start_us", "end_us"))


def read_meter(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Return a power meter's table: ``time_us`` (UTC epoch), ``power_w``, as floats, sorted by time.

    Raises
    ------
    BadInput
        If it cannot be read, is missing a column, or holds fewer than ten usable rows.
    """
    file = Path(path)
    frame = _table(file, ("time_us", "power_w"))
    plain = [_number(c) for c in ("time_us", "power_w")]
    frame = frame.select(plain).filter(pl.all_horizontal(pl.all().is_finite()))
    if frame.height < 10:
        raise BadInput.in_file(file, "holds no power over time", "give time_us (UTC microseconds), power_w")
    return frame.sort("time_us")


def _table(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Read a table and check that it has rows and columns."""
    regular_file(path)
    if path.suffix.lower() == ".json" and small_json(path):
        fault = f"is JSON, and no window of a benchmark: it states no {START}"
        raise BadInput.in_file(path, fault, f"give a table of {', '.join(columns)}, or a log as --power")
    frame = stored_table(path, lambda raw: pl.read_csv(raw, infer_schema_length=0))
    bare = {c.strip(): c for c in reversed(frame.columns)}  # of two that differ in blanks alone, the first
    frame = frame.rename({c: name for name, c in bare.items() if name not in frame.columns})
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise BadInput.in_file(
            path, f"missing column {missing[0]}", f"give {', '.join(columns)} (times in UTC microseconds)"
        )
    if not frame.height:
        raise BadInput.in_file(path, "holds no rows", "give a row for each below its header")
    return frame


def _number(column: str) -> pl.Expr:
    """A column as numbers; what is none becomes null. Loggers write a space after the comma."""
    return pl.col(column).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False).alias(column)


def _spans(path: Path, columns: Sequence[str], longest_us: int = _LATEST_US) -> pl.DataFrame:
    frame = _table(path, columns)
    times = [_number(c) for c in ("start_us", "end_us")]
    frame = frame.with_columns(times).with_row_index("_row", offset=2)
    start, end = pl.col("start_us"), pl.col("end_us")
    usable = start.is_finite() & end.is_finite() & (start >= 0) & (end >= start) & (end < _LATEST_US)
    bad = frame.filter(~(usable & (end - start <= longest_us)).fill_null(value=False))
    if bad.height:
        row = bad.row(0, named=True)
        raise BadInput.in_file(
            path, f"line {row['_row']}: start_us and end_us are no times in order", "give UTC microseconds"
        )
    return frame.select(
        *[c for c in columns if c == "name"], start.round().cast(pl.Int64), end.round().cast(pl.Int64)
    )
