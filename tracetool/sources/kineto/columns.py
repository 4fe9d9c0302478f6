"""From decoded events to typed columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracetool.sources.kineto.records import Chunk, Event, ExactTail, ExactTimes
from tracetool.vocabulary.arrays import Floats, Ints

#: Up to here a double of microseconds still tells one nanosecond from the next.
EXACT_US = float(1 << 43)
_DIGITS = re.compile(rb'"?\s*(-?)(\d+)(?:\.(\d+))?\s*"?')
_LIMIT_US = 1e16
_EXACT = msgspec.json.Decoder(list[ExactTimes])
_EXACT_TAIL = msgspec.json.Decoder(ExactTail)


def numbers(values: Sequence[Any]) -> Floats:
    """Return floats; NaN for what is no number."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(v) for v in values], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def whole_numbers(values: Iterable[Any]) -> pl.Series:
    """Return int64; null for what is no whole number of 64 bits. Digits within text (``stream 7``) count."""
    cells = values if isinstance(values, list | tuple) else list(values)
    try:
        return pl.Series(cells, dtype=pl.Int64, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([_whole(v) for v in cells], dtype=pl.Int64)


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        found = re.search(r"-?\d+", value)
        value = int(found[0]) if found and len(found[0]) < 20 else None
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) and abs(value) < 2**63 else None
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        return None
    return value


def texts(values: Iterable[Any]) -> pl.Series:
    """Return text; numbers as they print, null for the rest."""
    cells = list(values)
    try:
        return pl.Series(cells, dtype=pl.String, strict=True)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        return pl.Series(
            [v if isinstance(v, str) else str(v) if isinstance(v, int | float) else None for v in cells],
            dtype=pl.String,
        )


def times_ns(chunk: Chunk, which: Sequence[int], base_ns: int) -> tuple[pl.Series, pl.Series]:
    """Return start and end of events, exact to the nanosecond, null where there is none.

    Parameters
    ----------
    chunk : Chunk
        The events.
    which : sequence of int
        Their places in the chunk.
    base_ns : int
        Added to every time. [ns]

    Notes
    -----
    Times are decimal microseconds. A double of a time since 1970 is good to 256 ns only: such chunks
    are read again for their digits.
    """
    events = chunk.events
    chosen = [events[i] for i in which]
    ts = numbers(list(map(attrgetter("ts"), chosen)))
    dur = numbers(list(map(attrgetter("dur"), chosen)))
    big = np.abs(ts) >= EXACT_US
    if big.any() and (np.array([isinstance(events[i].ts, float | str) for i in which]) & big).any():
        return _exact(chunk, which, base_ns)
    start, length = _scaled(ts, base_ns), _scaled(np.where(np.isnan(dur), 0.0, dur), 0)
    return start, start + length


def _scaled(us: Floats, base_ns: int) -> pl.Series:
    good = np.isfinite(us) & (np.abs(us) < _LIMIT_US)
    safe = np.where(good, us, 0.0)
    whole = np.floor(safe)
    ns: Ints = whole.astype(np.int64) * 1000 + np.rint((safe - whole) * 1000).astype(np.int64) + base_ns
    return pl.select(pl.when(pl.Series(good)).then(pl.Series(ns))).to_series()


def _exact(chunk: Chunk, which: Sequence[int], base_ns: int) -> tuple[pl.Series, pl.Series]:
    rows = _EXACT.decode(chunk.raw) if chunk.raw[:1] == b"[" else _EXACT_TAIL.decode(chunk.raw).events
    start = pl.Series([_digits(bytes(rows[i].ts)) for i in which], dtype=pl.Int64) + base_ns
    length = pl.Series([_digits(bytes(rows[i].dur)) or 0 for i in which], dtype=pl.Int64)
    return start, start + length


def _digits(text: bytes) -> int | None:
    """Return decimal microseconds as whole nanoseconds, half rounded up.

    >>> _digits(b"1709748230123456.789"), _digits(b"2.0005"), _digits(b"null")
    (1709748230123456789, 2001, None)
    """
    found = _DIGITS.fullmatch(text.strip())
    if not found or len(found[2]) > 16:
        return None
    fraction = (found[3] or b"").ljust(4, b"0")
    ns = int(found[2]) * 1000 + int(fraction[:3]) + (fraction[3:4] >= b"5")
    return -ns if found[1] else ns


def decode_args(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    """Return the arguments of events as records; empty records where they are odd.

    All are decoded in one call; only if one of them is odd, one by one.
    """
    raws = [bytes(e.args) if e.args else b"{}" for e in events]
    try:
        many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        found: list[Any] = many.decode(b"[" + b",".join(raws) + b"]")
        if len(found) == len(raws):
            return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    decoder = msgspec.json.Decoder(kind)
    made = []
    for raw in raws:
        try:
            made.append(decoder.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            made.append(kind())
    return made
