"""``rocprofv3`` JSON: one document per process, decoded as typed records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Trace
from tracetool.sources.rocm.counters import unread_counters
from tracetool.sources.rocm.dispatches import BOOT, blocks_from_items, gfx_name, number_devices, plain_names


class Handle(msgspec.Struct, gc=False, frozen=True):
    """A reference by number."""

    handle: int = -1


class Correlation(msgspec.Struct, gc=False, frozen=True):
    """Ids that link a dispatch to its call."""

    internal: int = 0


class Size(msgspec.Struct, gc=False, frozen=True):
    """Three axes."""

    x: int = 0
    y: int = 0
    z: int = 0


class DispatchInfo(msgspec.Struct, gc=False, frozen=True):
    """Launch of a dispatch: kernel, place and sizes."""

    agent_id: Handle
    kernel_id: int
    queue_id: Handle = Handle()
    group_segment_size: int = 0
    workgroup_size: Size = Size()
    grid_size: Size = Size()


class Dispatch(msgspec.Struct, gc=False, frozen=True):
    """A kernel that ran."""

    start_timestamp: int
    end_timestamp: int
    dispatch_info: DispatchInfo
    thread_id: int = 0
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Copy(msgspec.Struct, gc=False, frozen=True):
    """A memory copy."""

    start_timestamp: int
    end_timestamp: int
    operation: int = 0
    dst_agent_id: Handle = Handle()
    src_agent_id: Handle = Handle()
    bytes: int | None = None
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Call(msgspec.Struct, gc=False, frozen=True):
    """A call of a runtime, or a marker."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: Correlation = Correlation()
    value: Any = None
    name: Any = None


class Buffers(msgspec.Struct):
    """The records by kind."""

    kernel_dispatch: list[Dispatch] = []
    memory_copy: list[Copy] = []
    hip_api: list[Call] = []
    rccl_api: list[Call] = []
    marker_api: list[Call] = []


class Symbol(msgspec.Struct, gc=False, frozen=True):
    """A kernel's name."""

    kernel_id: int
    formatted_kernel_name: str | None = None
    demangled_kernel_name: str | None = None
    kernel_name: str | None = None
    arch_vgpr_count: int = 0
    accum_vgpr_count: int = 0


class Agent(msgspec.Struct, gc=False, frozen=True):
    """A processor: type 1 is a CPU, 2 a GPU."""

    id: Handle
    type: int = 0
    name: str = ""
    product_name: str = ""
    model_name: str = ""
    node_id: int = -1
    cu_count: int = 0
    max_engine_clk_fcompute: int = 0
    gfx_target_version: int = 0


class Strings(msgspec.Struct):
    """Names of kinds and operations."""

    buffer_records: Any = None
    marker_api: Any = None


class Metadata(msgspec.Struct):
    """The process. Its command line, host name and environment are not read."""

    pid: int = 0

    def __post_init__(self) -> None:
        """Take a number that no system gives a process, beyond 64 bits, as none."""
        if not 0 <= self.pid < 2**63:
            self.pid = 0


class Callbacks(msgspec.Struct):
    """Records that are counted, not read."""

    counter_collection: list[Any] = []


