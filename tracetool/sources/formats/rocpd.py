"""rocpd databases, the default output of ``rocprofv3`` since ROCm 7: one file per process, or merged."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.rocm.dispatches import BOOT, blocks_from_items, gfx_name, number_devices, plain_names
from tracetool.sources.rocm.v1 import copy_name
from tracetool.sources.sqlite_file import list_tables, open_sqlite, read_spelled
from tracetool.vocabulary.errors import BadInput

_I, _S = pl.Int64(), pl.String()
_KERNELS: dict[str, tuple[list[str], pl.DataType]] = {
    "name": (["name"], _S), "start_ns": (["start"], _I), "end_ns": (["end"], _I), "process": (["pid"], _I),
    "guid": (["guid"], _S), "agent": (["agent_abs_index", "agent_absolute_index"], _I),
    "thread": (["tid"], _I),
    "queue": (["queue_id"], _I), "stream": (["stream_id"], _I),
    "correlation": (["parent_stack_id", "stack_id"], _I),
    "shared_dynamic_bytes": (["lds_size", "group_segment_size"], _I),
    "vgpr": (["vgpr_count", "arch_vgpr_count"], _I), "accum": (["accum_vgpr_count"], _I),
    **{f"grid_{a}": ([f"grid_{a}"], _I) for a in "xyz"},
    **{f"block_{a}": ([f"workgroup_{a}"], _I) for a in "xyz"},
}  # fmt: skip
_COPIES: dict[str, tuple[list[str], pl.DataType]] = {
    "said": (["name"], _S), "start_ns": (["start"], _I), "end_ns": (["end"], _I), "process": (["pid"], _I),
    "bytes": (["size"], _I), "stream": (["stream_id"], _I),
    "correlation": (["parent_stack_id", "stack_id"], _I),
    "to": (["dst_agent_abs_index", "dst_agent_absolute_index"], _I), "to_type": (["dst_agent_type"], _S),
    "from": (["src_agent_abs_index", "src_agent_absolute_index"], _I), "guid": (["guid"], _S),
}  # fmt: skip
_REGIONS: dict[str, tuple[list[str], pl.DataType]] = {
    "name": (["name"], _S), "category": (["category"], _S), "start_ns": (["start"], _I),
    "end_ns": (["end"], _I),
    "process": (["pid"], _I), "thread": (["tid"], _I), "correlation": (["stack_id"], _I),
    "extra": (["extdata"], _S),
}  # fmt: skip
_AGENTS: dict[str, tuple[list[str], pl.DataType]] = {
    "index": (["absolute_index"], _I), "type": (["type"], _S),
    "name": (["product_name", "model_name", "name"], _S),
    "chip": (["name"], _S), "extra": (["extdata"], _S),
}  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: tables of dispatches that carry the process's id in their names, or the views over them."""
    if any(t.startswith("rocpd_kernel_dispatch") for t in probe.tables):
        return 1.0
    return (
        0.5
        if any(t.startswith("rocpd_metadata") for t in probe.tables) and "rocpd_op" not in probe.tables
        else 0.0
    )


