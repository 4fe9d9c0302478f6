"""Perfetto traces that PyTorch's CUPTI monitor writes, as columns of the events of its JSON export.

The writer (``torch/csrc/profiler/cupti/monitor_pftrace.cpp``) states tracks, one table of names, and per kind
of event all begins of slices, then all their ends in the same order. Every argument of the JSON is a debug
annotation of the same name; categories are left out, so arguments that only its kind has identify an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.core.arrays import Texts as Cells
from tracetool.sources.io.protobuf_columns import (
    Fields,
    Texts,
    Wholes,
    joined,
    read_fields,
    signed_wholes,
)
from tracetool.sources.io.protobuf_frames import windows
from tracetool.sources.last_definitions import Latest
from tracetool.sources.pytorch.columns import EXACT_US
from tracetool.sources.pytorch.gather import MODULE_PREFIX
from tracetool.sources.pytorch.perfetto_notes import PYTHON, Arguments, Notes
from tracetool.sources.pytorch.tables import EVENTS_AT_ONCE, Columns

#: Of TracePacket, TrackEvent and TrackDescriptor.
_TIME, _EVENT, _INTERNED, _STAGE, _TRACK = 8, 11, 12, 53, 60
_BEGIN, _END = 1, 2
#: Up to here a double of microseconds is exact to the nanosecond. [ns]
_FARTHEST_NS = int(EXACT_US) * 1000
#: Times a double's reach from here still have 64 bits. [ns]
_LATEST_NS = np.uint64((1 << 63) - 1 - _FARTHEST_NS)
#: Up to here a double is exact. [1] By definition.
_EXACT = np.uint64(1 << 53)


@dataclass(frozen=True)
class Slices:
    """Slices in the file's order: the number of each name, its track, and its times. [ns]"""

    name: Ints
    track: Wholes
    start_ns: Wholes
    end_ns: Wholes

    def only(self, rows: Bools | Ints) -> Slices:
        """Return some of them."""
        return Slices(self.name[rows], self.track[rows], self.start_ns[rows], self.end_ns[rows])


@dataclass
class Recorded:
    """Slices of a trace, in the file's order, and the records beside them.

    Parameters
    ----------
    slices : Slices
        Those that ended, without those out of range.
    arguments : Arguments
        What they state.
    tracks : dict of int to (int, int)
        Process and thread of each track, None where it states none.
    texts : list of str
        Texts by their number.
    base_ns : int
        What times count from. [ns]
    out_of_range : list of str
        Names of slices months away from all others.
    open_slices : int
        Begins without an end.
    stages : int
        GPU work stated as render stages, which are not read.
    """

    slices: Slices
    arguments: Arguments
    tracks: dict[int, tuple[int | None, int | None]]
    texts: list[str]
    base_ns: int = 0
    out_of_range: list[str] = field(default_factory=list)
    open_slices: int = 0
    stages: int = 0


def recorded(raw: bytes) -> Recorded:
    """Return the events of a trace.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    """
    reader = _Reader()
    for window in windows(raw):
        reader.take(read_fields(raw, window.starts, window.ends).sound())
    return reader.result()