class Process(msgspec.Struct):
    """Records of one process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    kernel_symbols: list[Symbol] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    buffer_records: Buffers = msgspec.field(default_factory=Buffers)
    callback_records: Callbacks = msgspec.field(default_factory=Callbacks)


class Document(msgspec.Struct):
    """The file."""

    processes: list[Process] = msgspec.field(name="rocprofiler-sdk-tool")


def read_document(path: Path, raw: bytes) -> Trace:
    """Return the trace in a document.

    Raises
    ------
    BadInput
        If it cannot be decoded.
    """
    try:
        document = msgspec.json.decode(raw, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = "it is cut short" if "truncated" in str(error) else str(error)[:200]
        raise BadInput.in_file(
            path, f"is not a usable rocprofv3 JSON: {fault}", "copy the file again"
        ) from error
    trace = Trace("rocprofv3", BOOT)
    activity_tables, calls, ranges, agents = [], [], [], {}
    for process in document.processes:
        nodes = {a.id.handle: a.node_id for a in process.agents}
        for a in process.agents:
            if a.type == 2:
                agents[a.node_id] = {
                    "name": a.product_name or a.model_name or a.name, "sm_count": a.cu_count or None,
                    "compute_capability": gfx_name(a.gfx_target_version) or a.name or None,
                    "clock_max_mhz": a.max_engine_clk_fcompute or None,
                }  # fmt: skip
        activity_tables.append(_kernels(process, nodes))
        activity_tables.append(_copies(process, nodes))
        calls.append(_calls(process))
        ranges.append(_markers(process))
    if not document.processes:
        raise BadInput.in_file(path, "holds no process", "record again with rocprofv3 --output-format json")
    trace.activities, trace.devices = number_devices(pl.concat(activity_tables, how="diagonal"), agents)
    trace.host_calls = with_call_kinds(pl.concat(calls))
    trace.ranges = pl.concat(ranges)
    if count := sum(len(p.callback_records.counter_collection) for p in document.processes):
        trace.warnings.append(unread_counters("counter_collection", count))
    return trace


def _ints(values: list[int]) -> pl.Series:
    return pl.Series(values, dtype=pl.Int64, strict=False)


def _kernels(process: Process, nodes: dict[int, int]) -> pl.DataFrame:
    dispatches = process.buffer_records.kernel_dispatch
    info = [d.dispatch_info for d in dispatches]
    frame = pl.DataFrame(
        {
            "start_ns": _ints([d.start_timestamp for d in dispatches]),
            "end_ns": _ints([d.end_timestamp for d in dispatches]),
            "kernel_id": _ints([i.kernel_id for i in info]),
            "profiler_device": _ints([nodes.get(i.agent_id.handle, -1) for i in info]),
            "stream": _ints(
                [d.stream_id.handle if d.stream_id else d.dispatch_info.queue_id.handle for d in dispatches]
            ),
            "correlation": _ints([d.correlation_id.internal for d in dispatches]),
            "shared_dynamic_bytes": _ints([i.group_segment_size for i in info]),
            **{f"grid_{a}": _ints([getattr(i.grid_size, a) for i in info]) for a in "xyz"},
            **{f"block_{a}": _ints([getattr(i.workgroup_size, a) for i in info]) for a in "xyz"},
        }
    )
    symbols = process.kernel_symbols
    names = pl.DataFrame(
        {
            "kernel_id": _ints([s.kernel_id for s in symbols]),
            "name": pl.Series(
                [s.formatted_kernel_name or s.demangled_kernel_name or s.kernel_name for s in symbols],
                dtype=pl.String,
            ),
            "registers_per_thread": _ints([s.arch_vgpr_count + s.accum_vgpr_count for s in symbols]),
        }
    ).unique("kernel_id", keep="first")
    names = names.with_columns(plain_names(names["name"]).alias("name"))
    frame = frame.join(names, on="kernel_id", how="left", maintain_order="left").with_row_index("row")
    frame = frame.with_columns(
        kind=pl.lit("kernel"),
        process=pl.lit(process.metadata.pid, dtype=pl.Int64),
        profiler_device=pl.when(pl.col("profiler_device") >= 0).then(pl.col("profiler_device")),
        place=pl.format("kernel_dispatch {}", "row"),
        registers_per_thread=pl.when(pl.col("registers_per_thread") > 0).then(pl.col("registers_per_thread")),
    )
    return blocks_from_items(frame).drop("row", "kernel_id")


_COPY_NAMES = {1: "HtoH", 2: "HtoD", 3: "DtoH", 4: "DtoD"}


def _copies(process: Process, nodes: dict[int, int]) -> pl.DataFrame:
    copies = process.buffer_records.memory_copy
    gpus = {a.id.handle for a in process.agents if a.type == 2}
    ends = [c.dst_agent_id.handle if c.dst_agent_id.handle in gpus else c.src_agent_id.handle for c in copies]
    return pl.DataFrame(
        {
            "start_ns": _ints([c.start_timestamp for c in copies]),
            "end_ns": _ints([c.end_timestamp for c in copies]),
            "profiler_device": _ints([nodes.get(e, 0) for e in ends]),
            "correlation": _ints([c.correlation_id.internal for c in copies]),
            "bytes": pl.Series([c.bytes for c in copies], dtype=pl.Int64, strict=False),
            "stream": pl.Series(
                [c.stream_id.handle if c.stream_id else None for c in copies], dtype=pl.Int64
            ),
            "name": pl.Series([_COPY_NAMES.get(c.operation, "copy") for c in copies], dtype=pl.String),
        }
    ).with_columns(
        kind=pl.lit("memcpy"),
        process=pl.lit(process.metadata.pid, dtype=pl.Int64),
        place=pl.lit("memory_copy"),
    )


def _operations(process: Process) -> dict[tuple[int, int], str]:
    """Return the names of operations by kind and number, in either way the document lists them."""
    listed = process.strings.buffer_records
    names: dict[tuple[int, int], str] = {}
    for i, entry in enumerate(listed if isinstance(listed, list) else []):
        operations = entry.get("operations") if isinstance(entry, dict) else None
        for j, name in enumerate(operations if isinstance(operations, list) else []):
            if isinstance(name, str):
                names[i, j] = name
    return names


def _intervals(process: Process, calls: list[Call], names: list[str | None]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "start_ns": _ints([c.start_timestamp for c in calls]),
            "end_ns": _ints([c.end_timestamp for c in calls]),
            "thread": _ints([c.thread_id for c in calls]),
            "name": pl.Series(names, dtype=pl.String),
            "correlation": _ints([c.correlation_id.internal for c in calls]),
        }
    )
    return frame.select(
        "name", "start_ns", "thread", "correlation",
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        process=pl.lit(process.metadata.pid, dtype=pl.Int64),
    ).with_columns(clean_text("name"))  # fmt: skip


def _calls(process: Process) -> pl.DataFrame:
    calls = [*process.buffer_records.hip_api, *process.buffer_records.rccl_api]
    operations = _operations(process)
    return _intervals(process, calls, [operations.get((c.kind, c.operation), "?") for c in calls])


def _markers(process: Process) -> pl.DataFrame:
    markers = process.buffer_records.marker_api
    names = [
        c.value if isinstance(c.value, str) else c.name if isinstance(c.name, str) else None for c in markers
    ]
    return _intervals(process, markers, names).drop("correlation").drop_nulls("name")
