"""Perfetto traces that PyTorch's CUPTI monitor writes, as the events of its JSON export.

The writer (``torch/csrc/profiler/cupti/monitor_pftrace.cpp``) states tracks, one table of names, and per kind
of event all begins of slices, then all their ends in the same order. Every argument of the JSON is a debug
annotation of the same name; categories are left out, so an event is told by arguments that only its kind has.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracetool.sources.io.protobuf import BYTES, Message, fields, signed
from tracetool.sources.pytorch.columns import EXACT_US
from tracetool.sources.pytorch.gather import MODULE_PREFIX
from tracetool.sources.pytorch.records import Args, Chunk, ProfilerEvent

#: Of TracePacket, TrackEvent and TrackDescriptor.
_TIME, _EVENT, _INTERNED, _STAGE, _TRACK = 8, 11, 12, 53, 60
_BEGIN, _END = 1, 2
#: Up to here a double of microseconds is exact to the nanosecond. [ns]
_FARTHEST_NS = int(EXACT_US) * 1000
#: Events turned into columns at once.
EVENTS_AT_ONCE = 1 << 15


@dataclass
class Recorded:
    """Slices of a trace, in the file's order, and what was met beside them."""

    events: list[ProfilerEvent] = field(default_factory=list)
    base_ns: int = 0
    #: Names of slices months away from all others.
    out_of_range: list[str] = field(default_factory=list)
    #: Begins without an end.
    open_slices: int = 0
    #: GPU work stated as render stages, which are not read.
    stages: int = 0


@dataclass
class _Slice:
    track: int
    name: str
    start_ns: int
    notes: Mapping[str, Any]
    end_ns: int | None = None


def recorded(raw: bytes) -> Recorded:
    """Return the events of a trace, times in microseconds since ``base_ns``.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    """
    tracks: dict[int, tuple[int | None, int | None]] = {}
    names: dict[int, str] = {}
    slices: list[_Slice] = []
    waiting: dict[int, deque[_Slice]] = {}
    result = Recorded()
    for number, kind, value in fields(memoryview(raw)):
        if number != 1 or kind != BYTES or not isinstance(value, memoryview):
            continue
        packet = Message(value)
        if (track := packet.message(_TRACK)) is not None:
            thread = track.message(4) or track.message(3)
            pid, tid = (signed(thread.number(1)), signed(thread.number(2))) if thread else (None, None)
            tracks[track.number(1)] = pid, tid
        if (interned := packet.message(_INTERNED)) is not None:
            names |= {n.number(1): n.text(2) for n in interned.messages(2)}
        result.stages += packet.raw(_STAGE) is not None
        event = packet.message(_EVENT)
        if event is None:
            continue
        time_ns, on = packet.number(_TIME), event.number(11)
        if event.number(9) == _BEGIN:
            name = event.text(23) or names.get(event.number(10), "")
            notes = dict(map(_note, event.messages(4)))
            slices.append(_Slice(on, name, time_ns, notes))
            waiting.setdefault(on, deque()).append(slices[-1])
        elif event.number(9) == _END and waiting.get(on):
            waiting[on].popleft().end_ns = time_ns
    ended = [s for s in slices if s.end_ns is not None]
    result.open_slices = len(slices) - len(ended)
    if not ended:
        return result
    # A damaged time must not move the others: they count from the median.
    result.base_ns = sorted(s.start_ns for s in ended)[len(ended) // 2]
    for s in ended:
        if abs(s.start_ns - result.base_ns) < _FARTHEST_NS:
            result.events.append(_event(s, tracks.get(s.track, (None, None)), result.base_ns))
        else:
            result.out_of_range.append(s.name)
    return result


def _note(stated: Message) -> tuple[str, Any]:
    """Return name and value of a debug annotation."""
    name = stated.text(10)
    # A list without entries leaves nothing behind.
    if (listed := stated.raws(12)) or not any(map(stated.has, (2, 3, 4, 5, 6, 11))):
        return name, [_note(Message(v))[1] for v in listed]
    if entries := stated.raws(11):
        return name, dict(_note(Message(v)) for v in entries)
    if stated.has(6):
        return name, stated.text(6)
    if stated.has(4):
        return name, signed(stated.number(4))
    if (double := stated.raw(5)) is not None and len(double) == 8:
        return name, float(struct.unpack("<d", double)[0])
    return name, bool(stated.number(2)) if stated.has(2) else stated.number(3)


def _event(stated: _Slice, where: tuple[int | None, int | None], base_ns: int) -> ProfilerEvent:
    category = _category(stated.name, stated.notes)
    return ProfilerEvent(
        ph="X", cat=category, name=stated.name, pid=where[0], tid=where[1],
        ts=(stated.start_ns - base_ns) / 1000, dur=((stated.end_ns or 0) - stated.start_ns) / 1000,
        args=_args(stated.notes) if stated.notes else None,
    )  # fmt: skip


def _category(name: str, notes: Mapping[str, Any]) -> str:
    """Return the category that the JSON export gives an event, told by its arguments."""
    if "device" in notes and "stream" in notes and "cuda_sync_kind" not in notes:
        if "grid" in notes or "registers per thread" in notes:
            return "kernel"
        if name.lower().startswith("memset"):
            return "gpu_memset"
        if "bytes" in notes or name.lower().startswith("memcpy"):
            return "gpu_memcpy"
        return "gpu_user_annotation"
    if "cbid" in notes:
        return "cuda_runtime"
    if name.startswith(MODULE_PREFIX) or any(key.startswith("Python ") for key in notes):
        return "python_function"
    if "External id" in notes or "Record function id" in notes:
        operator = "::" in name or "Input Dims" in notes or "Sequence number" in notes
        return "cpu_op" if operator else "user_annotation"
    return ""


#: Annotations by the field of :class:`Args` that holds them.
_FIELDS = dict(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
_RAW = frozenset(n for n, kind in Args.__annotations__.items() if "Raw" in str(kind))


def _args(notes: Mapping[str, Any]) -> Args:
    stated = {f: notes[spelled] for f, spelled in _FIELDS.items() if spelled in notes}
    for name in _RAW & stated.keys():
        value = stated[name]
        # Lists of the JSON export may have been flattened to its text.
        text = value.encode() if isinstance(value, str) and value[:1] == "[" else msgspec.json.encode(value)
        stated[name] = msgspec.Raw(text)
    return Args(**stated)


def chunks(events: Iterable[ProfilerEvent]) -> Iterator[Chunk]:
    """Yield events as chunks of a profiler file."""
    listed = list(events)
    for first in range(0, len(listed), EVENTS_AT_ONCE):
        part = listed[first : first + EVENTS_AT_ONCE]
        yield Chunk(first, list(part), MODULE_PREFIX.encode())
