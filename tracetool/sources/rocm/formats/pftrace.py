"""Perfetto traces (``.pftrace``) that rocprofv3, rocprof-sys and ``tracetool export`` write."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.protobuf import BrokenMessage
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.perfetto_stages import stages_left_out
from tracetool.sources.rocm.counters import SAMPLES, gpu_telemetry, placed, plain_name
from tracetool.sources.rocm.dispatches import BOOT, copy_name, flat_launch, number_devices, plain_names
from tracetool.sources.rocm.track_events import Events, Slice, Track, read_events, slices

__all__ = ["FORMAT", "Slice", "slices"]

#: Categories of rocprofv3, those of rocprof-sys (since 2024, before), those of exports.
_CALLS = ("hip_api", "hsa_api", "rccl_api", "rocm_hip_api", "rocm_hsa_api", "rocm_rccl_api", "rocm_hip",
          "rocm_hsa", "host_call")  # fmt: skip
_KERNELS = ("kernel_dispatch", "rocm_kernel_dispatch", "device_hip", "kernel")
_COPIES = ("memory_copy", "rocm_memory_copy", "memcpy", "memset")
_RANGES = ("marker_api", "rocm_marker_api", "rocm_roctx", "range")
_SYSTEMS = tuple(c for c in (*_CALLS, *_KERNELS, *_COPIES, *_RANGES) if c.startswith(("rocm_", "device_")))
#: Only ``tracetool export`` calls its slices so.
_EXPORTED = ("kernel", "memcpy", "memset")
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
        held = read_events(unpacked_bytes(path, options.max_ratio))
    except (BrokenMessage, zlib.error) as error:
        raise BadInput.in_file(
            path, f"is a cut or damaged Perfetto trace: {error}", "copy it again"
        ) from error
    events = [s for s in held.slices if "begin_ns" in s.notes]
    exported = any(s.category in _EXPORTED for s in events)
    systems = bool(held.counts) or any(s.category in _SYSTEMS for s in events)
    profiler = "tracetool export" if exported else "rocprof-sys" if systems else "rocprofv3"
    trace = Trace(profiler, BOOT)
    kernels = _kernels([s for s in events if s.category in _KERNELS], held.tracks)
    copies = _copies([s for s in events if s.category in _COPIES])
    trace.activities, trace.devices = number_devices(pl.concat([kernels, copies], how="diagonal"))
    trace.host_calls = with_call_kinds(_intervals([s for s in events if s.category in _CALLS]))
    trace.ranges = _intervals([s for s in events if s.category in _RANGES]).drop("correlation")
    if not exported:  # the counters of an export are what tracetool made of a log
        trace.telemetry = placed(gpu_telemetry(_samples(held), trace.warnings), trace.devices)
    if not events and not trace.telemetry.height:
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
    trace.warnings += stages_left_out(held.stages)
    trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _samples(events: Events) -> pl.DataFrame:
    """Return the counters as samples; a track that has no name goes by its category."""
    tracks = [events.tracks.get(c.track, Track()) for c in events.counts]
    names = [t.name or c.category for t, c in zip(tracks, events.counts, strict=True)]
    columns = {
        "time_ns": [c.time_ns if c.time_ns is None or c.time_ns < 2**63 else None for c in events.counts],
        "gpu": [plain_name(n)[1] for n in names],
        "name": names,
        "unit": [t.unit for t in tracks],
        "value": [c.value for c in events.counts],
    }
    return pl.DataFrame(columns, schema=SAMPLES).with_columns(clean_text("name"), clean_text("unit"))


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


def _products(events: Sequence[Slice], name: str) -> pl.Series:
    """Return a size: the product of its axes, as rocprofv3 writes it, or its axes in text: ``(256,1,1)``."""
    products: list[int | None] = []
    for s in events:
        note = s.notes.get(name)
        if isinstance(note, str):
            axes = [int(d) for d in re.findall(r"\d{1,9}", note)[:3]]
            note = math.prod(axes) if axes else None
        products.append(int(note) if note is not None and abs(note) < 2**63 else None)
    return pl.Series(products, dtype=pl.Int64)


def _devices(events: Sequence[Slice], tracks: Mapping[int, Track]) -> pl.Series:
    """Return the GPUs: the agents of rocprofv3; rocprof-sys names them in their tracks."""
    stated = _whole(events, "agent", "agent_id")
    of_track = [plain_name(tracks[s.track].name)[1] if s.track in tracks else None for s in events]
    named = pl.Series(of_track, dtype=pl.Int64)
    numbered = _whole(events, "device", "node_id")
    frame = pl.DataFrame({"a": stated, "b": named, "c": numbered})
    return frame.select(pl.coalesce("a", "b", "c")).to_series()


def _kernels(events: Sequence[Slice], tracks: Mapping[int, Track]) -> pl.DataFrame:
    """Return the dispatches. Grid and block are products of their axes, the grid in work-items."""
    frame = pl.DataFrame(
        {
            **_timed(events),
            "profiler_device": _devices(events, tracks),
            "stream": _whole(events, "stream_ID", "stream_id", "queue"),
            "items": _products(events, "grid_size"),
            "block": _products(events, "workgroup_size"),
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
