"""Logs of tools that write no time of their own: stamps put in front of lines, or on lines between tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracetool.sources.format import Clock
from tracetool.sources.telemetry.localtime import is_absolute, parse_stamps

_STAMP = (
    r"\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?"
    r"|\d{8} +\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?|\d{10,19}(?:\.\d{1,9})?"
)
ALONE = re.compile(rf"^\s*\[?({_STAMP})\]?[:,]?\s*$")
BEFORE = re.compile(rf"^\s*\[?({_STAMP})\]?[:,]?\s+(?=\S)")


@dataclass(frozen=True)
class Line:
    """A line, its number, and the stamp that holds for it."""

    number: int
    stamp: str | None
    text: str  # without its stamp
    raw: str


def stamped_lines(text: str) -> list[Line]:
    """Return the lines that are not blank, each with the stamp before it, or the last one alone on a line."""
    lines = []
    last: str | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip():
            continue
        if found := ALONE.match(raw):
            last = found[1]
            continue
        if found := BEFORE.match(raw):
            lines.append(Line(number, found[1], raw[found.end() :], raw))
        else:
            lines.append(Line(number, last, raw, raw))
    return lines


def clock_of(stamps: Sequence[str | None], tool: str) -> Clock:
    """Return the clock of stamps: none at all, UTC where they carry a zone or are epochs, else local."""
    series = pl.Series(list(stamps), dtype=pl.String)
    if series.null_count() == len(series):
        return Clock("none", basis=f"{tool} writes no times and nobody stamped its lines")
    if is_absolute(series):
        return Clock("utc", 0, 1e7, basis="stamps beside the readings: epochs, or with their zone")
    return Clock("local", error_ns=1e7, basis="stamps beside the readings, in local time")


def stamp_times(stamps: Sequence[str | None]) -> pl.Series:
    """Return int64 ns, null where there is no stamp."""
    return parse_stamps(pl.Series(list(stamps), dtype=pl.String)).alias("time_ns")
