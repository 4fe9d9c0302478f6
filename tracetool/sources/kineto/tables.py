"""From profiler events to a trace: activities, host calls, operators, ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text, rejected_rows
from tracetool.sources.kineto.columns import texts, times_ns, whole_numbers
from tracetool.sources.kineto.records import NO_ARGS, Args, Chunk, Event

#: Categories in their spellings since 2020, lower case.
ACTIVITIES = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset",
    "memset": "memset",
}  # fmt: skip
CALLS = frozenset(("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "privateuse1_runtime"))
OPERATORS = frozenset(("cpu_op", "operator"))
RANGES = frozenset(("user_annotation",))


_PHASE_AND_CATEGORY = attrgetter("ph", "cat")


@dataclass
class Columns:
    """Tables of the chunks read so far."""

    source: str
    base_ns: int
    activities: list[pl.DataFrame] = field(default_factory=list)
    calls: list[pl.DataFrame] = field(default_factory=list)
    operators: list[pl.DataFrame] = field(default_factory=list)
    ranges: list[pl.DataFrame] = field(default_factory=list)
    rejected: list[pl.DataFrame] = field(default_factory=list)
    categories: set[str] = field(default_factory=set)

    def add(self, chunk: Chunk) -> None:
        """Sort a chunk's events by category and keep their columns."""
        groups = _groups(chunk.events)
        device: list[int] = []
        calls: list[int] = []
        operators: list[int] = []
        ranges: list[int] = []
        for category, found in groups.items():
            low = category.lower()
            for names, into in (
                (ACTIVITIES, device), (CALLS, calls), (OPERATORS, operators), (RANGES, ranges),
            ):  # fmt: skip
                if low in names:
                    into.extend(found)
        self.categories.update(groups)
        if chunk.odd:
            places, odd = zip(*chunk.odd, strict=True)
            self.rejected.append(
                rejected_rows(self.source, [f"event {p}" for p in places], "not an event", odd)
            )
        if device:
            self.activities.append(_device_columns(chunk, sorted(device), self.base_ns))
        if calls:
            self.calls.append(_call_columns(chunk, sorted(calls), self.base_ns))
        if operators:
            self.operators.append(_operator_columns(chunk, sorted(operators), self.base_ns))
        if ranges:
            self.ranges.append(_intervals(chunk, sorted(ranges), self.base_ns))


def _groups(events: Sequence[Event]) -> dict[str, list[int]]:
    """Return the places of complete events by category."""
    pairs = list(map(_PHASE_AND_CATEGORY, events))
    try:
        distinct = set(pairs)
    except TypeError:  # a category that is a list
        pairs = [(p, c) if isinstance(p, str) and isinstance(c, str) else (None, None) for p, c in pairs]
        distinct = set(pairs)
    number = {pair: i for i, pair in enumerate(distinct)}
    numbers = np.fromiter(map(number.__getitem__, pairs), dtype=np.int64, count=len(pairs))
    return {
        category: np.flatnonzero(numbers == i).tolist()
        for (phase, category), i in number.items()
        if phase == "X" and isinstance(category, str)
    }


def shared_text(series: pl.Series) -> pl.Series:
    """Return clean text whose equal values share their bytes: names and shapes repeat a thousandfold."""
    distinct = series.unique()
    clean = distinct.to_frame("t").select(clean_text("t")).to_series()
    if distinct.equals(clean, null_equal=True):
        return series.cast(pl.Categorical).cast(pl.String)
    mended = series.to_frame("t").select(clean_text("t")).to_series()
    return mended.cast(pl.Categorical).cast(pl.String)


