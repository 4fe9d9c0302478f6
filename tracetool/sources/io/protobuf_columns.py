"""Fields of many protocol-buffer messages at once, as columns: one field of each message a round.

Traces hold millions of small messages with few fields each: a round decodes the next field of all that still
have one. Messages nested in them are read the same way, by the spans of the fields that hold them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.sources.io.protobuf import BYTES, FIXED32, FIXED64, VARINT, BrokenMessage, spans

Wholes: TypeAlias = NDArray[np.uint64]
#: The longest varint: 64 bits, seven a byte. Source: protobuf.dev/programming-guides/encoding. [bytes]
_LONGEST: Final = 10
#: Fewer messages than this are read one by one: a round costs as much as some 50 fields so read.
#: [messages] A prior.
FEW: Final = 48
#: Fields of one message taken over at a time: bounds the lists they are in. [fields] A prior.
_TAKEN: Final = 1 << 15
#: Messages read at once: their columns stay in the processor's cache. [messages] A prior.
WINDOW_MESSAGES: Final = 1 << 15


@dataclass(frozen=True)
class Fields:
    """Fields of n messages: those of one message in its order, messages mixed.

    Parameters
    ----------
    raw : bytes
        What the messages lie in.
    messages : int
        How many messages were read.
    message : array of int
        The message each field is of.
    number, wire : array
        Number and wire type of each field.
    value : array of uint64
        The number it holds; of bytes their count.
    start : array of int
        Where its bytes begin in ``raw``.
    broken : array of int
        Messages that are damaged: their fields up to there are listed.
    fault : str
        What is wrong with the first found.
    """

    raw: bytes
    messages: int
    message: Ints
    number: Ints
    wire: NDArray[np.int8]
    value: Wholes
    start: Ints
    broken: Ints
    fault: str = ""

    def sound(self) -> Fields:
        """Return the fields.

        Raises
        ------
        BrokenMessage
            If a message is damaged.
        """
        if len(self.broken):
            raise BrokenMessage(self.fault)
        return self

    def are(self, number: int, *, varint: bool | None = None) -> Bools:
        """Return which fields have a number, and are a varint (or, if false, bytes)."""
        chosen: Bools = self.number == number
        return chosen if varint is None else chosen & ((self.wire == VARINT) == varint)

    def last(self, chosen: Bools) -> Ints:
        """Return the row of each message's last field among those chosen, -1 where there is none."""
        rows = np.full(self.messages, -1)
        picked = np.flatnonzero(chosen)
        rows[self.message[picked]] = picked
        return rows

    def first(self, chosen: Bools) -> Ints:
        """Return the row of each message's first field among those chosen, -1 where there is none."""
        rows = np.full(self.messages, -1)
        picked = np.flatnonzero(chosen)[::-1]
        rows[self.message[picked]] = picked
        return rows

    def wholes(self, number: int, default: int = 0) -> Wholes:
        """Return the last varint of a field of each message."""
        rows = self.last(self.are(number, varint=True))
        values = np.full(self.messages, default, np.uint64)
        values[rows >= 0] = self.value[rows[rows >= 0]]
        return values

    def last_wholes(self, number: int) -> Wholes:
        """Return the last value of a field of each message, 0 where it is absent or no varint."""
        rows = self.last(self.are(number))
        with_field = np.flatnonzero(rows >= 0)
        values = np.zeros(self.messages, np.uint64)
        values[with_field] = np.where(
            self.wire[rows[with_field]] == VARINT, self.value[rows[with_field]], np.uint64(0)
        )
        return values

    def last_bytes(self, number: int) -> Ints:
        """Return the row of each message's last value of a field, -1 where it is absent or no bytes."""
        rows = self.last(self.are(number))
        with_field = np.flatnonzero(rows >= 0)
        rows[with_field[self.wire[rows[with_field]] == VARINT]] = -1
        return rows

    def have(self, chosen: Bools) -> Bools:
        """Return which messages have a field among those chosen."""
        have_field = np.zeros(self.messages, np.bool_)
        have_field[self.message[chosen]] = True
        return have_field

    def inner(self, rows: Ints) -> Fields:
        """Return the fields of the messages inside some fields.

        Raises
        ------
        BrokenMessage
            If one of them is damaged.
        """
        start = self.start[rows]
        return read_fields(self.raw, start, start + self.value[rows].astype(np.int64)).sound()

    def in_order(self) -> Fields:
        """Return the fields message by message."""
        order = np.argsort(self.message, kind="stable")
        message, number, wire = self.message[order], self.number[order], self.wire[order]
        return replace(
            self, message=message, number=number, wire=wire, value=self.value[order], start=self.start[order]
        )

    def doubles(self, rows: Ints) -> Floats:
        """Return the values of fields of eight bytes."""
        places = self.start[rows][:, None] + np.arange(8)
        content = np.frombuffer(self.raw, np.uint8)[places]
        return np.frombuffer(content.tobytes(), "<f8").astype(np.float64)


