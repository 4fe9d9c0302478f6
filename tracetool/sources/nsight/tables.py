"""From an Nsight Systems SQLite export to a trace. Columns are taken by name: every release moves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text, distinct_rows, look_up, narrow
from tracetool.sources.format import Trace
from tracetool.sources.io.sqlite_file import Only
from tracetool.sources.nsight.counters import read_counters
from tracetool.sources.nsight.identity import read_devices, session_clock, versions
from tracetool.sources.nsight.metrics import read_metrics
from tracetool.sources.nsight.payloads import read_payloads, state_collectives
from tracetool.sources.nsight.store import Store, open_store
from tracetool.sources.ordering import in_order

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
#: Any of these marks a database as Nsight's.
MARKS = (
    "TARGET_INFO_SESSION_START_TIME",
    "ANALYSIS_DETAILS",
    "TARGET_INFO_GPU",
    "ThreadNames",
    "ANALYSIS_FILE",
)

_I, _N = pl.Int64(), pl.Int32()  # wide for times and identities, narrow for what is small
_KERNEL_COLUMNS = {
    "start": _I, "end": _I, "deviceId": _N, "contextId": _N, "streamId": _N, "correlationId": _I,
    "globalPid": _I, "demangledName": _N, "registersPerThread": _N,
    "gridX": _N, "gridY": _N, "gridZ": _N, "blockX": _N, "blockY": _N, "blockZ": _N,
    "staticSharedMemory": _N, "dynamicSharedMemory": _N, "graphNodeId": _I,
}  # fmt: skip
_COPY_COLUMNS = {
    "start": _I, "end": _I, "deviceId": _N, "contextId": _N, "streamId": _N, "correlationId": _I,
    "globalPid": _I, "bytes": _I, "copyKind": _N, "srcKind": _N, "dstKind": _N, "graphNodeId": _I,
}  # fmt: skip
_SET_COLUMNS = {k: v for k, v in _COPY_COLUMNS.items() if not k.endswith("Kind")}
_GRAPH_COLUMNS = {
    "start": _I, "end": _I, "deviceId": _N, "contextId": _N, "streamId": _N, "correlationId": _I,
    "globalPid": _I, "graphId": _N, "graphExecId": _N,
}  # fmt: skip
_CALL_COLUMNS = {"start": _I, "end": _I, "globalTid": _I, "correlationId": _I, "nameId": _N}

#: CUPTI's copy kinds.
COPY_NAMES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
    11: "HtoD (managed)", 12: "DtoH (managed)", 13: "DtoD (managed)",
}  # fmt: skip
#: Nsight Systems' kinds of memory on the host's side of a copy, as the name of the copy says them.
HOST_MEMORY = {0: " (pageable)", 1: " (pinned)"}
_PID = (1 << 24) - 1
#: Text that repeats a millionfold is held as codes.
_CATEGORY = pl.Categorical()


@dataclass(frozen=True)
class Export:
    """An open export: its tables and its strings."""

    store: Store
    strings: pl.DataFrame

    def read(self, table: str, columns: Mapping[str, pl.DataType], only: Only | None = None) -> pl.DataFrame:
        """Return columns of a table, null where absent, with ``rowid``."""
        return self.store.read(table, columns, only)

    def named(self, frame: pl.DataFrame, column: str, to: str = "name") -> pl.DataFrame:
        """Add the text of a string id."""
        if frame.schema[column] == pl.String:  # exports of many files may hold the text itself
            return frame.with_columns(pl.col(column).alias(to))
        looked = self.strings.select(
            pl.col("id").cast(frame.schema[column], strict=False).alias(column), pl.col("value").alias(to)
        )
        return look_up(frame, looked, column)


def looks_like_nsight(tables: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a catalog is that of an Nsight Systems export."""
    return "StringIds" in tables and (
        any(t in tables for t in MARKS) or any(t.startswith("CUPTI_") for t in tables)
    )