@dataclass
class _Reader:
    """A trace while it is read: its packets first, then the events in them."""

    texts: Texts = field(default_factory=Texts)
    tracks: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    packets: int = 0
    stages: int = 0
    #: Packets, keys and texts of the table of names.
    names: list[tuple[Numbers, ...]] = field(default_factory=list)
    #: Where events lie: bytes, packets, times, starts, ends.
    waiting: list[tuple[bytes, Ints, Wholes, Ints, Ints]] = field(default_factory=list)

    def take(self, packets: Fields) -> None:
        """Take in the next packets."""
        self.stages += int((packets.last_bytes(_STAGE) >= 0).sum())
        for number, learn in ((_TRACK, self._learn_tracks), (_INTERNED, self._learn_names)):
            rows = packets.last_bytes(number)
            with_field = np.flatnonzero(rows >= 0)
            if len(with_field):
                learn(with_field + self.packets, packets.inner(rows[with_field]))
        rows = packets.last_bytes(_EVENT)
        with_field = np.flatnonzero(rows >= 0)
        start = packets.start[rows[with_field]]
        end = start + packets.value[rows[with_field]].astype(np.int64)
        time_ns = packets.last_wholes(_TIME)[with_field]
        self.waiting.append((packets.raw, with_field + self.packets, time_ns, start, end))
        self.packets += packets.messages

    def _learn_tracks(self, _: Ints, tracks: Fields) -> None:
        threads, processes = tracks.last_bytes(4), tracks.last_bytes(3)
        rows = np.where(threads >= 0, threads, processes)
        with_field = np.flatnonzero(rows >= 0)
        stated = tracks.inner(rows[with_field])
        where = np.full((2, tracks.messages), None, np.object_)
        for which, number in enumerate((1, 2)):
            where[which, with_field] = signed_wholes(stated.last_wholes(number))
        self.tracks.update(
            zip(tracks.last_wholes(1).tolist(), zip(*where.tolist(), strict=True), strict=True)
        )

    def _learn_names(self, packet: Ints, interned: Fields) -> None:
        rows = np.flatnonzero(interned.are(2, varint=False))
        entries = interned.inner(rows)
        text = np.zeros(entries.messages, np.int64)
        spelled = entries.last_bytes(2)
        with_field = np.flatnonzero(spelled >= 0)
        text[with_field] = self.texts.of(entries, spelled[with_field])
        self.names.append((packet[interned.message[rows]], entries.last_wholes(1), text))

    def result(self) -> Recorded:
        """Return the content of the packets."""
        packet, key, text = joined(self.names, np.int64, np.uint64, np.int64)
        names = Latest(np.zeros(len(packet), np.int64), key, packet)
        notes, count = Notes(self.texts), 0
        event_columns: list[tuple[Numbers, ...]] = []
        for raw, packets, time_ns, start, end in self.waiting:
            events = read_fields(raw, start, end).sound()
            kind = events.last_wholes(9)
            begins = kind == _BEGIN
            notes.take(events, np.where(begins, count + np.cumsum(begins) - 1, -1))
            count += int(begins.sum())
            name = self._named(events, packets, names, text)
            timed = begins | (kind == _END)
            columns = (begins, name, events.last_wholes(11), time_ns)
            event_columns.append(tuple(column[timed] for column in columns))
        self.waiting.clear()
        begins, name, track, time_ns = joined(event_columns, np.bool_, np.int64, np.uint64, np.uint64)
        end = _ends(track, begins)
        slices = Slices(
            name[begins], track[begins], time_ns[begins], time_ns[end] if len(end) else time_ns[:0]
        )
        return self._recorded(slices, end >= 0, notes)

    def _named(self, events: Fields, packets: Ints, names: Latest, text: Ints) -> Ints:
        """Return the number of each event's name: as spelled, else by its number in the table of names."""
        rows = names.find(np.zeros(events.messages, np.int64), events.last_wholes(10), packets)
        name = np.where(rows >= 0, text[rows], 0) if len(text) else np.zeros(events.messages, np.int64)
        spelled = events.last_bytes(23)
        with_field = np.flatnonzero(spelled >= 0)
        stated = self.texts.of(events, spelled[with_field])
        name[with_field] = np.where(stated > 0, stated, name[with_field])
        return name

    def _recorded(self, slices: Slices, ended: Bools, notes: Notes) -> Recorded:
        base_ns, near = 0, ended.copy()
        if ended.any():
            # A damaged time must not move the others: they count from the median.
            starts = slices.start_ns[ended]
            base = np.minimum(np.partition(starts, len(starts) // 2)[len(starts) // 2], _LATEST_NS)
            near &= _distance(slices.start_ns, base) < _FARTHEST_NS
            base_ns = int(base)
        number = np.where(near, np.cumsum(near) - 1, -1)
        listed = self.texts.listed
        return Recorded(
            slices.only(near), notes.arguments(number), self.tracks, listed, base_ns,
            [listed[n] for n in slices.name[ended & ~near].tolist()],
            int((~ended).sum()), self.stages,
        )  # fmt: skip


def _distance(a: Wholes, b: Wholes | np.uint64) -> Wholes:
    """Return the absolute difference of numbers."""
    return np.maximum(a, b) - np.minimum(a, b)


def _ends(track: Wholes, begins: Bools) -> Ints:
    """Return the row of each begin's end, -1 where there is none.

    Parameters
    ----------
    track : array of uint64
        The track of each begin and end, in the file's order.
    begins : array of bool
        Which of them are begins.

    Notes
    -----
    The first begin of a track that waits takes the next end; an end that finds none waiting is left out: it
    takes the count of those waiting to a new low.
    """
    of_track = np.unique(track, return_inverse=True)[1]
    order = np.argsort(of_track, kind="stable")
    group, begin = of_track[order], begins[order]
    steps = np.cumsum(np.where(begin, 1, -1))
    first = np.flatnonzero(np.diff(group, prepend=-1))
    outside = np.concatenate([[0], steps])[first]
    floor = -group * (2 * len(group) + 2)
    level = steps - np.repeat(outside, np.diff(first, append=len(group))) + floor
    lowest = np.minimum(np.concatenate([floor[:1], np.minimum.accumulate(level)[:-1]]), floor)
    ends_within = np.flatnonzero(~begin & (level >= lowest))
    waiting, ending = group[begin], group[ends_within]
    turn = np.arange(len(ends_within)) - np.searchsorted(ending, ending) + np.searchsorted(waiting, ending)
    number = np.empty(len(group), np.int64)
    number[begins] = np.arange(len(waiting))
    end = np.full(len(waiting), -1)
    end[number[order[begin]][turn]] = order[ends_within]
    return end


def fill(columns: Columns, met: Recorded) -> None:
    """Put the events of a trace into the columns of a profiler file."""
    for first, last in _blocks(len(met.slices.name)):
        slices = met.slices.only(np.arange(first, last))
        names, which = np.unique(slices.name, return_inverse=True)
        spelled = np.array([met.texts[number] for number in names.tolist()], np.object_)[which]
        where = [met.tracks.get(track, (None, None)) for track in slices.track.tolist()]
        cells: dict[str, Cells] = {
            "name": spelled,
            "cat": _categories(met, names, which, first, last),
            "pid": np.array([pid for pid, _ in where], np.object_),
            "tid": np.array([tid for _, tid in where], np.object_),
            "ts": _microseconds(slices.start_ns, np.uint64(met.base_ns)).astype(np.object_),
            "dur": _microseconds(slices.end_ns, slices.start_ns).astype(np.object_),
        }
        columns.add_cells(first, cells, partial(met.arguments.cells, first=first, last=last))


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, EVENTS_AT_ONCE):
        yield first, min(first + EVENTS_AT_ONCE, count)


def _microseconds(later: Wholes, earlier: Wholes | np.uint64) -> Floats:
    """Return times between, each rounded once. [us]"""
    apart = _distance(later, earlier)
    between = np.where(later >= earlier, 1, -1) * apart.astype(np.float64) / 1000
    earlier = np.broadcast_to(earlier, len(later))
    for row in np.flatnonzero(apart > _EXACT).tolist():  # of a damaged file
        between[row] = (int(later[row]) - int(earlier[row])) / 1000
    return between


def _categories(met: Recorded, names: Ints, which: Ints, first: int, last: int) -> Cells:
    """Return the category that the JSON export gives each event, recognized by its arguments."""
    listed = [met.texts[number] for number in names.tolist()]

    def named(*tests: list[bool]) -> list[Bools]:
        return [np.array(test, np.bool_)[which] for test in tests]

    def has(name: str) -> Bools:
        return met.arguments.have(name, first, last)

    memset, memcpy, module, operator = named(
        [n.lower().startswith("memset") for n in listed],
        [n.lower().startswith("memcpy") for n in listed],
        [n.startswith(MODULE_PREFIX) for n in listed],
        ["::" in n for n in listed],
    )
    on_device = has("device") & has("stream") & ~has("cuda_sync_kind")
    identified = has("External id") | has("Record function id")
    operator |= has("Input Dims") | has("Sequence number")
    rules = (
        (on_device & (has("grid") | has("registers per thread")), "kernel"),
        (on_device & memset, "gpu_memset"),
        (on_device & (has("bytes") | memcpy), "gpu_memcpy"),
        (on_device, "gpu_user_annotation"),
        (has("cbid"), "cuda_runtime"),
        (module | has(PYTHON), "python_function"),
        (identified & operator, "cpu_op"),
        (identified, "user_annotation"),
    )
    categories = np.full(last - first, "", np.object_)
    for applies, category in reversed(rules):
        categories[applies] = category
    return categories