class Texts:
    """Distinct texts by number; number 0 is the empty one. Each is decoded once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {b"": 0}
        self._listed: list[str] = [""]

    @property
    def listed(self) -> list[str]:
        """The texts by their number."""
        return self._listed

    def of(self, fields: Fields, rows: Ints) -> Ints:
        """Return the number of the text in each field; a varint is the text of its digits."""
        start, size = fields.start[rows], fields.value[rows]
        digits = np.flatnonzero(fields.wire[rows] == VARINT)
        stop = start + size.astype(np.int64)
        stop[digits] = start[digits]
        numbers = self._of(map(fields.raw.__getitem__, map(slice, start.tolist(), stop.tolist())), len(rows))
        if len(digits):
            written = (b"%d" % value for value in size[digits].tolist())
            numbers[digits] = self._of(written, len(digits))
        return numbers

    def _of(self, raws: Iterable[bytes], count: int) -> Ints:
        listed = list(raws)
        try:
            return np.fromiter(map(self._numbers.__getitem__, listed), np.int64, count)
        except KeyError:
            self.add(listed)
            return np.fromiter(map(self._numbers.__getitem__, listed), np.int64, count)

    def add(self, raws: Iterable[bytes]) -> None:
        """Number texts that are new."""
        for raw in raws:
            if raw not in self._numbers:
                self._numbers[raw] = len(self._listed)
                self._listed.append(raw.decode("utf-8", "replace"))


def signed_wholes(values: Wholes) -> Ints:
    """Return 64-bit numbers read as signed."""
    return values.view(np.int64)


def joined(chunks: list[tuple[NDArray[Any], ...]], *kinds: type) -> list[NDArray[Any]]:
    """Return columns from their parts, which are given up; of these types where there are none."""
    if not chunks:
        return [np.zeros(0, kind) for kind in kinds]
    columns = list(map(list, zip(*chunks, strict=True)))
    chunks.clear()
    concatenated = []
    for column in columns:
        concatenated.append(np.concatenate(column))
        column.clear()  # not all columns lie in memory twice
    return concatenated


def read_fields(raw: bytes, starts: Ints, ends: Ints) -> Fields:
    """Return the fields of the messages between starts and ends.

    >>> raw = bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69])
    >>> found = read_fields(raw, np.array([0, 3]), np.array([3, 7]))
    >>> found.message.tolist(), found.number.tolist(), found.value.tolist(), found.start.tolist()
    ([0, 1], [1, 2], [150, 2], [3, 5])
    """
    content = np.frombuffer(raw, np.uint8)
    chunks: list[tuple[NDArray[Any], ...]] = []
    broken: list[Ints] = []
    faults: list[str] = []
    which = np.flatnonzero(starts < ends)
    at, end = starts[which], ends[which]
    while len(which) >= FEW:
        *columns, after, fault = _one_each(content, at, end)
        if fault.any():
            broken.append(which[fault > 0])
            first = int(np.flatnonzero(fault)[0])
            faults.append(f"{_FAULTS[int(fault[first])]} at byte {int(at[first])}")
            which, end, after, *columns = (c[fault == 0] for c in (which, end, after, *columns))
        chunks.append((which, *columns))
        more = after < end
        at, end, which = (after, end, which) if more.all() else (after[more], end[more], which[more])
    _one_by_one(raw, (which, at, end), chunks, broken, faults)
    message, number, wire, value, start = joined(chunks, np.int64, np.int64, np.int8, np.uint64, np.int64)
    of_broken = np.concatenate(broken) if broken else np.zeros(0, np.int64)
    return Fields(raw, len(starts), message, number, wire, value, start, of_broken, "".join(faults[:1]))


_FAULTS: Final = {
    1: "cut short",
    2: "number too long",
    3: "unknown wire type",
    4: "a field that reaches beyond the end",
}


def _one_each(content: NDArray[np.uint8], at: Ints, end: Ints) -> tuple[NDArray[Any], ...]:
    """Return number, wire type, value, start, place after, and fault of the next field of each message."""
    key, start, fault = varints(content, at, end)
    wire = (key & np.uint64(7)).astype(np.int8)
    number = (key >> np.uint64(3)).astype(np.int64)
    is_whole, is_bytes = wire == VARINT, wire == BYTES
    is_varint_or_bytes = is_whole | is_bytes
    if is_varint_or_bytes.all():
        value, start, fault_of_value = varints(content, start, end)
    else:
        value = np.where(wire == FIXED64, np.uint64(8), np.uint64(4))
        rows = np.flatnonzero(is_varint_or_bytes)
        fault_of_value = np.where(is_varint_or_bytes | (wire == FIXED64) | (wire == FIXED32), 0, 3).astype(
            np.int8
        )
        value[rows], start[rows], fault_of_value[rows] = varints(content, start[rows], end[rows])
    fault = np.where(fault, fault, fault_of_value)
    room = np.maximum(end - start, 0).astype(np.uint64)
    beyond = (value > room) & ~is_whole
    fault[beyond & (fault == 0)] = 4
    after = start + np.where(is_whole | beyond, np.uint64(0), value).astype(np.int64)
    return number, wire, value, start, after, fault


def varints(content: NDArray[np.uint8], at: Ints, end: Ints) -> tuple[Wholes, Ints, NDArray[np.int8]]:
    """Return the number at each place, the place after it, and its fault: 1 cut, 2 too long, else 0."""
    byte = content.take(at, mode="clip")
    fault = (at >= end).astype(np.int8)
    value = byte.astype(np.uint64)
    after = at + 1
    rows = np.flatnonzero((byte >= 0x80) & (fault == 0))
    if not len(rows):
        return value, after, fault
    partial, place, stop = value[rows] & np.uint64(0x7F), after[rows], end[rows]
    for i in range(1, _LONGEST):
        byte = content.take(place, mode="clip")
        partial |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * i)
        place = place + 1
        cut = place > stop
        ended = (byte < 0x80) | cut
        if ended.any():
            value[rows[ended]], after[rows[ended]] = partial[ended], place[ended]
            fault[rows[cut]] = 1
            on = ~ended
            rows, partial, place, stop = rows[on], partial[on], place[on], stop[on]
        if not len(rows):
            return value, after, fault
    fault[rows] = 2
    return value, after, fault


def _one_by_one(
    raw: bytes,
    remaining: tuple[Ints, Ints, Ints],
    chunks: list[tuple[NDArray[Any], ...]],
    broken: list[Ints],
    faults: list[str],
) -> None:
    """Read what is left of few messages: which, from where, up to where."""
    view = memoryview(raw)
    pending: list[tuple[int, ...]] = []
    for message, begin, stop in zip(*(column.tolist() for column in remaining), strict=True):
        try:
            for number, kind, value, place in spans(view[begin:stop]):
                pending.append((message, number, kind, value, place + begin))
                if len(pending) == _TAKEN:
                    chunks.append(_columns(pending))
                    pending = []
        except BrokenMessage as error:
            broken.append(np.array([message]))
            faults.append(str(error))
    if pending:
        chunks.append(_columns(pending))


def _columns(records: list[tuple[int, ...]]) -> tuple[NDArray[Any], ...]:
    message, number, wire, value, place = np.array(records, np.uint64).T
    integers = (c.astype(np.int64) for c in (message, number, place))
    return next(integers), next(integers), wire.astype(np.int8), value.copy(), next(integers)