def _pid(column: str) -> pl.Expr:
    return (pl.col(column) // (1 << 24)) & _PID


def _activity(frame: pl.DataFrame, kind: str, **more: pl.Expr) -> pl.DataFrame:
    activities = frame.select(
        "rowid",
        start_ns=pl.col("start"),
        end_ns=pl.col("end"),
        profiler_device=pl.col("deviceId"),
        context=pl.col("contextId"),
        stream=pl.col("streamId"),
        process=_pid("globalPid").cast(_N),
        correlation=pl.col("correlationId"),
        kind=pl.lit(kind).cast(_CATEGORY),
        **more,
    )
    small = [c for c in activities.columns if c not in ("rowid", "start_ns", "end_ns", "bytes")]
    return in_order(narrow(activities, small), "start_ns", "rowid")


def _kernels(export: Export) -> pl.DataFrame:
    frame = export.read(KERNEL, _KERNEL_COLUMNS)
    frame = export.named(frame, "demangledName", "full")
    if frame["full"].null_count():  # old exports are without it, odd ones point nowhere
        short = export.read(KERNEL, {"shortName": _N})["shortName"]
        frame = export.named(frame.with_columns(short), "shortName", "short")
        frame = frame.with_columns(full=pl.coalesce("full", "short"))
    return _activity(
        frame,
        "kernel",
        name=pl.col("full").fill_null("(unnamed kernel)"),
        **{f"grid_{a}": pl.col(f"grid{a.upper()}") for a in "xyz"},
        **{f"block_{a}": pl.col(f"block{a.upper()}") for a in "xyz"},
        registers_per_thread=pl.col("registersPerThread"),
        shared_static_bytes=pl.col("staticSharedMemory"),
        shared_dynamic_bytes=pl.col("dynamicSharedMemory"),
        graph_node=pl.col("graphNodeId"),
    )


def _copies(export: Export) -> list[pl.DataFrame]:
    copies = export.read(MEMCPY, _COPY_COLUMNS)
    sets = export.read(MEMSET, _SET_COLUMNS)
    kind = pl.col("copyKind")
    word = kind.replace_strict(COPY_NAMES, default="copy", return_dtype=pl.String)
    host = pl.when(kind == 1).then("srcKind").when(kind == 2).then("dstKind")
    memory = host.replace_strict(HOST_MEMORY, default="", return_dtype=pl.String)
    return [
        _activity(
            copies,
            "memcpy",
            name=(word + memory).cast(_CATEGORY),
            bytes=pl.col("bytes"),
            graph_node=pl.col("graphNodeId"),
        ),
        _activity(
            sets,
            "memset",
            name=pl.lit("memset").cast(_CATEGORY),
            bytes=pl.col("bytes"),
            graph_node=pl.col("graphNodeId"),
        ),
    ]


def _graphs(export: Export, nodes: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Whole graphs recorded as one activity; those whose nodes were recorded too are left out."""
    frame = _activity(
        export.read(GRAPH, _GRAPH_COLUMNS),
        "graph",
        name=pl.format("CUDA graph {}", pl.coalesce("graphId", "graphExecId").fill_null(0)).cast(_CATEGORY),
    )
    if not frame.height:
        return frame
    with_nodes = nodes.filter(pl.col("graph_node").is_not_null()).select("process", "correlation").unique()
    keys = [pl.col(c).cast(_I) for c in ("process", "correlation")]
    opaque = frame.join(with_nodes, on=keys, how="anti", nulls_equal=True)
    if opaque.height:
        trace.warnings.append(
            f"{counted(opaque.height, 'CUDA graph launch is', 'CUDA graph launches are')} recorded whole:"
            " the kernels inside are not in the trace"
            " (record with nsys profile --cuda-graph-trace=node)"
        )
    return opaque


def _calls(export: Export) -> pl.DataFrame:
    frame = export.read(RUNTIME, _CALL_COLUMNS)
    spelled = export.named(distinct_rows(frame.select("nameId")), "nameId")
    names = with_call_kinds(spelled.with_columns(pl.col("name").cast(pl.String))).with_columns(
        pl.col("name", "kind").cast(_CATEGORY)
    )
    calls = look_up(frame, names, "nameId", nulls_equal=True).select(
        "name",
        "kind",
        start_ns=pl.col("start"),
        duration_ns=pl.col("end") - pl.col("start"),
        process=_pid("globalTid").cast(_N),
        thread=(pl.col("globalTid") & _PID).cast(_N),
        correlation=pl.col("correlationId"),
    )
    return in_order(narrow(calls, ["process", "thread", "correlation"]), "start_ns")


def _strings(store: Store) -> pl.DataFrame:
    strings = store.read("StringIds", {"id": _I, "value": pl.String()}).drop("rowid")
    # Cleaned here, once each: the tables refer to them millions of times.
    return (
        strings.drop_nulls("id").unique("id", keep="first").with_columns(clean_text("value").cast(_CATEGORY))
    )


def read_export(path: Path) -> Trace:
    """Return the trace in an export.

    Raises
    ------
    BadInput
        If the database is broken or is not Nsight's.
    """
    with open_store(path) as store:
        if not looks_like_nsight(store.tables):
            raise BadInput.in_file(
                path, "is not an Nsight Systems export", "make one with: nsys export --type sqlite"
            )
        store.begin(KERNEL, _KERNEL_COLUMNS)  # in this order: while one is linked, the next is read
        store.begin(RUNTIME, _CALL_COLUMNS)
        export = Export(store, _strings(store))
        clock = session_clock(store.read)
        product, schema = versions(store.read)
        trace = Trace("Nsight Systems", clock, product, schema)
        kernels = _kernels(export)
        ran = kernels.height
        tables = [kernels, *_copies(export)]
        nodes = pl.concat(
            [rows.select(pl.col("process", "correlation", "graph_node").cast(_I)) for rows in tables]
        )
        tables.append(_graphs(export, nodes, trace))
        tagged = [
            rows.rename({"rowid": "place"}).with_columns(place_of=pl.lit(f"{t} row").cast(_CATEGORY))
            for rows, t in zip(tables, (KERNEL, MEMCPY, MEMSET, GRAPH), strict=True)
        ]
        trace.activities = pl.concat(tagged, how="diagonal_relaxed")
        del kernels, tables, tagged
        trace.host_calls = _calls(export)
        payloads = read_payloads(store, export.strings)
        trace.activities = state_collectives(trace.activities, trace.host_calls, payloads)
        trace.operators, trace.ranges = read_annotations(export.read, export.named)
        sampled = [read_metrics(store, trace.warnings), read_counters(store, trace.warnings)]
        telemetry = pl.concat(sampled, how="diagonal")
        trace.devices, trace.activities, trace.telemetry = read_devices(
            export.read, trace.activities, telemetry, trace.warnings
        )
        if not ran:
            trace.warnings.append("no kernel ran while this trace was recorded")
        trace.warnings += _diagnostics(export)
    return trace


def _diagnostics(export: Export) -> list[str]:
    frame = export.read("DIAGNOSTIC_EVENT", {"severity": _I, "text": pl.String()})
    lost = frame.filter(pl.col("text").str.to_lowercase().str.contains("lost|dropped|incomplete|not all"))
    return [
        f"the profiler says: {t[:200]}"
        for t in lost.select(clean_text("text")).to_series().unique().sort().head(3)
    ]


Read = Callable[..., pl.DataFrame]
_PUSH_POP, _START_END, _MARK = 59, 60, 34
_COLUMNS = {
    "start": pl.Int64(),
    "end": pl.Int64(),
    "eventType": pl.Int64(),
    "text": pl.String(),
    "textId": pl.Int64(),
    "globalTid": pl.Int64(),
}
_MASK = (1 << 24) - 1


def split_operators(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split named intervals into framework operators and other ranges.

    Notes
    -----
    ``emit_nvtx`` writes ``NAME, seq = N, op_id = N, sizes = [[..], ..], input_op_ids = [..]``, each
    part optional. A name of the ``aten::`` kind without parts is an operator too.
    """
    text = pl.col("name")
    is_operator = text.str.contains(r"(?:, (?:seq|op_id) = \d+)|, sizes = \[|^aten::\w+$")
    operators = frame.filter(is_operator).with_columns(
        name=text.str.extract(r"^(.*?)(?:, (?:seq|op_id|sizes|input_op_ids) = .*)?$", 1),
        input_dims=text.str.extract(r", sizes = (\[.*?\])(?:, input_op_ids = .*)?$", 1),
        sequence=text.str.extract(r", seq = (\d{1,18})", 1).cast(pl.Int64(), strict=False),
        external_id=pl.lit(None, dtype=pl.Int64()),
    )
    return operators, frame.filter(~is_operator)


def read_annotations(read: Read, named: Callable[..., pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return operators and ranges of ``NVTX_EVENTS``."""
    frame = read("NVTX_EVENTS", _COLUMNS, ("eventType", (_PUSH_POP, _START_END, _MARK)))
    frame = named(frame, "textId", "registered")
    frame = frame.with_columns(name=clean_text(pl.coalesce("text", pl.col("registered").cast(pl.String))))
    end = pl.when(pl.col("eventType") == _MARK).then(pl.col("start")).otherwise(pl.col("end"))
    frame = frame.select(
        "name",
        start_ns=pl.col("start"),
        duration_ns=end - pl.col("start"),
        process=(pl.col("globalTid") // (1 << 24)) & _MASK,
        thread=pl.col("globalTid") & _MASK,
    )
    frame = frame.drop_nulls(["name", "start_ns", "duration_ns"]).filter(pl.col("duration_ns") >= 0)
    return split_operators(in_order(frame, "start_ns"))
