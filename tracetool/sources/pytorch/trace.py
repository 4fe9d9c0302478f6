"""A whole profiler file: its clock, its GPUs, and what ROCm builds write differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.core.progress import Progress
from tracetool.sources.columns import clean_text
from tracetool.sources.devices import device_rows
from tracetool.sources.format import NS_2015, Clock, Trace
from tracetool.sources.linking import link_launches
from tracetool.sources.pytorch.events import EventReader
from tracetool.sources.pytorch.records import Header, ProfilerEvent
from tracetool.sources.pytorch.tables import Columns
from tracetool.sources.spill import Spill

#: Bytes of JSON decoded at once: their events stay in the processor's cache until their fields are taken.
CHUNK_BYTES = 1 << 18
#: Kineto converts device time to the host's clock in the process: microseconds, on an NTP-grade clock.
ANCHOR_ERROR_NS = 1e6


def _integer_or_zero(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def read_trace(path: Path, blocks: Iterable[bytes], progress: Progress) -> Trace:
    """Return the trace in a profiler file.

    Raises
    ------
    BadInput
        If the JSON is broken, or holds no event of a profiler.
    """
    columns, header = _read_columns(path, blocks, progress, lambda _: None)
    return make_trace(columns, header)


def spill_trace(path: Path, blocks: Iterable[bytes], progress: Progress, spill: Spill[Trace]) -> None:
    """Write the tables of a profiler file of any size to a spill as they are read.

    Raises
    ------
    BadInput
        If the JSON is broken, or holds no event of a profiler.
    """
    columns, header = _read_columns(path, blocks, progress, lambda read: _drain(read, spill))
    rejected = columns.rejected

    def make(tables: Mapping[str, pl.DataFrame]) -> Trace:
        window = Columns(path.name, 0, rejected=list(rejected), hip=columns.hip)
        window.predicted, columns.predicted = columns.predicted, 0
        rejected.clear()  # reported once
        named = {"activities": window.activities, "host_calls": window.calls, "operators": window.operators}
        for name, frames in {**named, "ranges": window.ranges, "modules": window.modules}.items():
            frames.extend([tables[name]] if tables[name].height else [])
        return make_trace(window, header)

    spill.make = make


def _read_columns(
    path: Path, blocks: Iterable[bytes], progress: Progress, after_chunk: Callable[[Columns], None]
) -> tuple[Columns, Header]:
    """Return the columns of a file's events, and the fields beside them; call back after each chunk."""
    reader = EventReader(path, blocks, ProfilerEvent, CHUNK_BYTES)
    columns = Columns(path.name, 0)
    for chunk in reader:
        progress.step(f"reading {path.name}: {reader.count:,} events")
        columns.add(chunk)
        after_chunk(columns)
    columns.flush()
    after_chunk(columns)
    if not columns.categories:
        raise BadInput.in_file(
            path, "holds no profiler event", "export it with torch.profiler's export_chrome_trace"
        )
    return columns, reader.header


def _drain(columns: Columns, spill: Spill[Trace]) -> None:
    named = {"activities": columns.activities, "host_calls": columns.calls, "operators": columns.operators}
    for name, frames in {**named, "ranges": columns.ranges, "modules": columns.modules}.items():
        for frame in frames:
            spill.add(name, frame)
        frames.clear()


def make_trace(columns: Columns, header: Header) -> Trace:
    """Return the trace of a file's columns and of the fields beside its events."""
    amd = _is_amd(header, columns)
    trace = Trace(
        "PyTorch profiler", Clock("utc"), _version(header), str(header.schema or "") or None,
        rejected=columns.rejected,
    )  # fmt: skip
    trace.operators = _join(columns.operators)
    trace.ranges = _join(columns.ranges)
    trace.modules = _join(columns.modules)
    trace.host_calls = _join(columns.calls)
    activities = _join(columns.activities)
    if activities.height:
        activities = activities.with_columns(place_of=pl.lit("event"))
        activities = link_launches(activities, trace.host_calls)
        if amd:
            activities = _launch_geometry(activities, trace.host_calls)
            activities = _blocks_not_items(activities)
        shared = "shared_dynamic_bytes" if amd else "shared_static_bytes"
        activities = activities.rename({"shared_bytes": shared})
        activities, trace.devices = _devices(activities, header, amd)
        vendor = "amd" if amd else "nvidia" if _is_nvidia(header, trace.host_calls) else None
        trace.devices = trace.devices.with_columns(vendor=pl.lit(vendor, pl.String))
    trace.activities = activities
    _set_clock(trace, header)
    if not activities.height:
        trace.warnings.append("no kernel ran while this trace was recorded (CPU events only)")
    if columns.predicted:
        many = counted(columns.predicted, "activity", "activities")
        trace.warnings.append(f"{many} of an export's replay never ran: not read")
    trace.details = _details(header)
    return trace


def _join(frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames) if frames else pl.DataFrame()


def _version(header: Header) -> str | None:
    for name in ("cupti_version", "roctracer_version", "rocprofiler_version"):
        value = getattr(header, name)
        if isinstance(value, int | float | str):
            return f"{name.split('_')[0]} {str(value)[:20]}"
    return None


