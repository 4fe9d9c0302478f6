"""Slices, counters and tracks of a Perfetto trace, packet by packet: the columns are held against it.

Source: Perfetto's ``trace_packet.proto``, ``track_event.proto``, ``track_descriptor.proto``,
``counter_descriptor.proto`` and ``clock_snapshot.proto``; "Synchronization of multiple clock domains" in its
documentation.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracetool.sources.io.protobuf import BYTES, FIXED64, fields, signed

#: Field numbers of a packet.
_PACKET = 1
_CLOCKS, _TIME, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _CLEARED = 6, 8, 10, 11, 12, 13, 41
_COMPRESSED, _STAGE, _CLOCK, _DEFAULTS, _TRACK = 50, 53, 58, 59, 60
_STATE_CLEARED = 1
_SLICE_BEGIN, _COUNT = 1, 4
#: A packed trace may grow by this factor; more is a bomb.
_MOST_GROWTH = 400
#: Time since boot; clocks in the span belong to one sequence of packets alone.
_BOOT, _OWN_CLOCKS = 6, range(64, 128)


@dataclass
class Slice:
    """The beginning of a slice; what a profiler says of it stands in its annotations."""

    name: str
    category: str
    notes: dict[str, int | float | str]
    track: int = 0


@dataclass
class Track:
    """A track: its name, and of a counter its unit and what one step is."""

    name: str = ""
    unit: str = ""
    step: int = 1
    adds: bool = False  # whether each value counts from the one before
    total: float = 0.0


@dataclass(frozen=True)
class Count:
    """A counter's value; ``time_ns`` is since boot, None where the trace does not tell."""

    track: int
    category: str
    time_ns: int | None
    value: float


@dataclass
class Events:
    """What a trace holds."""

    slices: list[Slice] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    tracks: dict[int, Track] = field(default_factory=dict)
    #: GPU work stated as render stages (Perfetto's ``GpuRenderStageEvent``), which are not read.
    stages: int = 0


@dataclass
class _OwnClock:
    """A clock of one sequence: its last time, whether times count from it, what leads to boot time. [ns]"""

    last_ns: int
    adds: bool
    step_ns: int
    to_boot_ns: int


@dataclass
class _Sequence:
    """What packets of one writer leave out because it was said before."""

    categories: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    note_names: dict[int, str] = field(default_factory=dict)
    note_texts: dict[int, str] = field(default_factory=dict)
    clocks: dict[int, _OwnClock] = field(default_factory=dict)
    clock: int = _BOOT
    track: int = 0


