"""Power and clock logs of any format as one telemetry table."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.sources.format import ReadOptions, Trace
from tracetool.sources.read import read_source
from tracetool.sources.telemetry.localtime import local_to_utc
from tracetool.sources.telemetry.readings import reject_impossible, without_times
from tracetool.tables.schema import load_schema


def read_log(path: str | os.PathLike[str]) -> Trace:
    """Return a log as its format reads it, on its own clock.

    Raises
    ------
    BadInput
        If no telemetry format claims the file, or it holds nothing.
    """
    file = Path(path)
    _, log_format = detect(file, "telemetry")
    return read_source(file, log_format, ReadOptions())


def to_utc(trace: Trace, path: Path, tz: str | None) -> Trace:
    """Put a log's times on UTC, in place.

    Raises
    ------
    BadInput
        If the log is in local time and no zone is given, or has no times.
    """
    clock = trace.clock
    if clock.domain == "none":
        raise without_times(path)
    if clock.domain == "local":
        if tz is None:
            raise BadInput.in_file(
                path, "is in local time", "give its zone with --tz, e.g. --tz +02:00 or --tz Europe/Berlin"
            )
        shifted = local_to_utc(trace.telemetry["time_ns"].to_numpy(), tz)
        trace.telemetry = trace.telemetry.with_columns(pl.Series("time_ns", shifted))
    elif clock.to_utc_ns:
        trace.telemetry = trace.telemetry.with_columns(pl.col("time_ns") + clock.to_utc_ns)
    return trace


def read_telemetry(path: str | os.PathLike[str], tz: str | None = None) -> pl.DataFrame:
    """Return a power or clock log in the telemetry schema.

    Parameters
    ----------
    path : path
        Any telemetry format of ``tracetool formats``.
    tz : str, optional
        Zone of a log in local time: an offset (``+02:00``) or a name (``Europe/Berlin``).

    Returns
    -------
    DataFrame
        ``telemetry`` schema, ``time_ns`` in UTC, sorted by device and time; ``device`` counts the
        GPUs of the log. A log with several power fields gives one row per reading and field.

    Raises
    ------
    BadInput
        If it cannot be used, or is in local time and no zone is given.
    """
    file = Path(path)
    trace = to_utc(reject_impossible(read_log(file), file), file, tz)
    frame = trace.telemetry.with_columns(source=pl.lit(file.name))
    frame = frame.sort("device", "time_ns", maintain_order=True)
    return load_schema("telemetry").conform(frame)
