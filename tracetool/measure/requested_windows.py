"""Windows of time whose energy is requested: read, and compared with the log that is to measure them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.tables.activity_table import read_windows

#: Units a time may be written in where microseconds are expected, and what brings it to those. By definition.
_UNITS: Final = {"milliseconds": 1e3, "seconds": 1e6}
_US: Final = 1e-3  # of a nanosecond


def unit_that_fits(start: float, end: float, first: float, last: float) -> str | None:
    """Return the unit that times would be in to overlap a log, were they not in microseconds; else None.

    Parameters
    ----------
    start, end : float
        The times, read as microseconds since 1970.
    first, last : float
        The log's, in the same unit.

    >>> unit_that_fits(1.7e12, 1.7e12 + 500.0, 1.7e15 - 1e6, 1.7e15 + 1e6)
    'milliseconds'
    >>> unit_that_fits(1.6e15, 1.6e15 + 500.0, 1.7e15 - 1e6, 1.7e15 + 1e6)
    """
    fits = (unit for unit, scale in _UNITS.items() if start * scale <= last and end * scale >= first)
    return next(fits, None)


def read_requested_windows(path: str | os.PathLike[str], telemetry: pl.DataFrame) -> pl.DataFrame:
    """Return the windows of a table: ``start_us``, ``end_us``.

    Parameters
    ----------
    path : path
        The table, as :func:`tracetool.tables.activity_table.read_windows` reads it.
    telemetry : DataFrame
        Readings of the log.

    Raises
    ------
    BadInput
        If it cannot be used, or the log covers no part of any window.
    """
    windows = read_windows(path)
    times = telemetry.filter(pl.col("power_w").is_not_null())["time_ns"].drop_nulls()
    if not times.len():
        return windows
    first, last = (float(t) * _US for t in (times.to_numpy().min(), times.to_numpy().max()))
    start, end = windows["start_us"].to_numpy(), windows["end_us"].to_numpy()
    if ((start <= last) & (end >= first)).any():
        return windows
    begin = float(start.min())
    away_s = abs(first - begin) * 1e-6
    unit = unit_that_fits(begin, float(end.max()), first, last)
    raise BadInput.in_file(
        Path(path),
        f"no window overlaps the power log (which begins {away_s:,.0f} s"
        f" {'after' if first > begin else 'before'} the first)",
        f"are its times in {unit}? give UTC microseconds" if unit else "give windows of this run, in UTC",
    )


def windows_note(windows: pl.DataFrame | None) -> tuple[str, ...]:
    """Return the sentence on measured windows that the log does not cover; none where it covers all."""
    if windows is None or not (without := windows["energy_j"].null_count()):
        return ()
    verb = "reaches" if without == 1 else "reach"
    shown = counted(windows.height, "window")
    return (f"{without:,} of {shown} {verb} beyond the power log: without energy",)
