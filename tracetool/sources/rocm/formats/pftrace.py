"""Perfetto traces (``.pftrace``) that rocprofv3 writes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.protobuf import BrokenMessage
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.rocm.dispatches import BOOT, flat_launch, number_devices, plain_names
from tracetool.sources.rocm.perfetto import Slice, slices
from tracetool.sources.rocm.v1 import copy_name

_CALLS = ("hip_api", "hsa_api", "rccl_api")


def sniff(probe: Probe) -> float:
    """Score: packets behind one another, and the profiler's categories or annotations in them."""
    if probe.head[:1] != b"\n" or b"\0" not in probe.head[:4096]:
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
        found = [s for s in slices(unpacked_bytes(path, options.max_ratio)) if "begin_ns" in s.notes]
    except (BrokenMessage, zlib.error) as error:
        raise BadInput.in_file(
            path, f"is a cut or damaged Perfetto trace: {error}", "copy it again"
        ) from error
    if not found:
        raise BadInput.in_file(
            path,
            "is a Perfetto trace without slices of rocprofv3",
            "record with rocprofv3 --output-format pftrace",
        )
    trace = Trace("rocprofv3", BOOT)
    kernels = _kernels([s for s in found if s.category == "kernel_dispatch"])
    copies = _copies([s for s in found if s.category == "memory_copy"])
    trace.activities, trace.devices = number_devices(pl.concat([kernels, copies], how="diagonal"))
    trace.host_calls = with_call_kinds(_intervals([s for s in found if s.category in _CALLS]))
    trace.ranges = _intervals([s for s in found if s.category == "marker_api"]).drop("correlation")
    trace.warnings.append(
        "the profiler's writer moves ends and starts of overlapping dispatches to their middle: durations are"
        " edited (its CSV, JSON and rocpd outputs are not)"
    )
    trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _whole(found: Sequence[Slice], *names: str) -> pl.Series:
    """Return an annotation under the first name it has; the number in it if it is text."""
    values = []
    for s in found:
        said = next((s.notes[n] for n in names if n in s.notes), None)
        if isinstance(said, str):
            digits = re.search(r"\d{1,18}", said)
            said = int(digits[0]) if digits else None
        values.append(int(said) if said is not None and abs(said) < 2**63 else None)  # false for nan
    return pl.Series(values, dtype=pl.Int64)


def _timed(found: Sequence[Slice]) -> dict[str, pl.Series]:
    return {
        "start_ns": _whole(found, "begin_ns"),
        "end_ns": _whole(found, "end_ns"),
        "name": pl.Series([s.name for s in found], dtype=pl.String),
        "correlation": _whole(found, "corr_id", "correlation_id"),
    }


def _kernels(found: Sequence[Slice]) -> pl.DataFrame:
    """Return the dispatches. Grid and block are products of their axes, the grid in work-items."""
    frame = pl.DataFrame(
        {
            **_timed(found),
            "profiler_device": _whole(found, "agent", "agent_id"),
            "stream": _whole(found, "stream_ID", "stream_id", "queue"),
            "items": _whole(found, "grid_size"),
            "block": _whole(found, "workgroup_size"),
            "shared_dynamic_bytes": _whole(found, "LDS_Block_Size", "group_segment_size"),
            "vgpr": _whole(found, "VGPR_Count"),
            "accum": _whole(found, "Accum_VGPR_Count"),
        }
    ).with_row_index("place")
    return frame.with_columns(
        name=plain_names(frame["name"]),
        kind=pl.lit("kernel"),
        **flat_launch(),
        place_of=pl.lit("dispatch"),
    ).drop("items", "block", "vgpr", "accum")  # fmt: skip


def _copies(found: Sequence[Slice]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            **_timed(found),
            "profiler_device": _whole(found, "dst_agent", "agent"),
            "bytes": _whole(found, "copy_bytes"),
        }
    ).with_row_index("place")
    return frame.with_columns(name=copy_name("name"), kind=pl.lit("memcpy"), place_of=pl.lit("copy"))


def _intervals(found: Sequence[Slice]) -> pl.DataFrame:
    frame = pl.DataFrame({**_timed(found), "thread": _whole(found, "tid"), "process": _whole(found, "pid")})
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
