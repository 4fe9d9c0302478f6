"""Protocol-buffer messages read field by field: enough for traces, without a schema compiler."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


class BrokenMessage(ValueError):  # noqa: N818 - reads as what it is at the raise
    """The bytes are no message."""


def varint(raw: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a number and the place after it.

    Raises
    ------
    BrokenMessage
        If it does not end.
    """
    value = shift = 0
    for i in range(_LONGEST_VARINT):
        try:
            byte = raw[at + i]
        except IndexError as error:
            raise BrokenMessage(f"cut short at byte {at}") from error
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + i + 1
        shift += 7
    raise BrokenMessage(f"number too long at byte {at}")


def fields(raw: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value of each field: numbers as they are, the rest as bytes.

    >>> list(fields(memoryview(bytes([0x08, 0x96, 0x01]))))
    [(1, 0, 150)]

    Raises
    ------
    BrokenMessage
        If a field reaches beyond the end or has an unknown type.
    """
    at, end = 0, len(raw)
    while at < end:
        key, at = varint(raw, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = varint(raw, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = varint(raw, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise BrokenMessage(f"unknown wire type {kind} at byte {at}")
        if at + size > end:
            raise BrokenMessage(f"field {number} reaches beyond the end at byte {at}")
        yield number, kind, raw[at : at + size]
        at += size


def signed(value: int) -> int:
    """Return a 64-bit number read as signed."""
    return value - (1 << 64) if value >= 1 << 63 else value
