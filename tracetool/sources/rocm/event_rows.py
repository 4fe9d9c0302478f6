"""Events of a Perfetto trace: beginnings of slices with their annotations, and values of counters.

Source: Perfetto's ``track_event.proto`` and ``debug_annotation.proto``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracetool.core.arrays import Floats, Ints
from tracetool.sources.io.protobuf import FIXED64, VARINT
from tracetool.sources.io.protobuf_columns import (
    WINDOW_MESSAGES,
    Fields,
    Texts,
    Wholes,
    joined,
    signed_wholes,
)
from tracetool.sources.rocm.packets import CATEGORIES, NAMES, NOTE_NAMES, NOTE_TEXTS, State

#: Kinds of events. [1] By definition of track_event.proto.
_SLICE_BEGIN, _COUNT = 1, 4
#: What an annotation states: nothing that 64 bits hold, a number, or a text by its number.
NOTHING, NUMBER, TEXT = 0, 1, 2
#: Fields of annotations that hold a truth or a number without sign, one with sign, one of a text.
_UNSIGNED, _SIGNED, _DOUBLE, _SPELLED, _TEXT_OF = (2, 3, 7), 4, 5, 6, 17
_WHOLE: Final = np.isin(np.arange(_TEXT_OF + 2), (*_UNSIGNED, _SIGNED, _TEXT_OF))
#: Doubles from here on are no numbers of 64 bits. [1] By definition.
_BEYOND: Final = 2.0**63


@dataclass(frozen=True)
class Notes:
    """Annotations of one name: the slices that state it, in order, and what they state.

    Parameters
    ----------
    slice : array of int
        Rows of the slices. Of several annotations of one slice the last holds.
    kind : array of int8
        One of :data:`NOTHING`, :data:`NUMBER`, :data:`TEXT`.
    value : array of int
        The number, cut to a whole one, or the number of the text.
    """

    slice: Ints
    kind: NDArray[np.int8]
    value: Ints


@dataclass(frozen=True)
class Slices:
    """Beginnings of slices; names and categories by the numbers of their texts."""

    name: Ints
    category: Ints
    track: Wholes


@dataclass(frozen=True)
class Counts:
    """Values of counters as they are stated, with their packets and the numbers of their categories."""

    packet: Ints
    category: Ints
    track: Wholes
    value: Floats


@dataclass
class EventRows:
    """Slices and counters while events are read.

    Parameters
    ----------
    state : State
        What packets leave out.
    texts : Texts
        All texts; those from 1 to ``wanted`` are the names of the annotations to keep.
    wanted : int
        How many these are.
    """

    state: State
    texts: Texts
    wanted: int
    _count: int = 0
    _slices: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    _counts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    _notes: dict[int, list[tuple[NDArray[Any], ...]]] = field(default_factory=dict)

    def take(self, events: Fields, packet: Ints) -> None:
        """Take in the next events and the packets they are in."""
        kind = events.wholes(9)
        begins = kind == _SLICE_BEGIN
        stated = events.last(events.are(30, varint=True) | (events.are(44) & (events.wire == FIXED64)))
        counts = np.flatnonzero((kind == _COUNT) & (stated >= 0))
        on = events.last(events.are(11, varint=True))
        track = self.state.track[packet]
        track = np.where(on >= 0, events.value[on], track) if len(events.value) else track
        category = self._spelled(events, packet, (3, 22), CATEGORIES)
        name = self._spelled(events, packet, (10, 23), NAMES)
        self._slices.append((name[begins], category[begins], track[begins]))
        values = _counted(events, stated[counts])
        self._counts.append((packet[counts], category[counts], track[counts], values))
        rows = np.flatnonzero(events.are(4, varint=False))
        slice_of = np.where(begins, self._count + np.cumsum(begins) - 1, -1)
        for at in range(0, len(rows), WINDOW_MESSAGES):
            block = rows[at : at + WINDOW_MESSAGES]
            event = events.message[block]
            self._take_notes(events.inner(block), packet[event], slice_of[event])
        self._count += int(begins.sum())

    def _take_notes(self, notes: Fields, packet: Ints, slice_of: Ints) -> None:
        name = self._spelled(notes, packet, (1, 10), NOTE_NAMES)
        chosen = np.flatnonzero((name > 0) & (name <= self.wanted) & (slice_of >= 0))
        if not len(chosen):
            return
        chosen = chosen[np.argsort(name[chosen], kind="stable")]
        columns = (slice_of[chosen], *self._stated(notes, packet, chosen))
        borders = np.searchsorted(name[chosen], np.arange(1, self.wanted + 2)).tolist()
        for which, (first, last) in enumerate(pairwise(borders)):
            if first < last:
                self._notes.setdefault(which, []).append(tuple(column[first:last] for column in columns))

    def _spelled(self, messages: Fields, packet: Ints, numbers: tuple[int, int], table: int) -> Ints:
        """Return the number of the text each message states: by its number in a table, or spelled."""
        by_number, by_text = numbers
        rows = messages.last(messages.are(by_number, varint=True) | messages.are(by_text))
        text_number = np.zeros(messages.messages, np.int64)
        with_field = np.flatnonzero(rows >= 0)
        spelled = messages.number[rows[with_field]] == by_text
        which = with_field[spelled]
        text_number[which] = self.texts.of(messages, rows[which])
        which = with_field[~spelled]
        text_number[which] = self.state.texts(table, packet[which], messages.value[rows[which]])
        return text_number

    def _stated(self, notes: Fields, packet: Ints, chosen: Ints) -> tuple[NDArray[np.int8], Ints]:
        """Return kind and value of what some annotations state; those that state nothing an empty text."""
        number, is_varint = notes.number, notes.wire == VARINT
        holds = is_varint & _WHOLE[np.minimum(number, len(_WHOLE) - 1)]
        holds |= (number == _SPELLED) | ((number == _DOUBLE) & (notes.wire == FIXED64))
        rows = notes.last(holds)[chosen]
        kind, value = np.full(len(chosen), TEXT, np.int8), np.zeros(len(chosen), np.int64)
        of = np.where(rows >= 0, number[rows], 0) if len(number) else rows
        which = np.flatnonzero(np.isin(of, _UNSIGNED))
        value[which] = signed_wholes(notes.value[rows[which]])
        kind[which] = np.where(value[which] >= 0, NUMBER, NOTHING)
        which = np.flatnonzero(of == _SIGNED)
        value[which] = signed_wholes(notes.value[rows[which]])
        kind[which] = np.where(value[which] != np.iinfo(np.int64).min, NUMBER, NOTHING)
        which = np.flatnonzero(of == _DOUBLE)
        doubles = notes.doubles(rows[which])
        fits = np.abs(doubles) < _BEYOND  # false for nan
        value[which], kind[which] = (
            np.where(fits, doubles, 0).astype(np.int64),
            np.where(fits, NUMBER, NOTHING),
        )
        which = np.flatnonzero(of == _SPELLED)
        value[which] = self.texts.of(notes, rows[which])
        which = np.flatnonzero(of == _TEXT_OF)
        value[which] = self.state.texts(NOTE_TEXTS, packet[chosen[which]], notes.value[rows[which]])
        return kind, value

    def slices(self) -> Slices:
        """Return the beginnings of slices."""
        return Slices(*joined(self._slices, np.int64, np.int64, np.uint64))

    def counts(self) -> Counts:
        """Return the values of counters."""
        return Counts(*joined(self._counts, np.int64, np.int64, np.uint64, np.float64))

    def notes(self) -> list[Notes]:
        """Return the annotations of each name wanted."""
        chunks_of_names = (self._notes.pop(which, []) for which in range(self.wanted))
        return [Notes(*joined(chunks, np.int64, np.int8, np.int64)) for chunks in chunks_of_names]


def _counted(events: Fields, rows: Ints) -> Floats:
    """Return the values that fields state, whole ones with a sign or doubles."""
    values = signed_wholes(events.value[rows]).astype(np.float64)
    doubles = np.flatnonzero(events.wire[rows] == FIXED64)
    values[doubles] = events.doubles(rows[doubles])
    return values