@dataclass(frozen=True)
class _Database:
    path: Path
    db: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]

    def view(self, name: str, wanted: Mapping[str, tuple[Sequence[str], pl.DataType]]) -> pl.DataFrame:
        return read_spelled(self.path, self.db, self.tables, name, wanted)

    def parts(self, name: str, wanted: Mapping[str, tuple[Sequence[str], pl.DataType]]) -> pl.DataFrame:
        """Return a table: its view over all processes where there is one, else each process's own."""
        if name in self.tables:
            return self.view(name, wanted)
        own = sorted(t for t in self.tables if t.startswith(f"{name}_"))
        found = [self.view(t, wanted) for t in own]
        return pl.concat(found) if found else self.view(name, wanted)


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If the views are missing and the tables are of a layout that is not known.
    """
    options.progress.step(f"reading {path.name}")
    tables = list_tables(path)
    with open_sqlite(path) as connection:
        base = _Database(path, connection, tables)
        trace = Trace("rocprofv3", BOOT)
        kernels = _kernels(base)
        parts = [kernels, _copies(base)]
        trace.activities, trace.devices = number_devices(pl.concat(parts, how="diagonal"), _agents(base))
        _add_regions(trace, base.view("regions", _REGIONS))
        trace.schema_version = _schema_version(base)
        if not kernels.height:
            trace.warnings.append("no kernel ran while this trace was recorded")
    return trace


def _schema_version(base: _Database) -> str | None:
    tags = base.parts("rocpd_metadata", {"tag": (["tag"], _S), "value": (["value"], _S)})
    found = tags.filter(pl.col("tag") == "schema_version")["value"]
    return str(found[0])[:20] if len(found) and found[0] is not None else None


def _kernels(base: _Database) -> pl.DataFrame:
    frame = base.view("kernels", _KERNELS) if "kernels" in base.tables else _kernels_without_views(base)
    frame = frame.with_columns(
        name=plain_names(frame["name"]), kind=pl.lit("kernel"), profiler_device=pl.col("agent"),
        stream=pl.coalesce("stream", "queue"), place=pl.format("kernels {}", "row"),
        registers_per_thread=pl.col("vgpr") + pl.col("accum").fill_null(0),
    )  # fmt: skip
    return blocks_from_items(frame).drop("row", "guid", "agent", "thread", "queue", "vgpr", "accum")


_DISPATCHES: dict[str, tuple[list[str], pl.DataType]] = {
    "guid": (["guid"], _S), "kernel_id": (["kernel_id"], _I), "agent_id": (["agent_id"], _I),
    "process": (["pid"], _I), "thread": (["tid"], _I), "queue": (["queue_id"], _I),
    "stream": (["stream_id"], _I),
    "start_ns": (["start"], _I), "end_ns": (["end"], _I), "event_id": (["event_id"], _I),
    "shared_dynamic_bytes": (["group_segment_size"], _I),
    **{f"grid_{a}": ([f"grid_size_{a}"], _I) for a in "xyz"},
    **{f"block_{a}": ([f"workgroup_size_{a}"], _I) for a in "xyz"},
}  # fmt: skip


def _kernels_without_views(base: _Database) -> pl.DataFrame:
    """Return the dispatches joined as the views would, on the process's id too."""
    frame = base.parts("rocpd_kernel_dispatch", _DISPATCHES)
    if frame.height and not frame["start_ns"].count():
        raise BadInput.in_file(
            base.path,
            "has no views, and its dispatches keep their times elsewhere",
            "convert it with: rocpd convert",
        )
    symbols = base.parts(
        "rocpd_info_kernel_symbol",
        {"guid": (["guid"], _S), "kernel_id": (["id"], _I), "name": (["display_name"], _S),
         "vgpr": (["arch_vgpr_count"], _I), "accum": (["accum_vgpr_count"], _I)},
    ).drop("row").unique(["guid", "kernel_id"], keep="first")  # fmt: skip
    agents = base.parts(
        "rocpd_info_agent",
        {"guid": (["guid"], _S), "agent_id": (["id"], _I), "agent": (["absolute_index"], _I)}
    ).drop("row").unique(["guid", "agent_id"], keep="first")  # fmt: skip
    events = base.parts(
        "rocpd_event",
        {"guid": (["guid"], _S), "event_id": (["id"], _I), "correlation": (["parent_stack_id"], _I)}
    ).drop("row").unique(["guid", "event_id"], keep="first")  # fmt: skip
    for other, key in ((symbols, "kernel_id"), (agents, "agent_id"), (events, "event_id")):
        frame = frame.join(other, on=["guid", key], how="left", nulls_equal=True, maintain_order="left")
    return frame.drop("kernel_id", "agent_id", "event_id")


def _copies(base: _Database) -> pl.DataFrame:
    frame = base.view("memory_copies", _COPIES)
    to_gpu = pl.col("to_type").str.to_uppercase() == "GPU"
    return frame.select(
        "start_ns", "end_ns", "process", "bytes", "stream", "correlation",
        kind=pl.lit("memcpy"), name=copy_name("said"), place=pl.format("memory_copies {}", "row"),
        profiler_device=pl.when(to_gpu.fill_null(value=False)).then(pl.col("to")).otherwise(pl.col("from")),
    )  # fmt: skip


def _add_regions(trace: Trace, frame: pl.DataFrame) -> None:
    """Split regions into markers and calls of the runtime. A marker's text stands in its extra data."""
    frame = frame.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    marker = pl.col("category").str.to_uppercase().str.contains("MARKER").fill_null(value=False)
    said = pl.col("extra").str.extract(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', 1)
    trace.ranges = frame.filter(marker).select(
        "start_ns", "duration_ns", "process", "thread", name=clean_text(pl.coalesce(said, "name"))
    )
    calls = frame.filter(~marker).select(
        "start_ns", "duration_ns", "process", "thread", "correlation", name=clean_text("name").fill_null("?")
    )
    trace.host_calls = with_call_kinds(calls)


def _agents(base: _Database) -> dict[int, dict[str, Any]]:
    """Return the GPUs. The environment of the process lies in another table, which is never read."""
    frame = base.parts("rocpd_info_agent", _AGENTS).filter(pl.col("type").str.to_uppercase() == "GPU")
    found: dict[int, dict[str, Any]] = {}
    for row in frame.drop_nulls("index").unique("index", keep="first").iter_rows(named=True):
        extra = _json(row["extra"])
        units, clock = extra.get("cu_count"), extra.get("max_engine_clk_fcompute")
        version = extra.get("gfx_target_version")
        found[row["index"]] = {
            "name": row["name"] or row["chip"],
            "compute_capability": gfx_name(version if isinstance(version, int) else None) or row["chip"],
            "sm_count": units if isinstance(units, int) and 0 < units < 1 << 20 else None,
            "clock_max_mhz": float(clock) if isinstance(clock, int) and clock > 0 else None,
        }
    return found


def _json(text: str | None) -> dict[str, Any]:
    import msgspec

    try:
        found = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


FORMAT = Format(
    title="rocpd database",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format rocpd -- ./app   (the default since ROCm 7)",
    tried="schema 3, with its views and without, merged files",
    sniff=sniff,
    read=read,
    suffixes=("_results.db", ".db"),
)