@dataclass
class _Reader:
    """A trace while it is read."""

    events: Events = field(default_factory=Events)
    sequences: dict[int, _Sequence] = field(default_factory=dict)
    to_boot_ns: dict[int, int] = field(default_factory=dict)

    def take(self, packet: memoryview) -> None:
        """Take in one packet."""
        parts: dict[int, memoryview] = {}
        numbers = {_SEQUENCE: 0, _FLAGS: 0, _CLEARED: 0}
        for number, _, value in fields(packet):
            if isinstance(value, int):
                numbers[number] = value
            else:
                parts[number] = value
        key = numbers[_SEQUENCE]
        if numbers[_FLAGS] & _STATE_CLEARED or numbers[_CLEARED] or key not in self.sequences:
            old = self.sequences.get(key)
            self.sequences[key] = _Sequence(clocks=old.clocks if old else {})
        state = self.sequences[key]
        if _DEFAULTS in parts:
            _learn_defaults(parts[_DEFAULTS], state)
        if _CLOCKS in parts:
            self._learn_clocks(parts[_CLOCKS], state)
        if _INTERNED in parts:
            _learn(parts[_INTERNED], state)
        if _TRACK in parts:
            self._learn_track(parts[_TRACK])
        time_ns = (
            self._time(numbers[_TIME], numbers.get(_CLOCK, state.clock), state) if _TIME in numbers else None
        )
        self.events.stages += _STAGE in parts
        if _EVENT in parts:
            self._event(parts[_EVENT], time_ns, state)

    def _time(self, stamp: int, clock: int, state: _Sequence) -> int | None:
        """Return a packet's time since boot. [ns]"""
        if clock not in _OWN_CLOCKS:
            return stamp if clock == _BOOT else stamp + self.to_boot_ns.get(clock, 0)
        clock_ns = state.clocks.get(clock)
        if clock_ns is None:
            return None
        clock_ns.last_ns = stamp * clock_ns.step_ns + (clock_ns.last_ns if clock_ns.adds else 0)
        return clock_ns.last_ns + clock_ns.to_boot_ns

    def _learn_clocks(self, raw: memoryview, state: _Sequence) -> None:
        readings = [
            {n: v for n, _, v in fields(value) if isinstance(v, int)}
            for number, _, value in fields(raw)
            if number == 1 and isinstance(value, memoryview)
        ]
        boot_ns = next((r.get(2, 0) for r in readings if r.get(1) == _BOOT), None)
        for reading in readings:
            clock, step_ns = reading.get(1, 0), reading.get(4) or 1
            at_ns = reading.get(2, 0) * step_ns
            if boot_ns is None:
                continue
            if clock in _OWN_CLOCKS:
                state.clocks[clock] = _OwnClock(at_ns, bool(reading.get(3)), step_ns, boot_ns - at_ns)
            else:
                self.to_boot_ns[clock] = boot_ns - at_ns

    def _learn_track(self, raw: memoryview) -> None:
        uuid, track = 0, Track()
        for number, _, value in fields(raw):
            if number == 1 and isinstance(value, int):
                uuid = value
            elif number in (2, 10):
                track.name = _text(value)
            elif number == 8 and isinstance(value, memoryview):
                for inner, _, content in fields(value):
                    if inner == 6:
                        track.unit = _text(content)
                    elif inner == 4 and isinstance(content, int):
                        track.step = signed(content) or 1
                    elif inner == 5 and isinstance(content, int):
                        track.adds = bool(content)
        old = self.events.tracks.get(uuid)
        if old is None or track.name:  # a track may be described again, with less
            self.events.tracks[uuid] = track

    def _event(self, raw: memoryview, time_ns: int | None, state: _Sequence) -> None:
        kind = 0
        parsed = Slice("", "", {}, state.track)
        count: float | None = None
        for number, wire, value in fields(raw):
            if number == 9 and isinstance(value, int):
                kind = value
            elif number == 10 and isinstance(value, int):
                parsed.name = state.names.get(value, "")
            elif number == 23:
                parsed.name = _text(value)
            elif number == 3 and isinstance(value, int):
                parsed.category = state.categories.get(value, "")
            elif number == 22:
                parsed.category = _text(value)
            elif number == 11 and isinstance(value, int):
                parsed.track = value
            elif number == 30 and isinstance(value, int):
                count = float(signed(value))
            elif number == 44 and wire == FIXED64 and isinstance(value, memoryview):
                count = float(struct.unpack("<d", value)[0])
            elif number == 4 and isinstance(value, memoryview):
                name, note = _note(value, state)
                parsed.notes[name] = note
        if kind == _SLICE_BEGIN:
            self.events.slices.append(parsed)
        elif kind == _COUNT and count is not None:
            track = self.events.tracks.setdefault(parsed.track, Track())
            track.total = count + (track.total if track.adds else 0.0)
            self.events.counts.append(Count(parsed.track, parsed.category, time_ns, track.total * track.step))


def read_events(raw: bytes) -> Events:
    """Return the slices, counters and tracks of a trace.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    zlib.error
        If packed packets in it are.
    """
    reader = _Reader()
    for packet in _packets(memoryview(raw)):
        reader.take(packet)
    return reader.events


def slices(raw: bytes) -> Iterator[Slice]:
    """Yield the slices of a trace, as :func:`read_events` reads them."""
    yield from read_events(raw).slices


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


def _text(raw: memoryview | int) -> str:
    return bytes(raw).decode("utf-8", "replace") if isinstance(raw, memoryview) else str(raw)


def _learn_defaults(raw: memoryview, state: _Sequence) -> None:
    for number, _, value in fields(raw):
        if number == _CLOCK and isinstance(value, int):
            state.clock = value
        elif number == 11 and isinstance(value, memoryview):
            for inner, _, content in fields(value):
                if inner == 11 and isinstance(content, int):
                    state.track = content


def _learn(raw: memoryview, state: _Sequence) -> None:
    tables = {1: state.categories, 2: state.names, 3: state.note_names, 29: state.note_texts}
    for number, _, value in fields(raw):
        if number in tables and isinstance(value, memoryview):
            entry = {n: v for n, _, v in fields(value)}
            iid = entry.get(1)
            if isinstance(iid, int) and 2 in entry:
                tables[number][iid] = _text(entry[2])


def _note(raw: memoryview, state: _Sequence) -> tuple[str, int | float | str]:
    name = ""
    note: int | float | str = ""
    for number, kind, value in fields(raw):
        if number == 1 and isinstance(value, int):
            name = state.note_names.get(value, "")
        elif number == 10:
            name = _text(value)
        elif number in (2, 3, 7) and isinstance(value, int):
            note = value
        elif number == 4 and isinstance(value, int):
            note = signed(value)
        elif number == 5 and kind == FIXED64 and isinstance(value, memoryview):
            note = float(struct.unpack("<d", value)[0])
        elif number == 6:
            note = _text(value)
        elif number == 17 and isinstance(value, int):
            note = state.note_texts.get(value, "")
    return name, note
