"""Planes, lines and events of XLA's profiler (``tsl/profiler/protobuf/xplane.proto``)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tracetool.sources.io.protobuf import BYTES, VARINT, Message, fields, signed, varint

Value = int | float | str | None
#: Of XSpace, XPlane, XLine, XEvent.
_PLANE = 1
_NAME, _LINES, _EVENTS_KNOWN, _STATS_KNOWN, _PLANE_STATS = 2, 3, 4, 5, 6
_LINE_NAME, _LINE_START, _EVENTS = 2, 3, 4
_EVENT_OF, _OFFSET_PS, _LENGTH_PS, _EVENT_STATS = 1, 2, 3, 4


@dataclass
class Event:
    """One event; times count from the profile's start, in files not normalized from 1970. [ns]"""

    name: str
    start_ns: int
    duration_ns: int
    line: int
    stats: dict[str, Value]


@dataclass
class Plane:
    """A host or a device: its own facts, what its events may be, and its lines unread."""

    name: str
    stats: dict[str, Value] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    #: Bytes kept with an event's name (modules of the compiler), by the name's number.
    attached: dict[int, memoryview] = field(default_factory=dict)
    lines: list[memoryview] = field(default_factory=list)
    known_stats: dict[int, str] = field(default_factory=dict)

    def events(
        self,
        of_line: Callable[[str], bool],
        of_name: Callable[[str], bool] = lambda _: True,
        begun_ns: int = 0,
    ) -> Iterator[Event]:
        """Yield the events of the lines and names asked for; a line without a start began at ``begun_ns``.

        Raises
        ------
        BrokenMessage
            If a line is damaged.
        """
        numbers = {number for number, name in self.names.items() if of_name(name)}
        stats: dict[bytes, tuple[str, Value]] = {}  # most repeat from event to event
        for place, raw in enumerate(self.lines):
            line = Message(raw)
            if not of_line(line.text(_LINE_NAME)):
                continue
            number = signed(line.number(1, place))
            start_ns = signed(line.number(_LINE_START)) or begun_ns
            for event in line.raws(_EVENTS):
                which = _first_number(event)
                if which in numbers:
                    yield self._event(event, which, number, start_ns, stats)

    def first_start_ns(self, of_line: Callable[[str], bool]) -> int:
        """Return the earliest start of the lines asked for, 0 where there are none. [ns]"""
        lines = (line for line in map(Message, self.lines) if of_line(line.text(_LINE_NAME)))
        return min((signed(line.number(_LINE_START)) for line in lines), default=0)

    def _event(
        self, raw: memoryview, which: int, line: int, start_ns: int, met: dict[bytes, tuple[str, Value]]
    ) -> Event:
        offset = length = 0
        stated: dict[str, Value] = {}
        for number, kind, value in fields(raw):
            if number == _OFFSET_PS and kind == VARINT and isinstance(value, int):
                offset = signed(value)
            elif number == _LENGTH_PS and kind == VARINT and isinstance(value, int):
                length = signed(value)
            elif number == _EVENT_STATS and kind == BYTES and isinstance(value, memoryview):
                spelled = bytes(value)
                if spelled not in met:
                    if len(met) > 1 << 20:
                        met.clear()
                    met[spelled] = self.stat(value)
                name, content = met[spelled]
                stated[name] = content
        return Event(
            self.names[which], start_ns + (offset + 500) // 1000, (length + 500) // 1000, line, stated
        )

    def stat(self, raw: memoryview) -> tuple[str, Value]:
        """Return name and value of a statistic; one that refers to a name is that name."""
        name = ""
        content: Value = None
        for number, _, value in fields(raw):
            if number == 1 and isinstance(value, int):
                name = self.known_stats.get(value, "")
            elif number == 2 and isinstance(value, memoryview) and len(value) == 8:
                content = float(struct.unpack("<d", value)[0])
            elif number == 3 and isinstance(value, int):
                content = value
            elif number == 4 and isinstance(value, int):
                content = signed(value)
            elif number == 5 and isinstance(value, memoryview):
                content = bytes(value).decode("utf-8", "replace")
            elif number == 7 and isinstance(value, int):
                content = self.known_stats.get(value, "")
        return name, content


def _first_number(event: memoryview) -> int:
    """Return which name an event has: its first field."""
    if len(event) and event[0] == _EVENT_OF << 3:
        return varint(event, 1)[0]
    return next((v for n, _, v in fields(event) if n == _EVENT_OF and isinstance(v, int)), 0)


def planes(raw: bytes) -> Iterator[Plane]:
    """Yield the planes of a profile.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    """
    for number, kind, value in fields(memoryview(raw)):
        if number == _PLANE and kind == BYTES and isinstance(value, memoryview):
            yield _plane(Message(value))


def _plane(stated: Message) -> Plane:
    plane = Plane(stated.text(_NAME), lines=stated.raws(_LINES))
    for entry in stated.messages(_STATS_KNOWN):
        if (entry_value := entry.message(2)) is not None:
            plane.known_stats[entry.number(1)] = entry_value.text(2)
    plane.stats = dict(map(plane.stat, stated.raws(_PLANE_STATS)))
    for entry in stated.messages(_EVENTS_KNOWN):
        entry_value = entry.message(2)
        if entry_value is None:
            continue
        number = entry.number(1)
        plane.names[number] = entry_value.text(2)
        for stat in entry_value.messages(5):
            if (content := stat.raw(6)) is not None:
                plane.attached[number] = content
    return plane
