"""From decoded events to typed columns."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import polars as pl

from tracetool.sources.columns import clean_text
from tracetool.sources.pytorch.records import Event, ExactTail, ExactTimes

#: Up to here a double of microseconds still distinguishes neighboring nanoseconds.
EXACT_US = float(1 << 43)
_LIMIT_US = 1e16
_NUMBER = re.compile(rb'[\s"]*-?\d')
_EXACT = msgspec.json.Decoder(list[ExactTimes])
_EXACT_TAIL = msgspec.json.Decoder(ExactTail)


def numbers(values: Sequence[Any]) -> pl.Series:
    """Return floats; null for what is no number."""
    try:
        return pl.Series(values, dtype=pl.Float64, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([_number(v) for v in values], dtype=pl.Float64)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def whole_numbers(values: Iterable[Any]) -> pl.Series:
    """Return int64; null for what is no whole number of 64 bits. Digits within text (``stream 7``) count."""
    cells = values if isinstance(values, list | tuple) else list(values)
    try:
        return pl.Series(cells, dtype=pl.Int64, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series([_as_integer(v) for v in cells], dtype=pl.Int64)


def _as_integer(value: Any) -> int | None:
    if isinstance(value, str):
        digits = re.search(r"-?\d+", value)
        value = int(digits[0]) if digits and len(digits[0]) < 20 else None
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
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(
            [v if isinstance(v, str) else str(v) if isinstance(v, int | float) else None for v in cells],
            dtype=pl.String,
        )


def numbering() -> defaultdict[Hashable, int]:
    """Return a table that numbers each value it is asked for, in the order of first requests.

    >>> met = numbering()
    >>> [met[name] for name in "aba"], list(met)
    ([0, 1, 0], ['a', 'b'])
    """
    met: defaultdict[Hashable, int] = defaultdict()
    met.default_factory = met.__len__
    return met


def clean(distinct: pl.Series) -> pl.Series:
    """Return text without control characters."""
    return distinct.to_frame("t").select(clean_text("t")).to_series()


def categories(distinct: pl.Series, codes: Sequence[int]) -> pl.Series:
    """Return a column of text, stored as codes, from its distinct values and the code of each cell."""
    return distinct.cast(pl.Categorical()).gather(pl.Series(codes, dtype=pl.UInt32))


def scaled_times(ts: pl.Series, dur: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return start and duration from microseconds. [ns]"""
    frame = pl.DataFrame({"start": ts, "dur": dur})
    length = pl.col("dur").fill_null(0.0).fill_nan(0.0)
    start, duration = frame.select(_scaled(pl.col("start")), _scaled(length)).get_columns()
    return start, duration


def _scaled(us: pl.Expr) -> pl.Expr:
    """Return microseconds as whole nanoseconds, null for what is no time."""
    whole_us = us.floor()
    ns = whole_us.cast(pl.Int64, strict=False) * 1000 + ((us - whole_us) * 1000).round().cast(
        pl.Int64, strict=False
    )
    return pl.when(us.abs() < _LIMIT_US).then(ns)


def exact_times(raw: bytes, which: Sequence[int]) -> tuple[pl.Series, pl.Series]:
    """Return start and duration of some events of a chunk from their digits. [ns]"""
    rows = _EXACT.decode(raw) if raw[:1] == b"[" else _EXACT_TAIL.decode(raw).events
    chosen = [rows[i] for i in which]
    lengths = [bytes(r.dur) for r in chosen]
    # What has no length lasts no time; one that is out of bounds is rejected.
    has_length = pl.Series([_NUMBER.match(raw) is not None for raw in lengths], dtype=pl.Boolean)
    length = pl.select(pl.when(has_length).then(exact_ns(lengths)).otherwise(0)).to_series()
    return exact_ns([bytes(r.ts) for r in chosen]), length


def exact_ns(raw: Sequence[bytes]) -> pl.Series:
    """Return decimal microseconds as whole nanoseconds, half rounded up; null for what is no number.

    >>> exact_ns([b"1709748230123456.789", b"2.0005", b"-1.5e3", b"null"]).to_list()
    [1709748230123456789, 2001, -1500000, None]
    """
    text = pl.Series(raw, dtype=pl.Binary).cast(pl.String, strict=False).str.strip_chars(' \t\r\n"')
    digits = text.str.extract_groups(r"^(-?)(\d{1,16})(?:\.(\d+))?$").struct.unnest()
    sign, whole_us, fraction = (pl.col(c) for c in digits.columns)
    tenths = fraction.fill_null("0").str.slice(0, 4).str.pad_end(4, "0").cast(pl.Int64)
    ns = whole_us.cast(pl.Int64) * 1000 + (tenths + 5) // 10
    whole_ns = digits.select(pl.when(sign == "-").then(-ns).otherwise(ns)).to_series()
    odd = (whole_ns.is_null() & text.is_not_null() & (text != "null")).arg_true()
    return whole_ns.scatter(odd, [_decimal_ns(t) for t in text.gather(odd)]) if len(odd) else whole_ns


def _decimal_ns(text: str) -> int | None:
    """Return a number written with an exponent."""
    try:
        ns = Decimal(text) * 1000
        return int(ns + (Decimal("0.5") if ns >= 0 else Decimal("-0.5"))) if abs(ns) < 1 << 62 else None
    except (InvalidOperation, ValueError, OverflowError):
        return None


def decode_args(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    """Return the arguments of events as records; empty records where they are odd.

    All are decoded in one call; only if one of them is odd, one by one.
    """
    raws = [bytes(e.args) if e.args else b"{}" for e in events]
    try:
        many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        records: list[Any] = many.decode(b"[" + b",".join(raws) + b"]")
        if len(records) == len(raws):
            return records
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    decoder = msgspec.json.Decoder(kind)
    decoded = []
    for raw in raws:
        try:
            decoded.append(decoder.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            decoded.append(kind())
    return decoded
