"""Debug annotations of PyTorch's Perfetto export, as columns of the arguments that its JSON export has.

Source: Perfetto's ``debug_annotation.proto``. Arguments that are lists repeat from event to event:
each distinct one is decoded once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetool.core.arrays import Bools, Ints, Numbers
from tracetool.core.arrays import Texts as Cells
from tracetool.sources.io.protobuf import BrokenMessage, Message, signed
from tracetool.sources.io.protobuf_columns import WINDOW_MESSAGES, Fields, Texts, joined, signed_wholes
from tracetool.sources.pytorch.records import Args

#: What an annotation states: the bits of a number, or which text, or which of the distinct nested values.
_UNSIGNED, _TRUTH, _DOUBLE, _SIGNED, _TEXT, _NESTED = range(6)
#: Annotations by the field of :class:`Args` that holds them, and fields that hold JSON.
_SPELLED: Final = dict(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
_RAW: Final = frozenset(n for n, kind in Args.__annotations__.items() if "Raw" in str(kind))
#: Annotations that only state the kind of an event; those of calls of Python begin alike.
_TELLING: Final = ("cuda_sync_kind", "cbid")
PYTHON: Final = "Python "
_NAMES: Final = (*_SPELLED.values(), *_TELLING, PYTHON)
_PLACES: Final = {name: place for place, name in enumerate(_NAMES)}
#: Lists within one another in an argument; profilers write two. [1] A prior.
_MOST_DEPTH: Final = 100


@dataclass(frozen=True)
class Stated:
    """Annotations of one name: the events that state it, in order, and what; of an event the last holds."""

    event: Ints
    kind: NDArray[np.int8]
    value: Ints


@dataclass
class Notes:
    """Annotations while events are read."""

    texts: Texts
    _nested: dict[bytes, int] = field(default_factory=dict)
    _values: list[Any] = field(default_factory=list)
    _parts: list[tuple[Numbers, ...]] = field(default_factory=list)

    def take(self, events: Fields, number: Ints) -> None:
        """Take in what events state.

        Parameters
        ----------
        events : Fields
            The events.
        number : array of int
            The number of each event, -1 where what it states is not looked at.

        Raises
        ------
        BrokenMessage
            If an annotation is damaged.
        """
        rows = np.flatnonzero(events.are(4, varint=False) & (number[events.message] >= 0))
        for at in range(0, len(rows), WINDOW_MESSAGES):
            block = rows[at : at + WINDOW_MESSAGES]
            notes = events.inner(block)
            kind, value = self._stated(notes)
            nested = np.flatnonzero(kind == _NESTED)
            value[nested] = self._decoded(events, block[nested])
            place = self._places(notes)
            named = np.flatnonzero(place >= 0)
            event = number[events.message[block[named]]]
            self._parts.append((event, place[named], kind[named], value[named]))

    def _places(self, notes: Fields) -> NDArray[np.int8]:
        """Return which of the names that are read each annotation has, -1 for others."""
        rows = notes.last_bytes(10)
        named = np.flatnonzero(rows >= 0)
        numbers, which = np.unique(self.texts.of(notes, rows[named]), return_inverse=True)
        names = (self.texts.listed[number] for number in numbers.tolist())
        listed = [_PLACES.get(PYTHON if name.startswith(PYTHON) else name, -1) for name in names]
        places = np.full(notes.messages, -1, np.int8)
        places[named] = np.array(listed, np.int8)[which]
        return places

    def _stated(self, notes: Fields) -> tuple[NDArray[np.int8], Ints]:
        """Return kind and value of each annotation, as :func:`_value` reads one; of nested ones the kind."""
        kind = np.full(notes.messages, _UNSIGNED, np.int8)
        value = signed_wholes(notes.last_wholes(3))
        truth, integer, text = (np.flatnonzero(notes.have(notes.are(n))) for n in (2, 4, 6))
        kind[truth], value[truth] = _TRUTH, notes.last_wholes(2)[truth] != 0
        double = notes.last_bytes(5)
        which = np.flatnonzero(double >= 0)
        which = which[notes.value[double[which]] == 8]
        kind[which], value[which] = _DOUBLE, notes.doubles(double[which]).view(np.int64)
        kind[integer], value[integer] = _SIGNED, signed_wholes(notes.last_wholes(4)[integer])
        spelled = notes.last_bytes(6)
        kind[text], value[text] = _TEXT, 0
        which = np.flatnonzero(spelled >= 0)
        value[which] = self.texts.of(notes, spelled[which])
        single = np.isin(notes.number, (2, 3, 4, 5, 6, 11))
        nested = notes.have(notes.are(12, varint=False) | notes.are(11, varint=False)) | ~notes.have(single)
        kind[nested] = _NESTED
        return kind, value

    def _decoded(self, events: Fields, rows: Ints) -> list[int]:
        """Return the number of each nested value, decoding those that are new."""
        starts, sizes = events.start[rows].tolist(), events.value[rows].tolist()
        numbers = []
        for start, size in zip(starts, sizes, strict=True):
            raw = events.raw[start : start + size]
            number = self._nested.get(raw)
            if number is None:
                number = self._nested[raw] = len(self._values)
                self._values.append(_value(Message(memoryview(raw))))
            numbers.append(number)
        return numbers

    def arguments(self, event: Ints) -> Arguments:
        """Return the arguments of some events.

        Parameters
        ----------
        event : array of int
            What each event's number becomes, -1 for those left out.
        """
        columns = joined(self._parts, np.int64, np.int8, np.int8, np.int64)
        columns[0] = event[columns[0]]
        columns = [column[columns[0] >= 0] for column in columns]
        order = np.lexsort((columns[0], columns[1]))
        events, places, kinds, values = (column[order] for column in columns)
        borders = np.searchsorted(places, np.arange(len(_NAMES) + 1)).tolist()
        ranges = zip(_NAMES, borders[:-1], borders[1:], strict=True)
        stated = {name: Stated(events[a:b], kinds[a:b], values[a:b]) for name, a, b in ranges}
        return Arguments(stated, self.texts.listed, self._values)


@dataclass(frozen=True)
class Arguments:
    """Arguments of events, by the name that the trace gives them."""

    stated: Mapping[str, Stated]
    texts: Sequence[str]
    nested: Sequence[Any]

    def have(self, name: str, first: int, last: int) -> Bools:
        """Return which events from one to before another state an argument."""
        stated = self.stated[name]
        have_argument = np.zeros(last - first, np.bool_)
        have_argument[stated.event[slice(*np.searchsorted(stated.event, (first, last)))] - first] = True
        return have_argument

    def cells(self, name: str, first: int, last: int) -> Cells:
        """Return a field of :class:`Args` for some events, from one to before another."""
        stated = self.stated[_SPELLED[name]]
        rows = slice(*np.searchsorted(stated.event, (first, last)))
        cells = np.full(last - first, b"" if name in _RAW else None, np.object_)
        objects = self._objects(stated.kind[rows], stated.value[rows], in_json=name in _RAW)
        cells[stated.event[rows] - first] = objects
        return cells

    def _objects(self, kind: NDArray[np.int8], value: Ints, *, in_json: bool) -> Cells:
        """Return what annotations state as Python's own values, or as JSON, each distinct one made once."""
        objects = np.empty(len(kind), np.object_)
        for of_kind in np.unique(kind).tolist():
            which = np.flatnonzero(kind == of_kind)
            if not in_json and of_kind not in (_TEXT, _NESTED):
                objects[which] = self._python_values(of_kind, value[which])
                continue
            distinct, places = np.unique(value[which], return_inverse=True)
            values = self._python_values(of_kind, distinct)
            listed = map(_json, values) if in_json else values
            objects[which] = np.fromiter(listed, np.object_, len(values))[places]
        return objects

    def _python_values(self, kind: int, value: Ints) -> list[Any]:
        if kind in (_TEXT, _NESTED):
            stored = self.texts if kind == _TEXT else self.nested
            return [stored[number] for number in value.tolist()]
        held_as = {_UNSIGNED: np.uint64, _DOUBLE: np.float64}.get(kind, np.int64)
        numbers: list[Any] = value.view(held_as).tolist()
        return list(map(bool, numbers)) if kind == _TRUTH else numbers


def _json(value: Any) -> bytes:
    """Return a value as JSON; a list may have been flattened to its text."""
    return value.encode() if isinstance(value, str) and value[:1] == "[" else msgspec.json.encode(value)


def _value(stated: Message, depth: int = 0) -> Any:
    """Return the value of a debug annotation."""
    if depth > _MOST_DEPTH:
        raise BrokenMessage(f"an argument of more than {_MOST_DEPTH} lists in one another")
    # A list without entries leaves nothing behind.
    if (listed := stated.raws(12)) or not any(map(stated.has, (2, 3, 4, 5, 6, 11))):
        return [_value(Message(v), depth + 1) for v in listed]
    if entries := list(stated.messages(11)):
        return {v.text(10): _value(v, depth + 1) for v in entries}
    if stated.has(6):
        return stated.text(6)
    if stated.has(4):
        return signed(stated.number(4))
    if (double := stated.raw(5)) is not None and len(double) == 8:
        return float(struct.unpack("<d", double)[0])
    return bool(stated.number(2)) if stated.has(2) else stated.number(3)