def _intervals(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events = [chunk.events[i] for i in which]
    start, end = times_ns(chunk, which, base_ns)
    return pl.DataFrame(
        {
            "start_ns": start,
            "duration_ns": end - start,
            "process": whole_numbers(_column(events, "pid")),
            "thread": whole_numbers(_column(events, "tid")),
            "name": shared_text(texts(_column(events, "name"))),
        }
    )


def _column(records: Sequence[Any], name: str) -> list[Any]:
    """Return one field of many records."""
    return list(map(attrgetter(name), records))


def _args(events: Sequence[Event]) -> list[Args]:
    """Return the arguments of events, empty where there are none."""
    return [e.args or NO_ARGS for e in events]


def _geometry(args: list[Any], column: str) -> dict[str, pl.Series]:
    """Return x, y, z of a launch's grid or block."""
    shapes = _column(args, column)
    names = [f"{column}_{axis}" for axis in "xyz"]
    if shapes.count(None) == len(shapes):
        return {name: pl.Series([None] * len(shapes), dtype=pl.Int64) for name in names}
    try:
        axes = list(zip(*[s if s is not None else _UNKNOWN for s in shapes], strict=True))
    except (TypeError, ValueError):  # some are no lists
        axes = []
    if len(axes) != 3:
        kept = [s if isinstance(s, list) and len(s) == 3 else _UNKNOWN for s in shapes]
        axes = list(zip(*kept, strict=True))
    return {name: whole_numbers(axis) for name, axis in zip(names, axes, strict=True)}


_UNKNOWN = (None, None, None)


def _external(args: list[Any]) -> pl.Series:
    new = _column(args, "external")
    if None in new:
        old = _column(args, "external_old")
        new = [n if n is not None else o for n, o in zip(new, old, strict=True)]
    return whole_numbers(new)


def _else(first: list[Any], second: list[Any]) -> list[Any]:
    """Return the first values, the second ones where there is none."""
    return [a if a is not None else b for a, b in zip(first, second, strict=True)] if None in first else first


def _device_columns(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events = [chunk.events[i] for i in which]
    args = _args(events)
    start, end = times_ns(chunk, which, base_ns)
    return pl.DataFrame(
        {
            "start_ns": start,
            "end_ns": end,
            "kind": pl.Series([ACTIVITIES[c.lower()] for c in _column(events, "cat")], dtype=pl.String),
            "name": shared_text(texts(_column(events, "name"))),
            "place": pl.Series(which, dtype=pl.Int64) + chunk.first,
            "profiler_device": whole_numbers(_else(_column(args, "device"), _column(events, "pid"))),
            "stream": whole_numbers(_else(_column(args, "stream"), _column(events, "tid"))),
            "context": whole_numbers(_column(args, "context")),
            "correlation": whole_numbers(_column(args, "correlation")),
            "external_id": _external(args),
            "registers_per_thread": whole_numbers(_column(args, "registers")),
            "shared_bytes": whole_numbers(_column(args, "shared")),
            "graph_node": whole_numbers(_column(args, "node")),
            "bytes": whole_numbers(_column(args, "bytes")),
            **_geometry(args, "grid"),
            **_geometry(args, "block"),
        }
    ).with_columns(place_of=pl.lit("event"))


def _call_columns(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events: list[Event] = [chunk.events[i] for i in which]
    args = _args(events)
    more = {
        "correlation": whole_numbers(_column(args, "correlation")),
        "external_id": _external(args),
        "shared": whole_numbers(_column(args, "shared")),
        **_geometry(args, "grid"),
        **_geometry(args, "block"),
    }
    frame = _intervals(chunk, which, base_ns).with_columns(name=pl.col("name").fill_null("?"))
    return with_call_kinds(frame.with_columns(**more))


def _raw_texts(raws: Sequence[msgspec.Raw]) -> pl.Series:
    """Return JSON as text, null where there is none."""
    kept = list(map(bytes, raws))
    if not any(kept):
        return pl.Series([None] * len(kept), dtype=pl.String)
    series = pl.Series(kept, dtype=pl.Binary)
    distinct = series.unique()
    spelled = [r.decode("utf-8", "replace") or None for r in distinct.to_list()]
    looked = pl.DataFrame({"raw": distinct, "text": pl.Series(spelled, dtype=pl.String)})
    found = series.to_frame("raw").join(looked, on="raw", how="left", maintain_order="left")["text"]
    return shared_text(found)


def _operator_columns(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events: list[Event] = [chunk.events[i] for i in which]
    args = _args(events)
    return _intervals(chunk, which, base_ns).with_columns(
        input_dims=_raw_texts([a.dims or a.dims_old for a in args]),
        input_types=_raw_texts(_column(args, "types")),
        concrete_inputs=_raw_texts(_column(args, "concrete")),
        sequence=whole_numbers(_column(args, "sequence")),
        external_id=_external(args),
    )
