"""``rocprof`` results as CSV: version 1, version 2, and the timestamp tables of tools built on them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, read_csv
from tracetool.sources.rocm.dispatches import BOOT, DISPATCH, activities, number_devices
from tracetool.tables.serialized import SERIALIZED


def _is_results(line: str) -> bool:
    timed = has_columns(line, "BeginNs", "EndNs") or has_columns(line, "Start_Timestamp", "End_Timestamp")
    named = has_columns(line, "KernelName") or has_columns(line, "Kernel_Name")
    return timed and named and (has_columns(line, "gpu-id") or has_columns(line, "GPU_ID"))


def _is_untimed(line: str) -> bool:
    named = has_columns(line, "KernelName") or has_columns(line, "Kernel_Name")
    return named and (has_columns(line, "gpu-id") or has_columns(line, "GPU_ID"))


def _is_summary(line: str) -> bool:
    return has_columns(line, "Name", "Calls", "TotalDurationNs")


def _is_agents(line: str) -> bool:
    return has_columns(line, "Node_Id", "Agent_Type")


def _is_counters(line: str) -> bool:
    return has_columns(line, "Kernel_Name", "Counter_Name", "Counter_Value")


def sniff(probe: Probe) -> float:
    """Score: the header of a results table, or of a table that is none but can be explained."""
    first = (probe.lines(1) or [""])[0]
    if _is_results(first):
        return 1.0
    explained = (_is_summary, _is_agents, _is_counters, _is_untimed)
    return 0.5 if any(recognizes(first) for recognizes in explained) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If the table holds no dispatches with times: a summary, agents or counters.
    """
    from tracetool.sources.io.text import head_bytes

    options.progress.step(f"reading {path.name}")
    first = head_bytes(path)[0].decode("utf-8", "replace").split("\n", 1)[0]
    if not _is_results(first):
        raise _not_a_trace(path, first)
    frame = read_csv(path, DISPATCH, options.max_ratio).rename({"line": "row"})
    if not frame.height:
        raise BadInput.in_file(path, "has a header and no dispatch", "record again, with --kernel-trace")
    trace = Trace("rocprof", BOOT)
    trace.activities, trace.devices = number_devices(activities(frame, "line"))
    trace.warnings.append("the file does not name its GPU: name it with --gpu")
    if frame["launch_ns"].null_count() < frame.height:
        trace.warnings.append(SERIALIZED)
    else:
        trace.activities = trace.activities.drop("launch_ns", "thread")
    trace.activities = trace.activities.with_columns(pl.col("device").cast(pl.Int32))
    return trace


def _not_a_trace(path: Path, first: str) -> BadInput:
    if _is_summary(first):
        return BadInput.in_file(
            path,
            "is a summary (calls and total time per name), not a trace",
            "give the results file of the same run",
        )
    if _is_agents(first):
        return BadInput.in_file(
            path,
            "lists the agents of a run, no activity",
            "give the *_kernel_trace.csv of the run: it is read beside it",
        )
    if _is_counters(first):
        return BadInput.in_file(
            path, "is a counter table without times", "give the *_kernel_trace.csv of the run"
        )
    return BadInput.in_file(path, "lists kernels without times", "record again with --timestamp on")


FORMAT = Format(
    title="rocprof results CSV",
    holds="trace",
    made_by="rocprof --timestamp on -o results.csv ./app   (or rocprofv2 --kernel-trace -d out ./app)",
    tried="ROCm 4 to 6 (versions 1 and 2), omniperf timestamps",
    checked="names and nanoseconds of what the test wrote; rows counted line by line",
    sniff=sniff,
    read=read,
    suffixes=("results.csv", "timestamps.csv", ".csv"),
    memory_ratio=3.0,
)
