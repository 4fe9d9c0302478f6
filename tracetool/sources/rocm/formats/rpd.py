"""RPD databases (``.rpd``) of rocmProfileData: dispatches, HIP calls, operators, and a clock log."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracetool.core.number_text import counted
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.sqlite_file import list_tables, open_sqlite, read_columns
from tracetool.sources.rocm.dispatches import BOOT, copy_name, number_devices, plain_names

_I, _S, _F = pl.Int64(), pl.String(), pl.Float64()
_MARKERS = ("UserMarker",)


def sniff(probe: Probe) -> float:
    """Score: ``rocpd_op``, which the databases of rocprofv3 do not have."""
    return 1.0 if {"rocpd_op", "rocpd_string"} <= set(probe.tables) else 0.0


@dataclass(frozen=True)
class _Database:
    path: Path
    db: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]

    def table(self, name: str, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
        return read_columns(self.path, self.db, self.tables, name, columns, rowid=False)

    def named(self, frame: pl.DataFrame, column: str, to: str, strings: pl.DataFrame) -> pl.DataFrame:
        looked = strings.rename({"id": column, "string": to})
        return frame.join(looked, on=column, how="left", maintain_order="left").drop(column)


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    options.progress.step(f"reading {path.name}")
    with open_sqlite(path) as connection:
        base = _Database(path, connection, list_tables(path))
        strings = (
            base.table("rocpd_string", {"id": _I, "string": _S}).drop_nulls("id").unique("id", keep="first")
        )
        trace = Trace("rocmProfileData", BOOT)
        trace.schema_version = _schema_version(base)
        calls = _calls(base, strings)
        activities = _operations(base, strings, calls)
        trace.activities, trace.devices = number_devices(activities)
        trace.host_calls = with_call_kinds(
            calls.filter(~pl.col("name").is_in(_MARKERS))
            .with_columns(correlation=pl.col("id"))
            .drop("id", "args")
        )
        markers = calls.filter(pl.col("name").is_in(_MARKERS))
        trace.operators, trace.ranges = _markers(base, strings, markers)
        trace.telemetry = _clocks(base, trace)
        if not activities.height:
            trace.warnings.append("no kernel ran while this trace was recorded")
        else:
            trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _schema_version(base: _Database) -> str | None:
    tags = base.table("rocpd_metadata", {"tag": _S, "value": _S})
    versions = tags.filter(pl.col("tag") == "schema_version")["value"]
    return str(versions[0])[:20] if len(versions) and versions[0] is not None else None


def _calls(base: _Database, strings: pl.DataFrame) -> pl.DataFrame:
    frame = base.table(
        "rocpd_api", {"id": _I, "pid": _I, "tid": _I, "start": _I, "end": _I, "apiName_id": _I, "args_id": _I}
    )
    frame = base.named(base.named(frame, "apiName_id", "name", strings), "args_id", "args", strings)
    return frame.select(
        "id", "args", name=clean_text("name").fill_null("?"), start_ns="start",
        duration_ns=pl.col("end") - pl.col("start"), process="pid", thread="tid",
    )  # fmt: skip


_KERNEL = {
    "api_ptr_id": _I, "stream": _S, "gridX": _I, "gridY": _I, "gridZ": _I, "workgroupX": _I, "workgroupY": _I,
    "workgroupZ": _I, "groupSegmentSize": _I, "kernelName_id": _I,
}  # fmt: skip


def _operations(base: _Database, strings: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return kernels and copies with the geometry of the call that launched each.

    Notes
    -----
    ``Task`` is a kernel inside a graph launch: it has a name and no geometry. The grid is in blocks for
    ``hipLaunchKernel`` and in work-items for ``hipExtModuleLaunchKernel``.
    """
    ops = base.table(
        "rocpd_op",
        {"id": _I, "gpuId": _I, "queueId": _I, "start": _I, "end": _I, "description_id": _I, "opType_id": _I},
    )
    ops = base.named(base.named(ops, "description_id", "said", strings), "opType_id", "type", strings)
    links = base.table("rocpd_api_ops", {"api_id": _I, "op_id": _I}).unique("op_id", keep="first")
    ops = ops.join(links, left_on="id", right_on="op_id", how="left", maintain_order="left")
    kernels = base.named(base.table("rocpd_kernelapi", _KERNEL), "kernelName_id", "kernel", strings)
    kernels = kernels.unique("api_ptr_id", keep="first").drop("stream")
    copies = base.table("rocpd_copyapi", {"api_ptr_id": _I, "size": _I}).unique("api_ptr_id", keep="first")
    by = calls.select(
        pl.col("id").alias("api_id"), pl.col("name").alias("launch_name"),
        pl.col("start_ns").alias("launch_ns"),
        "thread", "process",
    ).unique("api_id", keep="first")  # fmt: skip
    for table, key in ((kernels, "api_ptr_id"), (copies, "api_ptr_id"), (by, "api_id")):
        ops = ops.join(table, left_on="api_id", right_on=key, how="left", maintain_order="left")
    is_copy = pl.col("type").str.starts_with("Copy").fill_null(value=False)
    is_fill = pl.col("type").str.starts_with("Fill").fill_null(value=False)
    real = ~pl.col("type").str.contains("(?i)barrier").fill_null(value=False)
    items = pl.col("launch_name").str.contains("(?i)ExtModuleLaunch").fill_null(value=False)
    kernel_name = plain_names(
        ops.select(
            pl.coalesce(pl.when(pl.col("said") != "").then(pl.col("said")), "kernel", "type")
        ).to_series()
    )
    named = ops.with_columns(plain=kernel_name).filter(real)
    axes = []
    for axis in "XYZ":
        grid, block = pl.col(f"grid{axis}"), pl.col(f"workgroup{axis}")
        blocks = pl.when(items & (block > 0)).then((grid - 1) // block + 1).otherwise(grid)
        axes += [
            pl.when(is_copy | is_fill).then(None).otherwise(blocks).alias(f"grid_{axis.lower()}"),
            pl.when(is_copy | is_fill).then(None).otherwise(block).alias(f"block_{axis.lower()}"),
        ]
    return named.select(
        *axes, "process", "thread", "launch_ns", "launch_name",
        start_ns="start", end_ns="end", profiler_device="gpuId", stream="queueId", correlation="api_id",
        kind=pl.when(is_copy).then(pl.lit("memcpy")).when(is_fill).then(pl.lit("memset")).otherwise(pl.lit("kernel")),
        name=pl.when(is_copy).then(copy_name("type")).when(is_fill).then(pl.lit("memset")).otherwise(pl.col("plain")),
        bytes=pl.when(is_copy).then(pl.col("size")),
        shared_dynamic_bytes=pl.col("groupSegmentSize"),
        place=pl.format("rocpd_op {}", "id"),
    )  # fmt: skip


def _markers(
    base: _Database, strings: pl.DataFrame, markers: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return operators where the autograd extension described the marker, ranges else."""
    columns = {"api_ptr_id": _I, "autogradName_id": _I, "seq": _I, "sizes": _S}
    described = base.named(base.table("ext_autogradapi", columns), "autogradName_id", "operator", strings)
    described = described.unique("api_ptr_id", keep="first")
    joined = markers.join(described, left_on="id", right_on="api_ptr_id", how="left", maintain_order="left")
    shared = ("start_ns", "duration_ns", "process", "thread")
    operators = joined.filter(pl.col("operator").is_not_null()).select(
        *shared, name=clean_text("operator"), sequence="seq",
        input_dims=pl.when(pl.col("sizes").str.starts_with("[")).then(pl.col("sizes")),
    )  # fmt: skip
    ranges = joined.filter(pl.col("operator").is_null()).select(
        *shared, name=clean_text("args").fill_null("?")
    )
    return operators, ranges


def _clocks(base: _Database, trace: Trace) -> pl.DataFrame:
    """Return the monitor's compute clocks, start and end of each stretch.

    Notes
    -----
    The monitor counts GPUs from 0, the dispatches count nodes, CPUs first. Both orders agree: the
    lowest node used is taken for the monitor's first GPU unless its numbers reach further.
    """
    frame = base.table(
        "rocpd_monitor",
        {"deviceType": _S, "deviceId": _I, "monitorType": _S, "start": _I, "end": _I, "value": _S},
    )
    is_clock = (pl.col("deviceType") == "gpu") & (pl.col("monitorType") == "sclk")
    unread = frame.filter(~is_clock.fill_null(value=False)).group_by("deviceType", "monitorType").len()
    trace.warnings += [
        f"rocpd_monitor: {kind or '?'} of {device or '?'} is not read: {counted(count, 'reading')}"
        for device, kind, count in unread.sort("deviceType", "monitorType").with_columns(
            clean_text("deviceType").str.head(40), clean_text("monitorType").str.head(40)
        ).iter_rows()
    ]  # fmt: skip
    frame = frame.filter(is_clock)
    frame = frame.with_columns(clock_mhz=pl.col("value").cast(_F, strict=False)).drop_nulls(
        ["start", "clock_mhz"]
    )
    frame = frame.filter(pl.col("clock_mhz").is_between(1, 10_000) & (pl.col("start") > 0))
    if not frame.height:
        return pl.DataFrame()
    ends = frame.filter(pl.col("end") > pl.col("start")).with_columns(start=pl.col("end") - 1)
    clocks = pl.concat([frame, ends]).select("deviceId", "clock_mhz", time_ns="start").drop_nulls("deviceId")
    if trace.devices.height:
        shift = trace.devices["profiler_device"].min()
        base_node = min(shift if isinstance(shift, int) else 0, 2)
        nodes = trace.devices.select("device", deviceId=pl.col("profiler_device") - base_node)
        clocks = clocks.join(nodes, on="deviceId", how="inner").drop("deviceId")
        if clocks.height:
            trace.warnings.append("the clock log's GPU numbers are matched to the dispatches' by their order")
    else:
        clocks = clocks.with_columns(device=pl.col("deviceId").cast(pl.Int32)).drop("deviceId")
    return clocks.select(
        "time_ns", pl.col("device").cast(pl.Int32), "clock_mhz", field=pl.lit("sclk")
    ).sort("device", "time_ns")  # fmt: skip


FORMAT = Format(
    title="rocmProfileData database (RPD)",
    holds="trace",
    made_by="runTracer.sh -o trace.rpd python train.py",
    tried="schema 2, ROCm 5 and 6",
    checked="names and nanoseconds of what the test wrote; rows counted by SQL alone",
    sniff=sniff,
    read=read,
    suffixes=(".rpd", ".rpd.gz"),
    memory_ratio=0.0,
)
