"""rocpd databases, the default output of ``rocprofv3`` since ROCm 7: one file per process, or merged.

The tables are joined as its views would join them: a view is a program and is never run. Every process has
tables of its own, their names ending in its id; a merged file holds those of several. Rows of two tables
belong together by number and process. Source: the schema of rocprofiler-sdk, versions 3 and 4.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.sqlite_file import list_tables, open_sqlite, read_spelled, refuse_view
from tracetool.sources.rocm.counters import gpu_telemetry, placed
from tracetool.sources.rocm.dispatches import (
    BOOT,
    blocks_from_items,
    copy_name,
    gfx_name,
    number_devices,
    plain_names,
)
from tracetool.sources.rocm.rocpd_counters import read_samples, unread_tables

_I, _S = pl.Int64(), pl.String()
Wanted = Mapping[str, tuple[Sequence[str], pl.DataType]]
_PLACE: Wanted = {
    "guid": (["guid"], _S), "pid": (["pid"], _I), "tid": (["tid"], _I), "event_id": (["event_id"], _I),
    "stream": (["stream_id"], _I), "queue": (["queue_id"], _I),
    "start_ns": (["start"], _I), "end_ns": (["end"], _I),
    "track_id": (["track_id"], _I), "start_id": (["start_id"], _I), "end_id": (["end_id"], _I),
}  # fmt: skip
_DISPATCHES: Wanted = {
    **_PLACE, "kernel_id": (["kernel_id"], _I), "agent_id": (["agent_id"], _I),
    "shared_dynamic_bytes": (["group_segment_size"], _I),
    **{f"grid_{a}": ([f"grid_size_{a}"], _I) for a in "xyz"},
    **{f"block_{a}": ([f"workgroup_size_{a}"], _I) for a in "xyz"},
}  # fmt: skip
_COPIES: Wanted = {
    **_PLACE, "name_id": (["name_id"], _I), "bytes": (["size"], _I), "to_id": (["dst_agent_id"], _I),
    "from_id": (["src_agent_id"], _I),
}  # fmt: skip
_REGIONS: Wanted = {**_PLACE, "name_id": (["name_id"], _I)}


@dataclass(frozen=True)
class Database:
    """An open database and its plain tables."""

    path: Path
    db: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]

    def parts(self, name: str, columns: Wanted) -> pl.DataFrame:
        """Return a table of all processes.

        Raises
        ------
        BadInput
            If that of a process is a view: its rows would be missed without a word.
        """
        for view in self._views(f"{name}_"):
            refuse_view(self.path, self.db, view)
        tables = [name] if name in self.tables else sorted(t for t in self.tables if t.startswith(f"{name}_"))
        tables_of_processes = [
            read_spelled(self.path, self.db, self.tables, t, columns) for t in tables or [name]
        ]
        return pl.concat(tables_of_processes)

    def _views(self, prefix: str) -> list[str]:
        """Return the names of views and virtual tables that begin with ``prefix``."""
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, ?) = ?"
        names = (str(row[0]) for row in self.db.execute(query, (len(prefix), prefix)))
        return sorted(name for name in names if name not in self.tables)

    def joined(
        self, frame: pl.DataFrame, table: str, key: str, columns: Mapping[str, tuple[str, pl.DataType]]
    ) -> pl.DataFrame:
        """Add columns of the row of another table that ``key`` is the number of; null where there is none.

        Parameters
        ----------
        frame : DataFrame
            With ``guid`` and ``key``.
        table, key : str
            The other table, and the column that refers to it.
        columns : mapping of str to (column, type)
            What to add.
        """
        spelled: Wanted = {n: ([c], kind) for n, (c, kind) in columns.items()}
        named_rows = self.parts(table, {"guid": (["guid"], _S), key: (["id"], _I), **spelled}).drop("row")
        named_rows = named_rows.drop_nulls(key).unique(["guid", key], keep="first")
        return frame.join(named_rows, on=["guid", key], how="left", nulls_equal=True, maintain_order="left")

    def _placed(self, name: str, columns: Wanted) -> pl.DataFrame:
        """Return a table with the times, process, thread and stack of each row."""
        frame = self.parts(name, columns)
        if frame["start_id"].count():  # schema 4 keeps times and places apart
            for end in ("start", "end"):
                frame = self.joined(frame, "rocpd_timestamp", f"{end}_id", {"#value": ("value", _I)})
                frame = frame.with_columns(pl.coalesce(f"{end}_ns", "#value").alias(f"{end}_ns")).drop(
                    "#value"
                )
        if frame["track_id"].count():
            track_columns = {
                "pid": "pid",
                "tid": "tid",
                "stream": "stream_id",
                "queue": "queue_id",
                "agent_id": "agent_id",
            }
            track_columns = {n: c for n, c in track_columns.items() if n in frame.columns}
            frame = self.joined(
                frame, "rocpd_track", "track_id", {f"#{n}": (c, _I) for n, c in track_columns.items()}
            )
            frame = frame.with_columns(pl.coalesce(n, f"#{n}").alias(n) for n in track_columns).drop(
                f"#{n}" for n in track_columns
            )
        frame = self.joined(frame, "rocpd_info_process", "pid", {"process": ("pid", _I)})
        frame = self.joined(frame, "rocpd_info_thread", "tid", {"thread": ("tid", _I)})
        frame = frame.with_columns(process=pl.coalesce("process", "pid"), thread=pl.coalesce("thread", "tid"))
        return frame.drop("track_id", "start_id", "end_id", "pid", "tid")

    def _events(self, frame: pl.DataFrame, columns: Mapping[str, tuple[str, pl.DataType]]) -> pl.DataFrame:
        return self.joined(frame, "rocpd_event", "event_id", columns).drop("event_id")

    def kernels(self) -> pl.DataFrame:
        """Return the dispatches: names, times, agents, geometry, and the stack of the call behind each."""
        frame = self._placed("rocpd_kernel_dispatch", _DISPATCHES)
        symbol = {
            "name": ("display_name", _S),
            "vgpr": ("arch_vgpr_count", _I),
            "accum": ("accum_vgpr_count", _I),
        }
        frame = self.joined(frame, "rocpd_info_kernel_symbol", "kernel_id", symbol)
        frame = self.joined(frame, "rocpd_info_agent", "agent_id", {"agent": ("absolute_index", _I)})
        frame = self._events(frame, {"correlation": ("parent_stack_id", _I)})
        return frame.drop("kernel_id", "agent_id")

    def copies(self) -> pl.DataFrame:
        """Return the memory copies: direction, size, times, and the agents at both ends."""
        frame = self._placed("rocpd_memory_copy", _COPIES)
        frame = self.joined(frame, "rocpd_string", "name_id", {"said": ("string", _S)})
        ends = {"to": ("absolute_index", _I), "to_type": ("type", _S)}
        frame = self.joined(frame, "rocpd_info_agent", "to_id", ends)
        frame = self.joined(frame, "rocpd_info_agent", "from_id", {"from": ("absolute_index", _I)})
        frame = self._events(frame, {"correlation": ("parent_stack_id", _I)})
        return frame.drop("name_id", "to_id", "from_id")

    def regions(self) -> pl.DataFrame:
        """Return the calls and markers of the host: names, categories, times, stacks."""
        frame = self._placed("rocpd_region", _REGIONS)
        frame = self.joined(frame, "rocpd_string", "name_id", {"name": ("string", _S)})
        event = {
            "correlation": ("stack_id", _I),
            "extra": ("extdata", _S),
            "category_id": ("category_id", _I),
        }
        frame = self._events(frame, event)
        frame = self.joined(frame, "rocpd_string", "category_id", {"category": ("string", _S)})
        return frame.drop("name_id", "category_id")


_AGENTS: dict[str, tuple[list[str], pl.DataType]] = {
    "index": (["absolute_index"], _I), "type": (["type"], _S),
    "name": (["product_name", "model_name", "name"], _S),
    "chip": (["name"], _S), "extra": (["extdata"], _S),
}  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: tables of dispatches, which carry the process's id in their names."""
    if any(t.startswith("rocpd_kernel_dispatch") for t in probe.tables):
        return 1.0
    return 0.5 if any(t.startswith("rocpd_metadata_") for t in probe.tables) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If its dispatches have no times where the schema has them.
    """
    options.progress.step(f"reading {path.name}")
    tables = list_tables(path)
    with open_sqlite(path) as connection:
        base = Database(path, connection, tables)
        trace = Trace("rocprofv3", BOOT)
        kernels = _kernels(base)
        activities = [kernels, _copies(base)]
        trace.activities, trace.devices = number_devices(pl.concat(activities, how="diagonal"), _agents(base))
        _add_regions(trace, base.regions())
        trace.schema_version = _schema_version(base)
        trace.telemetry = placed(gpu_telemetry(read_samples(base), trace.warnings), trace.devices)
        trace.warnings += unread_tables(connection, tables)
        if not kernels.height:
            trace.warnings.append("no kernel ran while this trace was recorded")
    return trace


def _schema_version(base: Database) -> str | None:
    tags = base.parts("rocpd_metadata", {"tag": (["tag"], _S), "value": (["value"], _S)})
    versions = tags.filter(pl.col("tag") == "schema_version")["value"]
    return str(versions[0])[:20] if len(versions) and versions[0] is not None else None


def _kernels(base: Database) -> pl.DataFrame:
    frame = base.kernels()
    if frame.height and not frame["start_ns"].count():
        raise BadInput.in_file(
            base.path, "keeps the times of its dispatches elsewhere", "convert it with: rocpd convert"
        )
    frame = frame.with_columns(
        name=plain_names(frame["name"]), kind=pl.lit("kernel"), profiler_device=pl.col("agent"),
        stream=pl.coalesce("stream", "queue"), place=pl.format("kernels {}", "row"),
        registers_per_thread=pl.col("vgpr") + pl.col("accum").fill_null(0),
    )  # fmt: skip
    return blocks_from_items(frame).drop("row", "guid", "agent", "thread", "queue", "vgpr", "accum")


def _copies(base: Database) -> pl.DataFrame:
    frame = base.copies()
    to_gpu = pl.col("to_type").str.to_uppercase() == "GPU"
    return frame.select(
        "start_ns", "end_ns", "process", "bytes", "stream", "correlation",
        kind=pl.lit("memcpy"), name=copy_name("said"), place=pl.format("memory_copies {}", "row"),
        profiler_device=pl.when(to_gpu.fill_null(value=False)).then(pl.col("to")).otherwise(pl.col("from")),
    )  # fmt: skip


def _add_regions(trace: Trace, frame: pl.DataFrame) -> None:
    """Split regions into markers and calls of the runtime. A marker's text is in its extra data."""
    frame = frame.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    marker = pl.col("category").str.to_uppercase().str.contains("MARKER").fill_null(value=False)
    message = pl.col("extra").str.extract(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', 1)
    trace.ranges = frame.filter(marker).select(
        "start_ns", "duration_ns", "process", "thread", name=clean_text(pl.coalesce(message, "name"))
    )
    calls = frame.filter(~marker).select(
        "start_ns", "duration_ns", "process", "thread", "correlation", name=clean_text("name").fill_null("?")
    )
    trace.host_calls = with_call_kinds(calls)


def _agents(base: Database) -> dict[int, dict[str, Any]]:
    """Return the GPUs. The environment of the process is in another table, which is never read."""
    frame = base.parts("rocpd_info_agent", _AGENTS).filter(pl.col("type").str.to_uppercase() == "GPU")
    gpus: dict[int, dict[str, Any]] = {}
    for row in frame.drop_nulls("index").unique("index", keep="first").iter_rows(named=True):
        extra = _json(row["extra"])
        units, clock = extra.get("cu_count"), extra.get("max_engine_clk_fcompute")
        version = extra.get("gfx_target_version")
        gpus[row["index"]] = {
            "name": row["name"] or row["chip"],
            "compute_capability": gfx_name(version if isinstance(version, int) else None) or row["chip"],
            "sm_count": units if isinstance(units, int) and 0 < units < 1 << 20 else None,
            "clock_max_mhz": float(clock) if isinstance(clock, int) and clock > 0 else None,
        }
    return gpus


def _json(text: str | None) -> dict[str, Any]:
    import msgspec

    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


FORMAT = Format(
    title="rocpd database",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format rocpd -- ./app   (the default since ROCm 7)"
    ", or ROCPROFSYS_USE_ROCPD=ON rocprof-sys-run -- ./app",
    tried="schemas 3 and 4, merged files",
    checked="names and nanoseconds of what the test wrote; rows counted and polled power read by SQL alone",
    sniff=sniff,
    read=read,
    suffixes=("_results.db", ".db"),
    memory_ratio=0.0,
)
