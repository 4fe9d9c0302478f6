"""rocpd databases, the default output of ``rocprofv3`` since ROCm 7: one file per process, or merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.sqlite_file import list_tables, open_sqlite
from tracetool.sources.rocm.dispatches import BOOT, blocks_from_items, gfx_name, number_devices, plain_names
from tracetool.sources.rocm.rocpd import Database
from tracetool.sources.rocm.v1 import copy_name

_I, _S = pl.Int64(), pl.String()
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
        parts = [kernels, _copies(base)]
        trace.activities, trace.devices = number_devices(pl.concat(parts, how="diagonal"), _agents(base))
        _add_regions(trace, base.regions())
        trace.schema_version = _schema_version(base)
        if not kernels.height:
            trace.warnings.append("no kernel ran while this trace was recorded")
    return trace


def _schema_version(base: Database) -> str | None:
    tags = base.parts("rocpd_metadata", {"tag": (["tag"], _S), "value": (["value"], _S)})
    found = tags.filter(pl.col("tag") == "schema_version")["value"]
    return str(found[0])[:20] if len(found) and found[0] is not None else None


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


def _agents(base: Database) -> dict[int, dict[str, Any]]:
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
    tried="schemas 3 and 4, merged files",
    sniff=sniff,
    read=read,
    suffixes=("_results.db", ".db"),
    memory_ratio=0.0,
)
