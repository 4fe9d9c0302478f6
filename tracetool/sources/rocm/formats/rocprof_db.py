"""``rocprof`` version 1 databases (``results.db``), and those of the profiler derived from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.sqlite_file import list_tables, open_sqlite, read_spelled, refuse_view
from tracetool.sources.rocm.dispatches import (
    BOOT,
    DISPATCH,
    activities,
    copy_name,
    number_devices,
    plain_names,
)
from tracetool.tables.serialized import SERIALIZED

_I, _S = pl.Int64(), pl.String()
_TIMED: dict[str, tuple[list[str], pl.DataType]] = {
    "start_ns": (["BeginNs"], _I), "end_ns": (["EndNs"], _I), "name": (["Name", "Kind"], _S),
    "correlation": (["Index", "_Index"], _I), "thread": (["tid"], _I),
    "process": (["proc-id", "pid"], _I), "profiler_device": (["dev-id", "dev_id"], _I),
    "stream": (["stream-id", "queue-id", "queue_id"], _I),
}  # fmt: skip
_KERNEL_TABLES = ("KERN", "A")


def sniff(probe: Probe) -> float:
    """Score: a table of kernels or of operations with their times."""
    tables = {name: {c.lower() for c in columns} for name, columns in probe.tables.items()}
    if any("kernelname" in tables.get(t, ()) and "beginns" in tables.get(t, ()) for t in _KERNEL_TABLES):
        return 1.0
    return 0.9 if {"beginns", "endns"} <= tables.get("OPS", set()) else 0.0


@dataclass(frozen=True)
class _Database:
    path: Path
    db: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]

    def timed(self, table: str) -> pl.DataFrame:
        """Return a table of operations or calls; names given by number are looked up."""
        frame = read_spelled(self.path, self.db, self.tables, table, _TIMED)
        if "STR_TABLE" in self.tables and table in self.tables:
            number = read_spelled(self.path, self.db, self.tables, table, {"number": (["Name"], _I)})
            frame = frame.with_columns(number["number"])
            listed = read_spelled(
                self.path,
                self.db,
                self.tables,
                "STR_TABLE",
                {"number": (["STR_ID"], _I), "said": (["STR_NAME"], _S)},
            ).drop("row")
            frame = frame.join(
                listed.unique("number", keep="first"), on="number", how="left", maintain_order="left"
            )
            frame = frame.with_columns(name=pl.coalesce("name", "said")).drop("number", "said")
        return frame


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    options.progress.step(f"reading {path.name}")
    tables = list_tables(path)
    with open_sqlite(path) as connection:
        database = _Database(path, connection, tables)
        trace = Trace("rocprof", BOOT)
        for table in (*_KERNEL_TABLES, "OPS", "COPY", "HIP", "HSA", "rocTX"):
            if table not in tables:
                refuse_view(path, connection, table)
        activity_tables = []
        for table in _KERNEL_TABLES:
            if "kernelname" in {c.lower() for c in tables.get(table, ())}:
                frame = read_spelled(path, connection, tables, table, DISPATCH)
                activity_tables.append(activities(frame, f"{table} row"))
        if any(rows_of_table.height for rows_of_table in activity_tables):
            trace.warnings.append(SERIALIZED)
        activity_tables.append(_operations(database, "OPS", "kernel"))
        activity_tables.append(_operations(database, "COPY", "memcpy"))
        # OPS and KERN of one run list the same dispatches: KERN states more.
        if activity_tables[0].height and len(activity_tables) > 2 and activity_tables[-2].height:
            activity_tables[-2] = activity_tables[-2].clear()
        rows = pl.concat(
            [rows_of_table for rows_of_table in activity_tables if rows_of_table.height]
            or activity_tables[:1],
            how="diagonal",
        )
        trace.activities, trace.devices = number_devices(rows)
        if "launch_ns" in trace.activities.columns and not trace.activities["launch_ns"].count():
            trace.activities = trace.activities.drop("launch_ns", "thread")
        calls = [_calls(database, t) for t in ("HIP", "HSA") if t in tables]
        if calls:
            trace.host_calls = with_call_kinds(pl.concat(calls))
        if "rocTX" in tables:
            trace.ranges = _calls(database, "rocTX").with_columns(
                name=pl.col("name").str.strip_chars().str.strip_chars('"')
            )
        if not rows.height:
            trace.warnings.append("no kernel ran while this trace was recorded")
        else:
            trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _operations(database: _Database, table: str, kind: str) -> pl.DataFrame:
    frame = database.timed(table)
    device = pl.col("profiler_device")
    name = plain_names(frame["name"]) if kind == "kernel" else copy_name("name")
    # HIP calls of the same database carry a lane, not a process: what ties them is the index alone.
    return frame.with_columns(
        name=name, kind=pl.lit(kind), profiler_device=device.fill_null(0),
        process=pl.lit(None, dtype=_I), place=pl.format(f"{table} row {{}}", "row"),
    ).drop("row", "thread")  # fmt: skip


def _calls(database: _Database, table: str) -> pl.DataFrame:
    return database.timed(table).select(
        "start_ns", "thread", "correlation", "process",
        name=clean_text("name"), duration_ns=pl.col("end_ns") - pl.col("start_ns"),
    )  # fmt: skip


FORMAT = Format(
    title="rocprof results database",
    holds="trace",
    made_by="rocprof --hip-trace --roctx-trace -o results.csv ./app   (results.db lies beside it)",
    tried="ROCm 4 to 6",
    checked="names and nanoseconds of what the test wrote; rows counted by SQL alone",
    sniff=sniff,
    read=read,
    suffixes=(".db",),
    memory_ratio=0.0,
)
