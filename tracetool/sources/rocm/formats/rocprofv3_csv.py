"""``rocprofv3`` CSV: kernel trace, memory copies, HIP calls, markers and agents of one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text, each_distinct, narrow
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, read_csv
from tracetool.sources.io.text import GZIP_MAGIC, head_bytes
from tracetool.sources.rocm.dispatches import BOOT, blocks_from_items, gfx_name, number_devices, plain_names
from tracetool.sources.spill import Spill

_I, _S, _C = pl.Int64(), pl.String(), pl.Categorical()
_TIMES = {"start_ns": (["Start_Timestamp"], _I), "end_ns": (["End_Timestamp"], _I)}
_KERNELS: dict[str, tuple[list[str], pl.DataType]] = {
    **_TIMES,
    "agent": (["Agent_Id"], _C), "queue": (["Queue_Id"], _C), "stream": (["Stream_Id"], _C),
    "name": (["Kernel_Name"], _C), "correlation": (["Correlation_Id"], _I),
    "vgpr": (["VGPR_Count"], _I), "accum": (["Accum_VGPR_Count"], _I),
    "shared_dynamic_bytes": (["LDS_Block_Size", "Group_Segment_Size"], _I),
    **{f"block_{a}": ([f"Workgroup_Size_{a.upper()}"], _I) for a in "xyz"},
    **{f"grid_{a}": ([f"Grid_Size_{a.upper()}"], _I) for a in "xyz"},
}  # fmt: skip
_COPIES: dict[str, tuple[list[str], pl.DataType]] = {
    **_TIMES, "direction": (["Direction"], _S), "source": (["Source_Agent_Id"], _S),
    "target": (["Destination_Agent_Id"], _S), "correlation": (["Correlation_Id"], _I),
    "stream": (["Stream_Id"], _S),
    "kind": (["Kind"], _S),
}  # fmt: skip
_CALLS: dict[str, tuple[list[str], pl.DataType]] = {
    **_TIMES, "name": (["Function"], _S), "process": (["Process_Id"], _I), "thread": (["Thread_Id"], _I),
    "correlation": (["Correlation_Id"], _I), "domain": (["Domain"], _S),
}  # fmt: skip
_AGENTS: dict[str, tuple[list[str], pl.DataType]] = {
    "node": (["Logical_Node_Id", "Node_Id"], _I), "type": (["Agent_Type"], _S),
    "name": (["Product_Name"], _S),
    "chip": (["Name"], _S), "units": (["Cu_Count"], _I), "clock": (["Max_Engine_Clk_Fcompute"], _I),
    "gfx": (["Gfx_Target_Version"], _I), "in_type": (["Logical_Node_Type_Id"], _I),
}  # fmt: skip


_NAMELESS = "the file does not name its GPU (no *_agent_info.csv beside it): name it with --gpu"


def kind_of_table(line: str) -> str | None:
    """Return which of the files a header line belongs to, None for none."""
    if has_columns(line, "Kernel_Name", "Start_Timestamp", "End_Timestamp", "Agent_Id"):
        return "counters" if has_columns(line, "Counter_Name") else "kernels"
    if has_columns(line, "Direction", "Start_Timestamp", "End_Timestamp"):
        return "copies"
    if has_columns(line, "Function", "Start_Timestamp", "End_Timestamp", "Thread_Id"):
        return "calls"
    return None


def read_tables(path: Path, max_ratio: float) -> Trace:
    """Return the trace of a file, and of the files of the same run beside a kernel trace.

    Raises
    ------
    BadInput
        If it is none of them, or a counter table.
    """
    first = _first_line(path)
    kind = kind_of_table(first)
    if kind in (None, "counters"):
        raise BadInput.in_file(
            path, "is a counter table, not a trace", "give the *_kernel_trace.csv of the run"
        )
    trace = Trace("rocprofv3", BOOT, details={"files": [path.name]})
    activity_tables = [_activities(path, kind or "", max_ratio)] if kind in ("kernels", "copies") else []
    if kind == "calls":
        _add_calls(trace, path, max_ratio)
    agents: dict[int, dict[str, Any]] = {}
    if kind == "kernels" and "_kernel_trace" in path.name:
        for ending in ("memory_copy", "hip_api", "marker_api", "hsa_api", "rccl_api"):
            beside = path.with_name(path.name.replace("_kernel_trace", f"_{ending}_trace"))
            if not beside.is_file() or not beside.stat().st_size:
                continue
            if ending == "memory_copy" and kind_of_table(_first_line(beside)) == "copies":
                activity_tables.append(_activities(beside, "copies", max_ratio))
            elif ending != "memory_copy" and kind_of_table(_first_line(beside)) == "calls":
                _add_calls(trace, beside, max_ratio)
            else:
                trace.warnings.append(f"{beside.name} is not the table its name says: left out")
                continue
            trace.details["files"].append(beside.name)
        counters = path.with_name(path.name.replace("_kernel_trace", "_counter_collection"))
        if counters.is_file() and kind_of_table(_first_line(counters)) == "counters":
            with counters.open("rb") as lines:
                rows = counted(sum(1 for _ in lines) - 1, "counter")
            trace.warnings.append(
                f"{counters.name} lies beside it: its {rows} of dispatches are read where it is given too"
            )
        facts = path.with_name(path.name.replace("_kernel_trace", "_agent_info"))
        if facts.is_file() and facts.stat().st_size:
            agents = _agents(facts, max_ratio)
            trace.details["files"].append(facts.name)
    if activity_tables:
        trace.activities, trace.devices = number_devices(
            pl.concat(activity_tables, how="diagonal_relaxed"), agents
        )
        if agents:
            return trace
        trace.warnings.append(_NAMELESS)
    return trace


def _first_line(path: Path) -> str:
    head, _ = head_bytes(path)
    return head.decode("utf-8", "replace").split("\n", 1)[0]


def _number(column: pl.Series) -> pl.Series:
    """Return the number in ``Agent 7`` or ``4``, a pointer as it is; each distinct text once."""
    return each_distinct(column, lambda t: t.str.extract(r"(\d+)\s*$", 1).cast(_I, strict=False))


def _activities(path: Path, kind: str, max_ratio: float) -> pl.DataFrame:
    if kind == "copies":
        frame = read_csv(path, _COPIES, max_ratio)
        to_host = pl.col("direction").str.to_uppercase().str.contains("DEVICE_TO_HOST|D2H")
        return frame.select(
            "start_ns", "end_ns", "correlation",
            kind=pl.lit("memcpy"),
            name=pl.col("direction").replace_strict(_DIRECTIONS, default=clean_text("direction")),
            profiler_device=pl.when(to_host).then(_number(frame["source"])).otherwise(_number(frame["target"])),
            stream=_number(frame["stream"]),
            place=pl.col("line"),
            place_of=pl.lit(f"{path.name} line"),
        )  # fmt: skip
    frame = read_csv(path, _KERNELS, max_ratio)
    # Held as codes and narrow numbers: a million rows are compared and grouped several times.
    frame = narrow(
        frame, [c for c in frame.columns if c.startswith(("grid_", "block_", "shared_", "vgpr", "accum"))]
    )
    frame = frame.with_columns(
        name=plain_names(frame["name"]),
        kind=pl.lit("kernel").cast(pl.Categorical),
        profiler_device=_number(frame["agent"]),
        stream=pl.select(pl.coalesce(_number(frame["stream"]), _number(frame["queue"]))).to_series(),
        registers_per_thread=pl.col("vgpr").cast(pl.Int64) + pl.col("accum").fill_null(0),
        place=pl.col("line"),
        place_of=pl.lit("line").cast(pl.Categorical),
    )
    return blocks_from_items(frame).drop("line", "agent", "queue", "vgpr", "accum")


_DIRECTIONS = {
    "MEMORY_COPY_HOST_TO_DEVICE": "HtoD", "MEMORY_COPY_DEVICE_TO_HOST": "DtoH",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "DtoD",
    "MEMORY_COPY_HOST_TO_HOST": "HtoH", "HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "H2D": "HtoD", "D2H": "DtoH", "D2D": "DtoD",
}  # fmt: skip


def _add_calls(trace: Trace, path: Path, max_ratio: float) -> None:
    frame = read_csv(path, _CALLS, max_ratio).with_columns(
        name=clean_text("name"), duration_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    marker = pl.col("domain").str.to_uppercase().str.contains("MARKER").fill_null(False)
    ranges = frame.filter(marker).select("name", "start_ns", "duration_ns", "process", "thread")
    calls = frame.filter(~marker).select(
        "name", "start_ns", "duration_ns", "process", "thread", "correlation"
    )
    trace.ranges = pl.concat([trace.ranges, ranges]) if trace.ranges.width else ranges
    host_calls = with_call_kinds(calls)
    trace.host_calls = pl.concat([trace.host_calls, host_calls]) if trace.host_calls.width else host_calls


def _agents(path: Path, max_ratio: float) -> dict[int, dict[str, Any]]:
    frame = read_csv(path, _AGENTS, max_ratio).filter(pl.col("type").str.to_uppercase().str.contains("GPU"))
    return {
        row["node"]: {
            "name": row["name"] or row["chip"], "compute_capability": gfx_name(row["gfx"]) or row["chip"],
            "sm_count": row["units"], "clock_max_mhz": row["clock"],
        }
        for row in frame.iter_rows(named=True)
        if row["node"] is not None
    }  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: the header of one of the run's tables."""
    first = (probe.lines(1) or [""])[0]
    return 1.0 if kind_of_table(first) in ("kernels", "copies", "calls") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    options.progress.step(f"reading {path.name}")
    return read_tables(path, options.max_ratio)


