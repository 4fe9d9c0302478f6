"""Track events of a Perfetto trace: names, categories and annotations of slices, interned text resolved."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracetool.sources.io.protobuf import BYTES, FIXED64, fields, signed

#: Field numbers of the messages read here.
_PACKET = 1
_SEQUENCE, _EVENT, _INTERNED, _FLAGS, _COMPRESSED = 10, 11, 12, 13, 50
_STATE_CLEARED = 1
_SLICE_BEGIN = 1
#: A packed trace may grow by this factor; more is a bomb.
_MOST_GROWTH = 400


@dataclass
class Slice:
    """The beginning of a slice; what rocprofv3 says of it stands in its annotations."""

    name: str
    category: str
    notes: dict[str, int | float | str]


@dataclass
class _Interned:
    categories: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    note_names: dict[int, str] = field(default_factory=dict)
    note_texts: dict[int, str] = field(default_factory=dict)


def _text(raw: memoryview | int) -> str:
    return bytes(raw).decode("utf-8", "replace") if isinstance(raw, memoryview) else str(raw)


def slices(raw: bytes) -> Iterator[Slice]:
    """Yield the slices of a trace.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    """
    states: dict[int, _Interned] = {}
    for packet in _packets(memoryview(raw)):
        yield from _packet(packet, states)


def _packets(raw: memoryview) -> Iterator[memoryview]:
    for number, kind, value in fields(raw):
        if number != _PACKET or kind != BYTES or not isinstance(value, memoryview):
            continue
        packed = next((v for n, _, v in fields(value) if n == _COMPRESSED), None)
        if isinstance(packed, memoryview):
            unpacked = zlib.decompressobj().decompress(packed, max(1 << 20, _MOST_GROWTH * len(packed)))
            yield from _packets(memoryview(unpacked))
        else:
            yield value


def _packet(packet: memoryview, states: dict[int, _Interned]) -> Iterator[Slice]:
    sequence, flags = 0, 0
    event: memoryview | None = None
    interned: memoryview | None = None
    for number, _, value in fields(packet):
        if number == _SEQUENCE and isinstance(value, int):
            sequence = value
        elif number == _FLAGS and isinstance(value, int):
            flags = value
        elif number == _EVENT and isinstance(value, memoryview):
            event = value
        elif number == _INTERNED and isinstance(value, memoryview):
            interned = value
    if flags & _STATE_CLEARED or sequence not in states:
        states[sequence] = _Interned()
    state = states[sequence]
    if interned is not None:
        _learn(interned, state)
    if event is not None and (found := _slice(event, state)) is not None:
        yield found


def _learn(raw: memoryview, state: _Interned) -> None:
    tables = {1: state.categories, 2: state.names, 3: state.note_names, 29: state.note_texts}
    for number, _, value in fields(raw):
        if number in tables and isinstance(value, memoryview):
            entry = {n: v for n, _, v in fields(value)}
            iid = entry.get(1)
            if isinstance(iid, int) and 2 in entry:
                tables[number][iid] = _text(entry[2])


def _slice(raw: memoryview, state: _Interned) -> Slice | None:
    kind = 0
    found = Slice("", "", {})
    for number, _, value in fields(raw):
        if number == 9 and isinstance(value, int):
            kind = value
        elif number == 10 and isinstance(value, int):
            found.name = state.names.get(value, "")
        elif number == 23:
            found.name = _text(value)
        elif number == 3 and isinstance(value, int):
            found.category = state.categories.get(value, "")
        elif number == 22:
            found.category = _text(value)
        elif number == 4 and isinstance(value, memoryview):
            name, said = _note(value, state)
            found.notes[name] = said
    return found if kind == _SLICE_BEGIN else None


def _note(raw: memoryview, state: _Interned) -> tuple[str, int | float | str]:
    name = ""
    said: int | float | str = ""
    for number, kind, value in fields(raw):
        if number == 1 and isinstance(value, int):
            name = state.note_names.get(value, "")
        elif number == 10:
            name = _text(value)
        elif number in (2, 3, 7) and isinstance(value, int):
            said = value
        elif number == 4 and isinstance(value, int):
            said = signed(value)
        elif number == 5 and kind == FIXED64 and isinstance(value, memoryview):
            said = float(struct.unpack("<d", value)[0])
        elif number == 6:
            said = _text(value)
        elif number == 17 and isinstance(value, int):
            said = state.note_texts.get(value, "")
    return name, said