def _details(header: Header) -> dict[str, Any]:
    distributed = header.distributed if isinstance(header.distributed, dict) else {}
    return {key: distributed[key] for key in ("rank", "world_size") if isinstance(distributed.get(key), int)}


def _properties(header: Header) -> dict[int, dict[str, Any]]:
    listed = header.devices if isinstance(header.devices, list) else []
    return {_integer_or_zero(p.get("id", i)): p for i, p in enumerate(listed) if isinstance(p, dict)}


def _is_amd(header: Header, columns: Columns) -> bool:
    if header.roctracer_version is not None or header.hip_runtime_version is not None:
        return True
    if any("amd" in str(p.get("name", "")).lower() for p in _properties(header).values()):
        return True
    return columns.hip


def _is_nvidia(header: Header, calls: pl.DataFrame) -> bool:
    """Return whether the file is of an NVIDIA GPU: by its profiler, its devices or calls of CUDA."""
    if header.cupti_version is not None or header.cuda_runtime_version is not None or _properties(header):
        return True
    return bool(calls.height) and calls["name"].cast(pl.String).str.starts_with("cu").any()


def _set_clock(trace: Trace, header: Header) -> None:
    base = _integer_or_zero(header.base_ns)
    frames = [trace.activities, trace.host_calls, trace.operators]
    first = next((f["start_ns"].min() for f in frames if f.height), None)
    moment = base + (first if isinstance(first, int) else 0)
    if not 0 <= base < 1 << 62:
        base = 0
    if moment >= NS_2015 and moment < 1 << 62:
        trace.clock = Clock(
            "utc", base, ANCHOR_ERROR_NS, basis="wall clock of the host, as the profiler wrote it"
        )
    else:
        trace.clock = Clock("session", basis="the times do not lie after 2015: taken as a clock of their own")
        trace.warnings.append("its times do not lie after 2015: they are not taken for UTC")


def _launch_geometry(activities: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Fill grid, block and shared memory from the launching call, where only that has them."""
    if not calls.height or "grid_x" not in calls.columns:
        return activities
    shape = [f"{g}_{a}" for g in ("grid", "block") for a in "xyz"]
    stated = calls.filter(pl.col("correlation").is_unique() & pl.col("correlation").is_not_null())
    stated = stated.filter(pl.col("kind") == "launch").select(
        "correlation", *[pl.col(c).alias(f"#{c}") for c in shape], pl.col("shared").alias("#shared_bytes")
    )
    joined = activities.join(stated, on="correlation", how="left", maintain_order="left")
    kernel = pl.col("kind") == "kernel"
    filled = [
        pl.when(kernel).then(pl.coalesce(c, f"#{c}")).otherwise(pl.col(c)).alias(c)
        for c in [*shape, "shared_bytes"]
    ]
    return joined.with_columns(filled).drop([f"#{c}" for c in [*shape, "shared_bytes"]])


def _blocks_not_items(activities: pl.DataFrame) -> pl.DataFrame:
    """Divide grids counted in work-items by the block.

    Notes
    -----
    ``hipExtModuleLaunchKernel`` takes the grid in work-items, every other launch in blocks.
    """
    items = pl.col("launch_name").cast(pl.String).str.contains("(?i)ExtModuleLaunch") & (
        pl.col("kind") == "kernel"
    )
    return activities.with_columns(
        pl.when(items & (pl.col(f"block_{a}") > 0))
        .then((pl.col(f"grid_{a}") + pl.col(f"block_{a}") - 1) // pl.col(f"block_{a}"))
        .otherwise(pl.col(f"grid_{a}"))
        .alias(f"grid_{a}")
        for a in "xyz"
    )


def _devices(activities: pl.DataFrame, header: Header, amd: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return activities with ``device`` and the GPUs that were used.

    Notes
    -----
    ROCm builds write the node number among all agents: the CPUs come first, so that on a host of two
    sockets the first GPU is 2, while the properties count from 0.
    """
    properties = _properties(header)
    numbers = activities["profiler_device"].drop_nulls().unique().sort()
    used = [d for d in numbers.to_list() if 0 <= d < 1 << 20]
    lowest = min(used, default=0)
    shift = min(lowest, 2) if (amd and lowest not in properties) or (amd and lowest >= 1) else 0
    rows = []
    for i, number in enumerate(used):
        p = properties.get(number - shift, properties.get(number, {}))
        if not p and len(properties) == 1:
            p = next(iter(properties.values()))
        major, minor = p.get("computeMajor"), p.get("computeMinor")
        name = p.get("name")
        rows.append(
            {
                "device": i, "name": name if isinstance(name, str) and name else None,
                "profiler_device": number,
                "sm_count": _integer_or_zero(p.get("numSms")) or None,
                "memory_bytes": _integer_or_zero(p.get("totalGlobalMem")) or None,
                "compute_capability": f"{major}.{minor}" if isinstance(major, int) and not amd else None,
            }
        )  # fmt: skip
    devices = device_rows(rows).with_columns(clean_text("name"))
    place = pl.col("profiler_device").replace_strict(
        used, list(range(len(used))), default=None, return_dtype=pl.Int32
    )
    return activities.with_columns(place.alias("device")).drop("profiler_device"), devices
