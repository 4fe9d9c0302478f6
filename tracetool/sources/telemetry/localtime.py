"""Time stamps of logs: beside or between lines, parsed, turned from local time into UTC."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl

from tracetool.core.errors import BadInput

if TYPE_CHECKING:
    from tracetool.core.arrays import Ints


from collections.abc import Sequence
from dataclasses import dataclass

from tracetool.sources.format import Clock

NS = 1_000_000_000
#: No stamp lies later: nanoseconds of 64 bits end in 2262. [ns]
LATEST_NS = (1 << 63) - 1 - NS
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)


def fixed_offset_ns(zone: str) -> int | None:
    """Return local minus UTC for ``+02:00``, ``-0400``, ``UTC``, ``Z``; None for a named zone. [ns]

    >>> fixed_offset_ns("+02:00") // 10**9, fixed_offset_ns("-0430") // 10**9, fixed_offset_ns("Z")
    (7200, -16200, 0)
    """
    text = zone.strip()
    if text.upper() in ("UTC", "Z", "GMT"):
        return 0
    if not (match := _OFFSET.fullmatch(text)):
        return None
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
    if seconds > 15 * 3600:
        raise BadInput(f"zone {zone!r} is more than 15 hours from UTC", "give e.g. --tz +02:00")
    return (-seconds if match[1] == "-" else seconds) * NS


def _named(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise BadInput(f"unknown time zone {zone!r}", "give an offset such as --tz +02:00") from error


def check_zone(zone: str) -> None:
    """Refuse what is no time zone, before any log is read by it.

    Raises
    ------
    BadInput
        If there is no such zone.

    Examples
    --------
    >>> check_zone("+02:00")
    >>> check_zone("Mars")
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: unknown time zone 'Mars'
    """
    if fixed_offset_ns(zone) is None:
        _named(zone)


def local_to_utc(local_ns: Ints, zone: str) -> Ints:
    """Return UTC for local wall-clock times.

    Parameters
    ----------
    local_ns : array of int, shape (n,)
        Wall clock as nanoseconds since 1970 as if it were UTC, in the order logged. [ns]
    zone : str
        An offset (``+02:00``) or a zone name (``Europe/Berlin``).

    Returns
    -------
    array of int, shape (n,)
        UTC. In the hour a clock change repeats, a step back in the log marks the second pass; a
        wall time the change skips is read with the offset before it. [ns]

    Raises
    ------
    BadInput
        If the zone is not known.
    """
    import numpy as np  # only logs in local time need it

    fixed = fixed_offset_ns(zone)
    if fixed is not None:
        return local_ns - fixed
    region = _named(zone)
    if not len(local_ns):
        return local_ns
    # The offset is constant within a quarter of an hour of wall clock: ask the zone once for each.
    quarter = 900 * NS
    cells, which = np.unique(local_ns // quarter, return_inverse=True)
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
    offsets = np.empty((2, len(cells)), dtype=np.int64)
    for i, cell in enumerate(cells.tolist()):
        wall = epoch + timedelta(seconds=cell * 900)
        for fold in (0, 1):
            shift = wall.replace(tzinfo=region, fold=fold).utcoffset() or timedelta(0)
            offsets[fold, i] = int(shift.total_seconds()) * NS
    first, second = offsets[0][which], offsets[1][which]
    repeated = first > second  # only in the hour passed twice
    if not repeated.any():
        return np.asarray(local_ns - first, dtype=np.int64)
    step_back = np.diff(local_ns, prepend=local_ns[:1]) < -(1800 * NS)
    again = np.cumsum(step_back & repeated) > 0
    return np.asarray(local_ns - np.where(repeated & again, second, first), dtype=np.int64)


def parse_stamps(texts: pl.Series) -> pl.Series:
    """Return wall-clock or epoch stamps as int64 ns; null where they are none.

    Knows ``2025/04/24 15:58:57.879``, ISO 8601 (an offset or ``Z`` at the end makes it UTC),
    ``20210102 19:12:31``, and epoch seconds, milliseconds, microseconds or nanoseconds by magnitude.
    """
    text = texts.cast(pl.String).str.strip_chars().str.strip_chars('"')
    number = text.str.extract(r"^(\d{9,19}(?:\.\d*)?)$", 1)
    parts = text.str.extract_groups(
        r"^(\d{4})[/-]?(\d{2})[/-]?(\d{2})[ T]+(\d{2}):(\d{2}):(\d{2})"
        r"(?:[.,](\d{1,9}))?\s*(Z|[+-]\d{2}:?\d{2})?$"
    ).struct.unnest()
    from_calendar = (
        parts.select(
            # Beyond these years nanoseconds do not fit into 64 bits.
            day=pl.when(pl.col("1").cast(pl.Int32).is_between(1700, 2260)).then(
                pl.concat_str("1", "2", "3").str.to_date("%Y%m%d", strict=False)
            ),
            # No clock shows 24:00:00 or more; a second 60 is a leap second.
            seconds=pl.when(
                pl.col("4").cast(pl.Int64) < 24,
                pl.col("5").cast(pl.Int64) < 60,
                pl.col("6").cast(pl.Int64) <= 60,
            ).then(
                pl.col("4").cast(pl.Int64) * 3600
                + pl.col("5").cast(pl.Int64) * 60
                + pl.col("6").cast(pl.Int64)
            ),
            ns=pl.col("7").fill_null("0").str.pad_end(9, "0").cast(pl.Int64),
            shift=pl.col("8").fill_null("Z"),
        )
        .select(
            pl.col("day").cast(pl.Int64) * 86_400 * NS
            + pl.col("seconds") * NS
            + pl.col("ns")
            - pl.when(pl.col("shift") == "Z")
            .then(0)
            .otherwise(
                pl.when(pl.col("shift").str.starts_with("-")).then(-1).otherwise(1)
                * (
                    pl.col("shift").str.slice(1, 2).cast(pl.Int64, strict=False) * 3600
                    + pl.col("shift").str.slice(-2).cast(pl.Int64, strict=False) * 60
                )
                * NS
            )
        )
        .to_series()
    )
    if number.null_count() == len(number):
        return from_calendar.alias(texts.name)
    whole_units = number.str.extract(r"^(\d+)", 1).cast(pl.Int64, strict=False)
    fraction = number.str.extract(r"\.(\d{1,9})", 1).fill_null("0").str.pad_end(9, "0").cast(pl.Int64)
    frame = pl.DataFrame({"w": whole_units, "p": fraction, "m": from_calendar})
    scale = (
        pl.when(pl.col("w") < 10**11).then(NS)
        .when(pl.col("w") < 10**14).then(10**6)
        .when(pl.col("w") < 10**16).then(10**3)
        .otherwise(1)
    ).cast(pl.Int64)  # fmt: skip
    fits = pl.col("w") <= pl.lit(LATEST_NS, dtype=pl.Int64) // scale
    epoch = pl.when(fits).then(pl.col("w") * scale + pl.col("p") * scale // NS)
    return frame.select(pl.coalesce(pl.col("m"), epoch)).to_series().alias(texts.name)


def is_absolute(texts: pl.Series) -> bool:
    """Return whether stamps are epochs or carry their zone, so that no zone need be given."""
    first = texts.drop_nulls().head(1).cast(pl.String).str.strip_chars()
    return (
        bool(len(first))
        and bool(first.str.contains(r"^\d{9,19}(\.\d*)?$|(Z|[+-]\d{2}:?\d{2})$")[0])
        and not bool(first.str.contains(r"^\d{4}-\d{2}-\d{2}$")[0])
    )


_SHAPES = (
    "%Y-%m-%dT%H:%M:%S", "%Y-%b-%d %H:%M:%S.%f", "%Y-%b-%d %H:%M:%S", "%a %b %d %H:%M:%S %Y",
    "%a %b %d %H:%M:%S %Z %Y",
)  # fmt: skip


def wall_clock_ns(text: str) -> int | None:
    """Return one instant written as people or C libraries do, as ns since 1970 of its own wall clock.

    >>> wall_clock_ns("Sun Mar  2 15:02:02 2025"), wall_clock_ns("yesterday")
    (1740927722000000000, None)
    >>> wall_clock_ns("2025-Mar-02 15:02:02.25")
    1740927722250000000
    """
    # A table of one stamp takes milliseconds, and none of its shapes begins with the day of the week.
    parsed = None if text.strip()[:1].isalpha() else parse_stamps(pl.Series([text]))[0]
    if parsed is not None:
        return int(parsed)
    for shape in _SHAPES:
        try:
            moment = datetime.strptime(" ".join(text.split()), shape)  # noqa: DTZ007 - a wall clock
        except ValueError:
            continue
        ns = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000  # noqa: DTZ001
        return ns if abs(ns) <= LATEST_NS else None
    return None


_STAMP = (
    r"\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?"
    r"|\d{8} +\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?|\d{10,19}(?:\.\d{1,9})?"
)
ALONE = re.compile(rf"^\s*\[?({_STAMP})\]?[:,]?\s*$")
BEFORE = re.compile(rf"^\s*\[?({_STAMP})\]?[:,]?\s+(?=\S)")


@dataclass(frozen=True)
class Line:
    """A line, its number, and the stamp that applies to it."""

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
        if match := ALONE.match(raw):
            last = match[1]
            continue
        if match := BEFORE.match(raw):
            lines.append(Line(number, match[1], raw[match.end() :], raw))
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
