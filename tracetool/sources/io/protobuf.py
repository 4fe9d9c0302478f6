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


def spans(raw: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type, value and place of each field; of bytes their count, and where they begin.

    >>> list(spans(memoryview(bytes([0x08, 0x96, 0x01, 0x12, 0x01, 0x68]))))
    [(1, 0, 150, 3), (2, 2, 1, 5)]

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
            yield number, kind, value, at
            continue
        if kind == BYTES:
            size, at = varint(raw, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise BrokenMessage(f"unknown wire type {kind} at byte {at}")
        if at + size > end:
            raise BrokenMessage(f"field {number} reaches beyond the end at byte {at}")
        yield number, kind, size, at
        at += size


def fields(raw: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value of each field: numbers as they are, the rest as bytes.

    >>> list(fields(memoryview(bytes([0x08, 0x96, 0x01]))))
    [(1, 0, 150)]

    Raises
    ------
    BrokenMessage
        If a field reaches beyond the end or has an unknown type.
    """
    for number, kind, value, at in spans(raw):
        yield number, kind, value if kind == VARINT else raw[at : at + value]


def signed(value: int) -> int:
    """Return a 64-bit number read as signed."""
    return value - (1 << 64) if value >= 1 << 63 else value


class Message:
    """One message, its fields by number: every value of each in the file's order.

    A field of a damaged file may hold anything: a getter returns nothing where the wire type is another.

    >>> Message(memoryview(bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69]))).text(2)
    'hi'

    Raises
    ------
    BrokenMessage
        If the bytes are no message.
    """

    __slots__ = ("_values",)

    def __init__(self, raw: memoryview) -> None:
        self._values: dict[int, list[int | memoryview]] = {}
        for number, _, value in fields(raw):
            self._values.setdefault(number, []).append(value)

    def has(self, field: int) -> bool:
        """Whether a field is present."""
        return field in self._values

    def number(self, field: int, default: int = 0) -> int:
        """Return the last number of a field, unsigned."""
        value = self._values.get(field, (default,))[-1]
        return value if isinstance(value, int) else default

    def raw(self, field: int) -> memoryview | None:
        """Return the last bytes of a field, None where there are none."""
        value = self._values.get(field, (None,))[-1]
        return value if isinstance(value, memoryview) else None

    def raws(self, field: int) -> list[memoryview]:
        """Return the bytes of a repeated field."""
        return [v for v in self._values.get(field, ()) if isinstance(v, memoryview)]

    def text(self, field: int) -> str:
        """Return the last text of a field, empty where there is none."""
        raw = self.raw(field)
        return bytes(raw).decode("utf-8", "replace") if raw is not None else ""

    def message(self, field: int) -> Message | None:
        """Return the last message of a field, None where there is none."""
        raw = self.raw(field)
        return Message(raw) if raw is not None else None

    def messages(self, field: int) -> Iterator[Message]:
        """Yield the messages of a repeated field."""
        return map(Message, self.raws(field))

    def numbers(self, field: int) -> list[int]:
        """Return the numbers of a repeated field, packed or one by one, read as signed."""
        listed: list[int] = []
        for value in self._values.get(field, ()):
            if isinstance(value, int):
                listed.append(signed(value))
                continue
            at = 0
            while at < len(value):
                number, at = varint(value, at)
                listed.append(signed(number))
        return listed
