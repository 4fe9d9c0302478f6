"""From profiler events to a trace: activities, host calls, operators, ranges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl

from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text, rejected_rows
from tracetool.sources.kineto.columns import decode_args, texts, times_ns, whole_numbers
from tracetool.sources.kineto.events import Chunk, Event

#: Categories in their spellings since 2020, lower case.
ACTIVITIES = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset",
    "memset": "memset",
}  # fmt: skip
CALLS = frozenset(("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "privateuse1_runtime"))
OPERATORS = frozenset(("cpu_op", "operator"))
RANGES = frozenset(("user_annotation",))


class DeviceArgs(msgspec.Struct, gc=False):
    """Arguments of a device activity."""

    device: Any = None
    context: Any = None
    stream: Any = None
    correlation: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=None, name="external id")
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared: Any = msgspec.field(default=None, name="shared memory")
    grid: Any = None
    block: Any = None
    node: Any = msgspec.field(default=None, name="graph node id")
    bytes: Any = None


class CallArgs(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=None, name="external id")
    grid: Any = None
    block: Any = None
    shared: Any = msgspec.field(default=None, name="shared memory")
    size: Any = None


class OperatorArgs(msgspec.Struct, gc=False):
    """Arguments of an operator; lists are kept as the JSON they are."""

    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    dims_old: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Concrete Inputs")
    sequence: Any = msgspec.field(default=None, name="Sequence number")
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=None, name="external id")


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
        groups: dict[str, list[int]] = {}
        # One pass in Python: the decoder has no other way out.
        for i, e in enumerate(chunk.events):
            if e.ph == "X":
                groups.setdefault(e.cat if type(e.cat) is str else "", []).append(i)
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
            "process": whole_numbers(e.pid for e in events),
            "thread": whole_numbers(e.tid for e in events),
            "name": shared_text(texts(e.name for e in events)),
        }
    )


def _geometry(args: list[Any], column: str) -> dict[str, pl.Series]:
    """Return x, y, z of a launch's grid or block."""
    shape = [a if isinstance(a, list) and len(a) == 3 else (None, None, None) for a in
             (getattr(a, column) for a in args)]  # fmt: skip
    return {f"{column}_{axis}": whole_numbers(s[i] for s in shape) for i, axis in enumerate("xyz")}


def _external(args: list[Any]) -> pl.Series:
    return whole_numbers(a.external if a.external is not None else a.external_old for a in args)


def _device_columns(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events = [chunk.events[i] for i in which]
    args = decode_args(events, DeviceArgs)
    start, end = times_ns(chunk, which, base_ns)
    return pl.DataFrame(
        {
            "start_ns": start,
            "end_ns": end,
            "kind": pl.Series([ACTIVITIES[e.cat.lower()] for e in events], dtype=pl.String),
            "name": shared_text(texts(e.name for e in events)),
            "place": pl.Series(which, dtype=pl.Int64) + chunk.first,
            "profiler_device": whole_numbers(
                a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)
            ),
            "stream": whole_numbers(
                a.stream if a.stream is not None else e.tid for a, e in zip(args, events, strict=True)
            ),
            "context": whole_numbers(a.context for a in args),
            "correlation": whole_numbers(a.correlation for a in args),
            "external_id": _external(args),
            "registers_per_thread": whole_numbers(a.registers for a in args),
            "shared_bytes": whole_numbers(a.shared for a in args),
            "graph_node": whole_numbers(a.node for a in args),
            "bytes": whole_numbers(a.bytes for a in args),
            **_geometry(args, "grid"),
            **_geometry(args, "block"),
        }
    ).with_columns(place_of=pl.lit("event"))


def _call_columns(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events: list[Event] = [chunk.events[i] for i in which]
    args = decode_args(events, CallArgs)
    more = {
        "correlation": whole_numbers(a.correlation for a in args),
        "external_id": _external(args),
        "shared": whole_numbers(a.shared for a in args),
        **_geometry(args, "grid"),
        **_geometry(args, "block"),
    }
    frame = _intervals(chunk, which, base_ns).with_columns(name=pl.col("name").fill_null("?"))
    return with_call_kinds(frame.with_columns(**more))


def _raw_texts(raws: list[bytes]) -> pl.Series:
    if not any(raws):
        return pl.Series([None] * len(raws), dtype=pl.String)
    return shared_text(
        pl.Series([r.decode("utf-8", "replace") if r else None for r in raws], dtype=pl.String)
    )


def _operator_columns(chunk: Chunk, which: list[int], base_ns: int) -> pl.DataFrame:
    events: list[Event] = [chunk.events[i] for i in which]
    args = decode_args(events, OperatorArgs)
    return _intervals(chunk, which, base_ns).with_columns(
        input_dims=_raw_texts([bytes(a.dims or a.dims_old) for a in args]),
        input_types=_raw_texts([bytes(a.types) for a in args]),
        concrete_inputs=_raw_texts([bytes(a.concrete) for a in args]),
        sequence=whole_numbers(a.sequence for a in args),
        external_id=_external(args),
    )
