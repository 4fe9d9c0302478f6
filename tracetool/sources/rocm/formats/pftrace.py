"""Perfetto traces (``.pftrace``) that rocprofv3 and ``tracetool export`` write."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.protobuf import BYTES, FIXED64, BrokenMessage, fields, signed
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.rocm.dispatches import BOOT, copy_name, flat_launch, number_devices, plain_names

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
    if event is not None and (parsed := _slice(event, state)) is not None:
        yield parsed


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
    parsed = Slice("", "", {})
    for number, _, value in fields(raw):
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
        elif number == 4 and isinstance(value, memoryview):
            name, note = _note(value, state)
            parsed.notes[name] = note
    return parsed if kind == _SLICE_BEGIN else None


def _note(raw: memoryview, state: _Interned) -> tuple[str, int | float | str]:
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


_CALLS = ("hip_api", "hsa_api", "rccl_api", "host_call")
_KERNELS = ("kernel_dispatch", "kernel")
_COPIES = ("memory_copy", "memcpy", "memset")
_RANGES = ("marker_api", "range")
#: Only ``tracetool export`` calls its slices so.
_EXPORTED = ("kernel", "memcpy", "memset")
#: How its first packet begins: sequence 1, a new state, interned texts.
_EXPORTED_HEAD = b"P\x01h\x03b"


def sniff(probe: Probe) -> float:
    """Score: packets behind one another, and the profiler's categories or annotations in them."""
    binary = b"\0" in probe.head[:4096] or _EXPORTED_HEAD in probe.head[:16]
    if probe.head[:1] != b"\n" or not binary:
        return 0.0
    return 1.0 if b"begin_ns" in probe.head or b"kernel_dispatch" in probe.head else 0.3


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If it is cut short or damaged, or holds no slice of rocprofv3.
    """
    options.progress.step(f"reading {path.name}")
    try:
        events = [s for s in slices(unpacked_bytes(path, options.max_ratio)) if "begin_ns" in s.notes]
    except (BrokenMessage, zlib.error) as error:
        raise BadInput.in_file(
            path, f"is a cut or damaged Perfetto trace: {error}", "copy it again"
        ) from error
    if not events:
        raise BadInput.in_file(
            path,
            "is a Perfetto trace without slices of rocprofv3",
            "record with rocprofv3 --output-format pftrace",
        )
    exported = any(s.category in _EXPORTED for s in events)
    trace = Trace("tracetool export" if exported else "rocprofv3", BOOT)
    kernels = _kernels([s for s in events if s.category in _KERNELS])
    copies = _copies([s for s in events if s.category in _COPIES])
    trace.activities, trace.devices = number_devices(pl.concat([kernels, copies], how="diagonal"))
    trace.host_calls = with_call_kinds(_intervals([s for s in events if s.category in _CALLS]))
    trace.ranges = _intervals([s for s in events if s.category in _RANGES]).drop("correlation")
    if exported:
        trace.devices = trace.devices.with_columns(vendor=pl.lit(None, pl.String))
    else:
        trace.warnings.append(
            "the profiler's writer moves ends and starts of overlapping dispatches to their middle: durations"
            " are edited (its CSV, JSON and rocpd outputs are not)"
        )
    trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _whole(events: Sequence[Slice], *names: str) -> pl.Series:
    """Return an annotation under the first name it has; the number in it if it is text."""
    values = []
    for s in events:
        note = next((s.notes[n] for n in names if n in s.notes), None)
        if isinstance(note, str):
            digits = re.search(r"\d{1,18}", note)
            note = int(digits[0]) if digits else None
        values.append(int(note) if note is not None and abs(note) < 2**63 else None)  # false for nan
    return pl.Series(values, dtype=pl.Int64)


def _timed(events: Sequence[Slice]) -> dict[str, pl.Series]:
    return {
        "start_ns": _whole(events, "begin_ns"),
        "end_ns": _whole(events, "end_ns"),
        "name": pl.Series([s.name for s in events], dtype=pl.String),
        "correlation": _whole(events, "corr_id", "correlation_id"),
    }


def _kernels(events: Sequence[Slice]) -> pl.DataFrame:
    """Return the dispatches. Grid and block are products of their axes, the grid in work-items."""
    frame = pl.DataFrame(
        {
            **_timed(events),
            "profiler_device": _whole(events, "agent", "agent_id"),
            "stream": _whole(events, "stream_ID", "stream_id", "queue"),
            "items": _whole(events, "grid_size"),
            "block": _whole(events, "workgroup_size"),
            "shared_dynamic_bytes": _whole(events, "LDS_Block_Size", "group_segment_size"),
            "vgpr": _whole(events, "VGPR_Count"),
            "accum": _whole(events, "Accum_VGPR_Count"),
        }
    ).with_row_index("place")
    return frame.with_columns(
        name=plain_names(frame["name"]),
        kind=pl.lit("kernel"),
        **flat_launch(),
        place_of=pl.lit("dispatch"),
    ).drop("items", "block", "vgpr", "accum")  # fmt: skip


def _copies(events: Sequence[Slice]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            **_timed(events),
            "profiler_device": _whole(events, "dst_agent", "agent"),
            "stream": _whole(events, "stream_ID"),
            "bytes": _whole(events, "copy_bytes"),
        }
    ).with_row_index("place")
    plain = pl.Series([s.category in _EXPORTED for s in events], dtype=pl.Boolean)
    kinds = pl.Series(["memset" if s.category == "memset" else "memcpy" for s in events], dtype=pl.String)
    return frame.with_columns(
        name=pl.when(plain).then("name").otherwise(copy_name("name")), kind=kinds, place_of=pl.lit("copy")
    )


def _intervals(events: Sequence[Slice]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {**_timed(events), "thread": _whole(events, "tid"), "process": _whole(events, "pid")}
    )
    return frame.select(
        "start_ns", "thread", "process", "correlation", name=clean_text("name"),
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
    )  # fmt: skip


FORMAT = Format(
    title="rocprofv3 Perfetto trace",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format pftrace -- ./app",
    tried="the events its source writes, made by hand",
    sniff=sniff,
    read=read,
    suffixes=(".pftrace",),
    memory_ratio=40.0,
)
