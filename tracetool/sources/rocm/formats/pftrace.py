"""Perfetto traces (``.pftrace``) that rocprofv3, rocprof-sys and ``tracetool export`` write."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Ints
from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text, each_distinct
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.protobuf import BrokenMessage
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.perfetto_stages import stages_left_out
from tracetool.sources.rocm.counters import SAMPLES, gpu_telemetry, placed, plain_name
from tracetool.sources.rocm.dispatches import BOOT, copy_name, flat_launch, number_devices, plain_names
from tracetool.sources.rocm.event_rows import NUMBER, TEXT, Notes
from tracetool.sources.rocm.track_events import Events, read_events

#: Categories of rocprofv3, those of rocprof-sys (since 2024, before), those of exports.
_CALLS = ("hip_api", "hsa_api", "rccl_api", "rocm_hip_api", "rocm_hsa_api", "rocm_rccl_api", "rocm_hip",
          "rocm_hsa", "host_call")  # fmt: skip
_KERNELS = ("kernel_dispatch", "rocm_kernel_dispatch", "device_hip", "kernel")
_COPIES = ("memory_copy", "rocm_memory_copy", "memcpy", "memset")
_RANGES = ("marker_api", "rocm_marker_api", "rocm_roctx", "range")
_SYSTEMS = tuple(c for c in (*_CALLS, *_KERNELS, *_COPIES, *_RANGES) if c.startswith(("rocm_", "device_")))
#: Only ``tracetool export`` calls its slices so.
_EXPORTED = ("kernel", "memcpy", "memset")
#: Annotations that are read, as the three writers call them.
_NOTES = (
    "begin_ns", "end_ns", "corr_id", "correlation_id", "agent", "agent_id", "device", "node_id", "dst_agent",
    "stream_ID", "stream_id", "queue", "tid", "pid", "grid_size", "workgroup_size", "LDS_Block_Size",
    "group_segment_size", "VGPR_Count", "Accum_VGPR_Count", "copy_bytes",
)  # fmt: skip
#: How its first packet begins: sequence 1, a new state, interned texts.
_EXPORTED_HEAD = b"P\x01h\x03b"


def sniff(probe: Probe) -> float:
    """Score: packets behind one another, and the profiler's categories or annotations in them."""
    binary = b"\0" in probe.head[:4096] or _EXPORTED_HEAD in probe.head[:16]
    if probe.head[:1] != b"\n" or not binary:
        return 0.0
    marks = (b"begin_ns", b"kernel_dispatch", b"device_power", b"device_busy", b"rocm_hip")
    return 1.0 if any(m in probe.head for m in marks) else 0.3


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If it is cut short or damaged, or holds no slice of rocprofv3.
    """
    options.progress.step(f"reading {path.name}")
    try:
        contents = read_events(unpacked_bytes(path, options.max_ratio), _NOTES)
    except (BrokenMessage, zlib.error) as error:
        raise BadInput.in_file(
            path, f"is a cut or damaged Perfetto trace: {error}", "copy it again"
        ) from error
    events = _Slices.of_trace(contents)
    exported = events.any_of(_EXPORTED)
    systems = bool(contents.counts.height) or events.any_of(_SYSTEMS)
    profiler = "tracetool export" if exported else "rocprof-sys" if systems else "rocprofv3"
    trace = Trace(profiler, BOOT)
    activities = pl.concat([_kernels(events.of(_KERNELS)), _copies(events.of(_COPIES))], how="diagonal")
    trace.activities, trace.devices = number_devices(activities)
    trace.host_calls = with_call_kinds(_intervals(events.of(_CALLS)))
    trace.ranges = _intervals(events.of(_RANGES)).drop("correlation")
    if not exported:  # the counters of an export are what tracetool made of a log
        trace.telemetry = placed(gpu_telemetry(_samples(contents), trace.warnings), trace.devices)
    if not events.frame.height and not trace.telemetry.height:
        raise BadInput.in_file(
            path,
            "is a Perfetto trace without slices of rocprofv3 and without power, clocks or load of a GPU",
            "record with rocprofv3 --output-format pftrace",
        )
    if exported:
        trace.devices = trace.devices.with_columns(vendor=pl.lit(None, pl.String))
    elif not systems:
        trace.warnings.append(
            "the profiler's writer moves ends and starts of overlapping dispatches to their middle: durations"
            " are edited (its CSV, JSON and rocpd outputs are not)"
        )
    trace.warnings += stages_left_out(contents.stages)
    trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _gpu_of(names: pl.Series) -> pl.Series:
    """Return the GPU each name of a track or counter states, looked at once per distinct name."""
    return each_distinct(names, lambda texts: pl.Series([plain_name(t)[1] for t in texts], dtype=pl.Int64))


def _samples(contents: Events) -> pl.DataFrame:
    """Return the counters as samples; a track that has no name goes by its category."""
    frame = contents.counts.join(contents.tracks, on="track", how="left", maintain_order="left")
    name = pl.when(pl.col("name") != "").then("name").otherwise("category")
    frame = frame.with_columns(name=name)
    frame = frame.with_columns(gpu=_gpu_of(frame["name"])).select(*SAMPLES)
    return frame.with_columns(clean_text("name"), clean_text("unit"))


def _digits(text: str) -> int | None:
    """Return the number in a text."""
    digits = re.search(r"\d{1,18}", text)
    return int(digits[0]) if digits else None


def _product(text: str) -> int | None:
    """Return the product of the axes in a text: ``(256,1,1)``."""
    axes = [int(d) for d in re.findall(r"\d{1,9}", text)[:3]]
    product = math.prod(axes)
    return product if axes and product < 2**63 else None


@dataclass(frozen=True)
class _Slices:
    """Some slices of a trace: their rows in it, their columns, and what their annotations state."""

    held: Events
    rows: Ints
    frame: pl.DataFrame

    @classmethod
    def of_trace(cls, contents: Events) -> _Slices:
        """Return the slices that state when they began, as profilers do."""
        rows = np.unique(contents.notes["begin_ns"].slice) if contents.notes else np.zeros(0, np.int64)
        return cls(contents, rows, contents.slices[rows])

    def of(self, categories: Collection[str]) -> _Slices:
        """Return those of some categories."""
        chosen = np.flatnonzero(self.frame["category"].is_in(categories).to_numpy())
        return _Slices(self.held, self.rows[chosen], self.frame[chosen])

    def any_of(self, categories: Collection[str]) -> bool:
        """Return whether there are any of some categories."""
        return bool(self.frame["category"].is_in(categories).any())

    def whole(self, *names: str, of_text: Callable[[str], int | None] = _digits) -> pl.Series:
        """Return an annotation under the first name it has; what is read of it if it is text."""
        value, is_stated = (
            np.zeros(self.held.slices.height, np.int64),
            np.zeros(self.held.slices.height, np.bool_),
        )
        for notes in (self.held.notes[name] for name in reversed(names) if self.held.notes):
            value[notes.slice], is_stated[notes.slice] = self._stated(notes, of_text)
        frame = pl.DataFrame({"value": value[self.rows], "known": is_stated[self.rows]})
        return frame.select(pl.when("known").then("value")).to_series()

    def _stated(self, notes: Notes, of_text: Callable[[str], int | None]) -> tuple[Ints, Bools]:
        """Return the numbers that annotations state, each distinct text read once, and which state one."""
        value, is_stated = notes.value.copy(), notes.kind == NUMBER
        texts = np.flatnonzero(notes.kind == TEXT)
        distinct, which = np.unique(value[texts], return_inverse=True)
        read = [of_text(self.held.texts[number]) for number in distinct.tolist()]
        value[texts] = np.array([number or 0 for number in read], np.int64)[which]
        is_stated[texts] = np.array([number is not None for number in read], np.bool_)[which]
        return value, is_stated

    def timed(self) -> dict[str, pl.Series]:
        """Return times, names and correlations."""
        return {
            "start_ns": self.whole("begin_ns"),
            "end_ns": self.whole("end_ns"),
            "name": self.frame["name"],
            "correlation": self.whole("corr_id", "correlation_id"),
        }

    def devices(self) -> pl.Series:
        """Return the GPUs: the agents of rocprofv3; rocprof-sys names them in their tracks."""
        named = self.frame.select("track").join(
            self.held.tracks, on="track", how="left", maintain_order="left"
        )
        gpu = _gpu_of(named["name"]), self.whole("device", "node_id")
        frame = pl.DataFrame({"a": self.whole("agent", "agent_id"), "b": gpu[0], "c": gpu[1]})
        return frame.select(pl.coalesce("a", "b", "c")).to_series()


def _kernels(slices: _Slices) -> pl.DataFrame:
    """Return the dispatches. Grid and block are products of their axes, the grid in work-items."""
    frame = pl.DataFrame(
        {
            **slices.timed(),
            "profiler_device": slices.devices(),
            "stream": slices.whole("stream_ID", "stream_id", "queue"),
            "items": slices.whole("grid_size", of_text=_product),
            "block": slices.whole("workgroup_size", of_text=_product),
            "shared_dynamic_bytes": slices.whole("LDS_Block_Size", "group_segment_size"),
            "vgpr": slices.whole("VGPR_Count"),
            "accum": slices.whole("Accum_VGPR_Count"),
        }
    ).with_row_index("place")
    return frame.with_columns(
        name=plain_names(frame["name"]),
        kind=pl.lit("kernel"),
        **flat_launch(),
        place_of=pl.lit("dispatch"),
    ).drop("items", "block", "vgpr", "accum")  # fmt: skip


def _copies(slices: _Slices) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            **slices.timed(),
            "profiler_device": slices.whole("dst_agent", "agent"),
            "stream": slices.whole("stream_ID"),
            "bytes": slices.whole("copy_bytes"),
            "category": slices.frame["category"],
        }
    ).with_row_index("place")
    category = pl.col("category")
    return frame.with_columns(
        name=pl.when(category.is_in(_EXPORTED)).then("name").otherwise(copy_name("name")),
        kind=pl.when(category == "memset").then(category).otherwise(pl.lit("memcpy")),
        place_of=pl.lit("copy"),
    ).drop("category")


def _intervals(slices: _Slices) -> pl.DataFrame:
    frame = pl.DataFrame({**slices.timed(), "thread": slices.whole("tid"), "process": slices.whole("pid")})
    return frame.select(
        "start_ns", "thread", "process", "correlation", name=clean_text("name"),
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
    )  # fmt: skip


FORMAT = Format(
    title="rocprofv3 or rocprof-sys Perfetto trace",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format pftrace -- ./app, or rocprof-sys-run --trace -- ./app",
    tried="the events its source writes, made by hand",
    checked="events the test wrote field by field; exports of this tool by Perfetto's own trace processor",
    sniff=sniff,
    read=read,
    suffixes=(".pftrace",),
    memory_ratio=40.0,
)
