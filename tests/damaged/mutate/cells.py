"""Values that stand where others are expected."""

# ruff: noqa: E501

from __future__ import annotations

import random

#: Whole numbers at and beyond the ends of what columns hold.
INTEGERS = (
    -1, 0, 1, -(2**31), 2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 10**15, 7_258_118_400_000_000_001,
)  # fmt: skip
REALS = (0.5, -0.0, 1e-320, 1e18, 1e300, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "0", "-1", "1.5", "1e400", "nan", "inf", "NULL", "N/A", "[N/A]", "true", "12 apples", "0x10", "1,5",
    "9" * 40, "1970-01-01", "2026-01-05T05:00:00Z", "2026-13-45 99:99:99", "a\nb", "a\rb", "a\tb", "a\0b",
    'a"b', "a,b", "a;b", "'; DROP TABLE x;--", "\u202ertl\u2066", "\U0001f600", "\ufeff", "=1+1", "[]", "{}", "[1, [2]]",
    "x" * 3000, "((", "void f<", "::error::x", "[[128, 64], [64, 256]]", "GPU-aaaa", "1" + "0" * 25,
)  # fmt: skip
BYTES = (b"", b"\xff\xfe", b"\0\0", b"text", b"\x80" * 50)


def integer(draw: random.Random) -> int:
    """Return a whole number that fits 64 bits."""
    return draw.choice(INTEGERS)


def cell(draw: random.Random) -> object:
    """Return a value of any scalar kind SQLite can hold."""
    return draw.choice(
        (None, integer(draw), integer(draw), draw.choice(REALS), draw.choice(TEXTS), draw.choice(BYTES))
    )


def word(draw: random.Random) -> str:
    """Return a text that stands where a cell of a text file stood."""
    return draw.choice((draw.choice(TEXTS), str(integer(draw)), str(draw.choice(REALS))))
