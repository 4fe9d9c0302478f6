"""Readings of monitors that print a line per GPU: which are readings, and when they were taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.format import Clock, Trace
from tracetool.sources.telemetry.localtime import stamp_times


def line_table(rows: Iterable[Mapping[str, object]], values: Sequence[str]) -> pl.DataFrame:
    """Return the lines of a log as a table.

    Parameters
    ----------
    rows : iterable of mapping
        ``line`` (number), ``text``, ``stamp``, ``gpu`` (null where the line is not a reading) and the columns
        a line states, of one line each.
    values : sequence of str
        Columns of numbers, kept as texts.

    Returns
    -------
    DataFrame, shape (lines, 4 + columns)
        Null where a line does not state a column.
    """
    texts = dict.fromkeys(["text", "stamp", "gpu", *values], pl.String())
    return pl.DataFrame(list(rows), schema={"line": pl.Int64(), **texts})


def stamped_readings(
    tool: str, clock: Clock, path: Path, good: pl.DataFrame, bad: pl.DataFrame, values: list[str]
) -> tuple[Trace, pl.DataFrame]:
    """Return a trace and the readings it is made of; the trace lists the lines that are not readings.

    Parameters
    ----------
    tool : str
        The monitor.
    clock : Clock
        Clock of its stamps.
    path : Path
        The log, for messages.
    good, bad : DataFrame
        Lines that are readings and those that are not, with ``line``, ``text`` and ``stamp``.
    values : list of str
        Columns of numbers, as texts.

    Returns
    -------
    trace : Trace
        Without telemetry yet.
    readings : DataFrame
        ``good`` with numbers, and ``time_ns``, which only logs without a clock leave null.
    """
    trace = Trace(tool, clock)
    if bad.height:
        trace.rejected.append(rejected_rows(path.name, bad["line"], "not a reading", bad["text"]))
    readings = good.with_columns(
        stamp_times(good["stamp"].to_list()), *(measured(column).alias(column) for column in values)
    )
    if clock.domain == "none":
        return trace, readings
    undated = readings.filter(pl.col("time_ns").is_null())
    if undated.height:
        trace.rejected.append(rejected_rows(path.name, undated["line"], "no time stamp", undated["text"]))
    return trace, readings.drop_nulls("time_ns")
