"""Events of ``rocprof`` version 1 JSON: a Chrome trace whose exact times are in the arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text, rejected_rows
from tracetool.sources.format import ReadOptions, Trace
from tracetool.sources.io.text import unpacked_chunks
from tracetool.sources.pytorch.columns import decode_args, texts, whole_numbers
from tracetool.sources.pytorch.events import EventReader
from tracetool.sources.pytorch.records import RawEvent
from tracetool.sources.rocm.dispatches import BOOT, activities, copy_name, number_devices, plain_names
from tracetool.tables.serialized import SERIALIZED


class Args(msgspec.Struct, gc=False):
    """Arguments of an event; numbers are text."""

    begin: Any = msgspec.field(default=None, name="BeginNs")
    end: Any = msgspec.field(default=None, name="EndNs")
    dispatch: Any = msgspec.field(default=None, name="DispatchNs")
    kernel: Any = msgspec.field(default=None, name="KernelName")
    name: Any = msgspec.field(default=None, name="Name")
    gpu: Any = msgspec.field(default=None, name="gpu-id")
    device: Any = msgspec.field(default=None, name="dev-id")
    queue: Any = msgspec.field(default=None, name="queue-id")
    pid: Any = None
    tid: Any = None
    items: Any = msgspec.field(default=None, name="grd")
    block: Any = msgspec.field(default=None, name="wgr")
    lds: Any = None
    vgpr: Any = None
    arch_vgpr: Any = None
    accum_vgpr: Any = None
    index: Any = msgspec.field(default=None, name="Index")


def read_events(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If the JSON is broken.
    """
    options.progress.step(f"reading {path.name}")
    trace = Trace("rocprof", BOOT)
    processes: dict[int, str] = {}
    frames = []
    for chunk in EventReader(path, unpacked_chunks(path, options.max_ratio), RawEvent):
        names = [e for e in chunk.events if e.ph == "M" and e.name == "process_name"]
        for e, a in zip(names, decode_args(names, Args), strict=True):
            del a
            processes[_integer_or_minus_one(e.pid)] = _process_name(bytes(e.args))
        timed = [e for e in chunk.events if e.ph == "X"]
        frames.append(_rows(timed, decode_args(timed, Args)))
    rows = pl.concat(frames)
    if not rows.height:
        raise BadInput.in_file(path, "holds no timed event", "record again with rocprof --hip-trace")
    lane = pl.col("lane").replace_strict(
        list(processes), list(processes.values()), default="", return_dtype=pl.String
    )
    rows = rows.with_columns(lane=lane).with_row_index("row", offset=1)
    kernels = rows.filter(pl.col("items").is_not_null() | pl.col("lane").str.starts_with("GPU"))
    copies = rows.filter(pl.col("lane") == "COPY")
    calls = rows.filter(pl.col("lane").str.starts_with("CPU"))
    lost = rows.filter(pl.col("items").is_null() & (pl.col("lane") == ""))
    if lost.height:  # neither its arguments nor its process state whether it ran on a GPU
        places, what = (f"event {n}" for n in lost["row"]), lost["name"].fill_null("?")
        trace.rejected.append(rejected_rows(path.name, places, "of a process without a name", what))
    dispatches = activities(kernels.drop("lane", "index"), "event")
    copied = copies.with_columns(
        name=copy_name("name"), kind=pl.lit("memcpy"), place=pl.format("event {}", "row"),
        profiler_device=pl.col("profiler_device").fill_null(0),
    ).select("start_ns", "end_ns", "name", "kind", "place", "profiler_device", "stream")  # fmt: skip
    if dispatches.height:
        trace.warnings.append(SERIALIZED)
    trace.activities, trace.devices = number_devices(pl.concat([dispatches, copied], how="diagonal"))
    trace.host_calls = with_call_kinds(
        calls.select(
            "start_ns", "thread", "process", name=clean_text("name"), correlation=pl.col("index"),
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        )
    )  # fmt: skip
    trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _integer_or_minus_one(value: Any) -> int:
    number = whole_numbers([value])[0]
    return number if isinstance(number, int) else -1


def _process_name(args: bytes) -> str:
    try:
        name = msgspec.json.decode(args).get("name")
    except (msgspec.DecodeError, AttributeError, UnicodeDecodeError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""


def _rows(events: list[Any], args: list[Args]) -> pl.DataFrame:
    names = texts(
        a.kernel if a.kernel is not None else e.name if e.name is not None else a.name
        for e, a in zip(events, args, strict=True)
    )
    return pl.DataFrame(
        {
            "name": plain_names(names),
            "start_ns": whole_numbers(a.begin for a in args),
            "end_ns": whole_numbers(a.end for a in args),
            "launch_ns": whole_numbers(a.dispatch for a in args),
            "profiler_device": whole_numbers(a.gpu if a.gpu is not None else a.device for a in args),
            "stream": whole_numbers(a.queue for a in args),
            "process": whole_numbers(a.pid for a in args),
            "thread": whole_numbers(
                a.tid if a.tid is not None else e.tid for e, a in zip(events, args, strict=True)
            ),
            "items": whole_numbers(a.items for a in args),
            "block": whole_numbers(a.block for a in args),
            "shared_dynamic_bytes": whole_numbers(a.lds for a in args),
            "vgpr": whole_numbers(a.arch_vgpr if a.arch_vgpr is not None else a.vgpr for a in args),
            "accum": whole_numbers(a.accum_vgpr for a in args),
            "index": whole_numbers(a.index for a in args),
            "lane": whole_numbers(e.pid for e in events),
        }
    )
