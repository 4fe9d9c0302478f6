"""Perfetto traces (``.pftrace``): track events with their arguments, and counter tracks.

Field numbers are those of Perfetto's public definitions, protos/perfetto/trace/trace_packet.proto and
track_event/*.proto. Names and texts are written once and referred to by number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final

import numpy as np
import polars as pl

from tracetool.report.export.protobuf import (
    Part,
    constant,
    double_field,
    fixed_field,
    joined,
    message_field,
    one_bytes,
    one_whole,
    whole_field,
)
from tracetool.report.export.timeline import PLACE, Counter, Timeline, distinct

_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDED = 1, 2
_BEGIN, _END, _COUNTER = 1, 2, 4
_AS_LISTED: Final = 3
#: Slices and counter values encoded at a time: what is held in memory.
_WINDOW: Final = 32_768
#: Threads that encode while another one writes.
_ENCODERS: Final = 2
#: Interned texts of one packet.
_TEXTS: Final = 1_000
#: Every packet is of this one writer.
_OWN_SEQUENCE: Final = 1


def write_perfetto(timeline: Timeline, file: BinaryIO) -> None:
    """Write a timeline as a Perfetto trace.

    Parameters
    ----------
    timeline : Timeline
        What to write. Times before 0 cannot be written: the trace then counts from its first moment.
    file : binary file
        Where to.
    """
    shift = -min(timeline.origin_ns, 0)
    texts = _Texts.of(timeline)
    file.writelines(texts.packets())
    file.writelines(_descriptors(timeline))
    for slices in timeline.slices:
        head = one_whole(9, _BEGIN) + one_whole(3, texts.categories[slices.category])
        numbered, of_texts = texts.numbered(slices.frame)
        encoded = partial(_slice_rows, head, texts=texts, of_texts=of_texts, shift=shift)
        file.writelines(_ahead(encoded, numbered.iter_slices(_WINDOW)))
    for counter in timeline.counters:
        windows = (slice(i, i + _WINDOW) for i in range(0, len(counter.time_ns), _WINDOW))
        file.writelines(_counter_rows(counter, window, shift) for window in windows)


def _ahead(encode: Callable[[pl.DataFrame], bytes], windows: Iterable[pl.DataFrame]) -> Iterator[bytes]:
    """Yield what windows become, a few of them encoded while those before are written."""
    with ThreadPoolExecutor(_ENCODERS) as pool:
        waiting: deque[Future[bytes]] = deque()
        for window in windows:
            waiting.append(pool.submit(encode, window))
            if len(waiting) > 2 * _ENCODERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@dataclass(frozen=True)
class _Texts:
    """Texts by their number, from 1, by kind of use."""

    categories: Mapping[str, int]
    names: Mapping[str, int]
    argument_names: Mapping[str, int]
    values: Mapping[str, int]

    @classmethod
    def of(cls, timeline: Timeline) -> _Texts:
        frames = [s.frame for s in timeline.slices]
        arguments = list(dict.fromkeys(c for f in frames for c in f.columns if c not in PLACE))
        texts = [f[c] for f in frames for c in f.columns if c not in PLACE and f.schema[c] == pl.String]
        lists = ([s.category for s in timeline.slices], timeline.names(), arguments, distinct(texts))
        return cls(*({text: i for i, text in enumerate(dict.fromkeys(one), 1)} for one in lists))

    def numbered(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, frozenset[str]]:
        """Return slices with the numbers of their texts in place of these, and which arguments are texts."""
        columns_of_text = [c for c, kind in frame.schema.items() if kind == pl.String]
        texts = {c: self.names if c == "name" else self.values for c in columns_of_text}
        columns = [
            pl.col(c).replace_strict(
                list(numbers), list(numbers.values()), default=None, return_dtype=pl.Int64
            )
            for c, numbers in texts.items()
        ]
        return frame.with_columns(columns), frozenset(texts)

    def packets(self) -> Iterator[bytes]:
        """Yield packets that state the texts."""
        entries = [
            one_bytes(number, one_whole(1, i) + one_bytes(2, text))
            for number, numbered in (
                (1, self.categories), (3, self.argument_names), (2, self.names), (29, self.values)
            )
            for text, i in numbered.items()
        ]  # fmt: skip
        for first in range(0, max(len(entries), 1), _TEXTS):
            body = b"".join(entries[first : first + _TEXTS])
            flags = _NEEDED if first else _CLEARED | _NEEDED
            packet = one_whole(_SEQUENCE, _OWN_SEQUENCE) + one_whole(_FLAGS, flags)
            yield one_bytes(_PACKET, packet + one_bytes(_INTERNED, body))


def _process_uuid(process: int) -> int:
    return 1 + process


def _track_uuid(timeline_track: int) -> int:
    return 1_000 + timeline_track


def _descriptors(timeline: Timeline) -> Iterator[bytes]:
    """Yield packets that state processes and tracks, in the order they are drawn."""
    for i, name in enumerate(timeline.processes):
        process = one_whole(1, i + 1) + one_bytes(6, name)
        ordered = one_whole(11, _AS_LISTED)
        yield _descriptor(one_whole(1, _process_uuid(i)) + one_bytes(3, process) + ordered)
    for i, track in enumerate(timeline.tracks):
        body = one_whole(1, _track_uuid(i)) + one_whole(5, _process_uuid(track.process))
        body += one_bytes(2, track.name) + one_whole(12, i)
        if track.unit:
            body += one_bytes(8, one_bytes(6, track.unit))
        yield _descriptor(body)


def _descriptor(body: bytes) -> bytes:
    return one_bytes(_PACKET, one_whole(_SEQUENCE, _OWN_SEQUENCE) + one_bytes(_DESCRIPTOR, body))


def _event(time_ns: pl.Series, flags: int, *event: Part) -> Part:
    head = one_whole(_SEQUENCE, _OWN_SEQUENCE) + one_whole(_FLAGS, flags)
    stamp = whole_field(_TIMESTAMP, time_ns.to_numpy())
    return message_field(_PACKET, constant(time_ns.len(), head), stamp, message_field(_EVENT, *event))


def _slice_rows(
    head: bytes, window: pl.DataFrame, *, texts: _Texts, of_texts: frozenset[str], shift: int
) -> bytes:
    """Return the begin and the end of each slice, one behind the other; texts are numbers."""
    n = window.height
    start = window["start_ns"] + shift
    uuid = whole_field(11, window["track"].to_numpy() + _track_uuid(0))
    names = whole_field(10, window["name"].fill_null(1).to_numpy())
    arguments = [
        _argument(window[c], texts.argument_names[c], is_text=c in of_texts)
        for c in window.columns
        if c not in PLACE
    ]
    if "flow" in window.columns:
        flow = fixed_field(47, window["flow"].fill_null(0).to_numpy())
        arguments.append(flow.only(window["flow"].is_not_null().to_numpy()))
    begin = _event(start, _NEEDED, constant(n, head), uuid, names, *arguments)
    end = _event(start + window["duration_ns"], _NEEDED, constant(n, one_whole(9, _END)), uuid)
    return joined(begin, end).written()


def _argument(column: pl.Series, number: int, *, is_text: bool) -> Part:
    name = constant(column.len(), one_whole(1, number))
    has_nulls = column.null_count() > 0
    rows = column.is_not_null().to_numpy() if has_nulls else np.ones(column.len(), np.bool_)
    if column.dtype.is_float():
        numbers = column.cast(pl.Float64).fill_null(np.nan).to_numpy() if has_nulls else column.to_numpy()
        rows = rows & np.isfinite(numbers)
        value = double_field(5, numbers)
    else:
        integers = (column.cast(pl.Int64).fill_null(0) if has_nulls else column).to_numpy()
        value = whole_field(2 if column.dtype == pl.Boolean else 17 if is_text else 4, integers)
    return message_field(4, name, value).only(rows)


def _counter_rows(counter: Counter, window: slice, shift: int) -> bytes:
    times, values = counter.time_ns[window], counter.value[window]
    n = len(times)
    head = constant(n, one_whole(9, _COUNTER) + one_whole(11, _track_uuid(counter.track)))
    return _event(pl.Series(times + shift), _NEEDED, head, double_field(44, values)).written()