#: Bytes of a kernel trace read at once where it is larger than memory.
_PIECE_BYTES = 128 << 20
#: Files of the same run that hold what kernels are linked to: with them a trace is read at once.
_BESIDE = ("memory_copy", "hip_api", "marker_api", "hsa_api", "rccl_api")


def spill(path: Path, options: ReadOptions, into: Spill[Trace]) -> bool:
    """Write the kernels of a file of any size piece by piece; not of a trace with calls beside it."""
    named = "_kernel_trace" in path.name
    beside = [path.with_name(path.name.replace("_kernel_trace", f"_{e}_trace")) for e in _BESIDE if named]
    with path.open("rb") as f:
        if f.read(2) == GZIP_MAGIC:
            return False
    if kind_of_table(_first_line(path)) != "kernels" or any(b.is_file() and b.stat().st_size for b in beside):
        return False
    facts = path.with_name(path.name.replace("_kernel_trace", "_agent_info"))
    files, agents = [path.name], {}
    if named and facts.is_file() and facts.stat().st_size:
        agents = _agents(facts, options.max_ratio)
        files.append(facts.name)
    lines = 0
    piece = into.folder / "piece.csv"
    with path.open("rb") as source:
        header = source.readline()
        while rows := source.read(_PIECE_BYTES):
            rows += source.readline()
            piece.write_bytes(header + rows)
            frame = _activities(piece, "kernels", options.max_ratio)
            into.add("activities", frame.with_columns(pl.col("place") + lines))
            lines += frame.height
            options.progress.step(f"reading {path.name}: {lines:,} rows")
    piece.unlink(missing_ok=True)
    warned = [] if agents else [_NAMELESS]

    def make(tables: Mapping[str, pl.DataFrame]) -> Trace:
        trace = Trace("rocprofv3", BOOT, details={"files": files}, warnings=list(warned))
        warned.clear()  # reported once
        trace.activities, trace.devices = number_devices(tables["activities"], agents)
        return trace

    into.make = make
    return True


FORMAT = Format(
    title="rocprofv3 CSV",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format csv -- ./app",
    tried="ROCm 6.2 to 7.x",
    checked="names and nanoseconds of what the test wrote; rows counted line by line",
    sniff=sniff,
    read=read,
    suffixes=("_kernel_trace.csv", ".csv"),
    memory_ratio=3.0,
    spill=spill,
)
