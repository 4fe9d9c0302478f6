"""Packets of a Perfetto trace, packed stretches unpacked, and the state they set for those that follow.

Source: Perfetto's ``trace_packet.proto``, ``interned_data.proto`` and ``clock_snapshot.proto``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tracetool.core.arrays import Ints, Numbers
from tracetool.sources.io.protobuf import VARINT, BrokenMessage, spans
from tracetool.sources.io.protobuf_columns import (
    Fields,
    Texts,
    Wholes,
    joined,
    read_fields,
)
from tracetool.sources.io.protobuf_frames import WINDOW_BYTES, Window, windows
from tracetool.sources.last_definitions import Latest
from tracetool.tables.memory import HARMLESS_BYTES, available_bytes

#: Field numbers of a packet.
CLOCKS, TIME, SEQUENCE, EVENT, INTERNED, FLAGS, CLEARED = 6, 8, 10, 11, 12, 13, 41
COMPRESSED, STAGE, CLOCK, DEFAULTS, TRACK = 50, 53, 58, 59, 60
#: The bit of the flags that forgets what was said before.
_STATE_CLEARED: Final = np.uint64(1)
#: A packed stretch may grow by this factor; more is a bomb. [1] A prior.
_MOST_GROWTH: Final = 400
#: What a packed stretch may always grow to. A prior. [bytes]
_SMALL: Final = 1 << 20
#: Bytes in which windows take longer than one packet after the other. A prior. [bytes]
_SHORT: Final = 1 << 14
#: Stretches packed within one another; Perfetto packs once. [1] A prior.
_MOST_DEPTH: Final = 8
#: Memory that an unpacked byte may take until it is a row, at most. [B/B] Measured on packets of two bytes.
_MEMORY_RATIO: Final = 25
#: The clock that counts since boot. [1] By definition of clock_snapshot.proto.
BOOT: Final = 6
#: Tables of interned texts by field: categories, names, names and texts of annotations.
CATEGORIES, NAMES, NOTE_NAMES, NOTE_TEXTS = 1, 2, 3, 29


@dataclass
class Unpacking:
    """Size of unpacked stretches so far."""

    most_bytes: int = field(default_factory=lambda: max(HARMLESS_BYTES, available_bytes() // _MEMORY_RATIO))
    grown_bytes: int = 0

    def unpacked(self, packed: bytes) -> bytes:
        """Return the packets in a packed stretch.

        Raises
        ------
        BrokenMessage
            If it is damaged, or a bomb.
        zlib.error
            If it is not packed.
        """
        raw = zlib.decompressobj().decompress(packed, max(_SMALL, _MOST_GROWTH * len(packed)))
        self.grown_bytes += len(raw)
        if self.grown_bytes > self.most_bytes:
            raise BrokenMessage(f"its packed packets take more than {self.most_bytes / 1e6:.0f} MB")
        for _ in spans(memoryview(raw)) if len(raw) < _SHORT else windows(raw):
            pass  # it has to end with its last packet
        return raw


def read_packets(raw: bytes) -> Iterator[Fields]:
    """Yield the fields of the packets of a trace, in its order.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    zlib.error
        If packed packets in it are.
    """
    yield from _read_packets(raw, Unpacking(), 0)


def _read_packets(raw: bytes, unpacking: Unpacking, depth: int) -> Iterator[Fields]:
    if depth > _MOST_DEPTH:
        raise BrokenMessage(f"packed more than {_MOST_DEPTH} times")
    for window in windows(raw):
        packets = read_fields(raw, window.starts, window.ends)
        first = packets.first(packets.are(COMPRESSED))
        packed = np.flatnonzero(first >= 0)
        packed = packed[packets.wire[first[packed]] != VARINT]
        if not len(packed):
            yield packets.sound()
            continue
        if len(np.setdiff1d(packets.broken, packed)):  # nobody looks behind packed packets
            packets.sound()
        for unpacked in _in_place(packets, window, first[packed], unpacking):
            yield from _read_packets(unpacked, unpacking, depth + 1)


def _in_place(packets: Fields, window: Window, rows: Ints, unpacking: Unpacking) -> Iterator[bytes]:
    """Yield the bytes of a window with the content of its packed stretches in place of these."""
    pieces: list[bytes] = []
    grown, begin = 0, window.begin
    for row in rows.tolist():
        message, start = packets.message[row], int(packets.start[row])
        before = int(window.ends[message - 1]) if message else window.begin
        content = unpacking.unpacked(packets.raw[start : start + int(packets.value[row])])
        pieces += (packets.raw[begin:before], content)
        grown, begin = grown + len(content), int(window.ends[message])
        if grown > WINDOW_BYTES:
            yield b"".join(pieces)
            pieces, grown = [], 0
    yield b"".join((*pieces, packets.raw[begin : window.finish]))


@dataclass(frozen=True)
class Definitions:
    """Values in force for a writer of packets from one packet on, by key."""

    packet: Ints
    key: Wholes
    value: Wholes


@dataclass
class State:
    """Values that packets omit because an earlier packet set them, by the packet that needs them.

    Parameters
    ----------
    writer : array of int
        The writer of each packet, from 0.
    generation : array of int
        The stretch of each packet in which nothing its writer said is forgotten.
    clock, track : array of uint64
        The clock of each packet's time, and the track of its event where that states none.
    """

    writer: Ints
    generation: Ints
    clock: Wholes
    track: Wholes
    _texts: dict[int, tuple[Latest, Ints]]

    def texts(self, table: int, packet: Ints, iid: Wholes) -> Ints:
        """Return the number of each text of a table at a packet, 0 where none was set."""
        latest, numbers = self._texts[table]
        rows = latest.find(self.generation[packet], iid, packet)
        return np.where(rows >= 0, numbers[rows], 0) if len(numbers) else np.zeros(len(iid), np.int64)


@dataclass
class Said:
    """Columns of packets while they are read: what :class:`State` is made of."""

    count: int = 0
    _columns: list[tuple[Numbers, ...]] = field(default_factory=list)
    _clocks: list[Definitions] = field(default_factory=list)
    _tracks: list[Definitions] = field(default_factory=list)
    _texts: dict[int, list[Definitions]] = field(default_factory=dict)

    def take(self, packets: Fields, texts: Texts) -> None:
        """Take in the next packets."""
        cleared = (packets.wholes(FLAGS) & _STATE_CLEARED != 0) | (packets.wholes(CLEARED) != 0)
        self._columns.append((packets.wholes(SEQUENCE), cleared))
        defaults = held(packets, DEFAULTS)
        if len(defaults):
            self._learn_defaults(packets.message[defaults] + self.count, packets.inner(defaults))
        interned = held(packets, INTERNED)
        if len(interned):
            self._learn_texts(packets.message[interned] + self.count, packets.inner(interned), texts)
        self.count += packets.messages

    def _learn_defaults(self, packet: Ints, defaults: Fields) -> None:
        stated = defaults.last(defaults.are(CLOCK, varint=True))
        which = np.flatnonzero(stated >= 0)
        self._clocks.append(_alone(packet[which], defaults.value[stated[which]]))
        rows = np.flatnonzero(defaults.are(EVENT, varint=False))
        rows = rows[np.argsort(defaults.message[rows], kind="stable")]
        events = defaults.inner(rows)
        stated = events.last(events.are(11, varint=True))
        which = np.flatnonzero(stated >= 0)
        self._tracks.append(_alone(packet[defaults.message[rows[which]]], events.value[stated[which]]))

    def _learn_texts(self, packet: Ints, interned: Fields, texts: Texts) -> None:
        for table in (CATEGORIES, NAMES, NOTE_NAMES, NOTE_TEXTS):
            rows = np.flatnonzero(interned.are(table, varint=False))
            entries = interned.inner(rows)
            iid, text = entries.last(entries.are(1)), entries.last(entries.are(2))
            which = np.flatnonzero((iid >= 0) & (text >= 0))
            which = which[entries.wire[iid[which]] == VARINT]
            definitions = Definitions(
                packet[interned.message[rows[which]]],
                entries.value[iid[which]],
                texts.of(entries, text[which]).astype(np.uint64),
            )
            self._texts.setdefault(table, []).append(definitions)

    def state(self) -> State:
        """Return the values that packets omit, all of them read."""
        sequence, cleared = joined(self._columns, np.uint64, np.bool_)
        writer = np.searchsorted(np.unique(sequence), sequence)
        order = np.argsort(writer, kind="stable")
        begins = cleared[order]
        begins[1:] |= writer[order][1:] != writer[order][:-1]
        generation = np.empty(len(order), np.int64)
        generation[order] = np.cumsum(begins)
        tables = {table: _joined(self._texts.get(table, [])) for table in (1, 2, 3, 29)}
        return State(
            writer,
            generation,
            _latest_value(_joined(self._clocks), generation, BOOT),
            _latest_value(_joined(self._tracks), generation, 0),
            {n: (Latest(generation[d.packet], d.key, d.packet), d.value.astype(np.int64))
             for n, d in tables.items()},
        )  # fmt: skip


def held(packets: Fields, number: int) -> Ints:
    """Return the rows of the messages in a field of packets: the last one of each packet."""
    rows = packets.last(packets.are(number, varint=False))
    return rows[rows >= 0]


def _alone(packet: Ints, value: Wholes) -> Definitions:
    return Definitions(packet, np.zeros(len(packet), np.uint64), value)


def _joined(definitions: list[Definitions]) -> Definitions:
    return Definitions(
        *joined(
            [(chunk.packet, chunk.key, chunk.value) for chunk in definitions], np.int64, np.uint64, np.uint64
        )
    )


def _latest_value(definitions: Definitions, generation: Ints, default: int) -> Wholes:
    """Return the value in force for each packet."""
    if not len(definitions.packet):
        return np.broadcast_to(np.uint64(default), len(generation))
    packets = np.arange(len(generation))
    latest = Latest(generation[definitions.packet], definitions.key, definitions.packet)
    rows = latest.find(generation, np.zeros(len(packets), np.uint64), packets)
    return np.where(rows >= 0, definitions.value[rows], np.uint64(default))
