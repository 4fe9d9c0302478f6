"""``perf stat -I -x,``: RAPL energy of each interval, in joules."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import wall_clock_ns
from tracetool.sources.telemetry.meters import meter_rows, readings

_STARTED = re.compile(r"#\s*started on (.+)")
_ROW = r"^\s*(\d{1,9}\.\d+)[,;](?:(S\d+(?:-D\d+)?)[,;]\d+[,;])?([^,;]+)[,;](Joules)[,;](power/energy-[a-z]+/)"
_SCOPES = {
    "power/energy-pkg/": "socket", "power/energy-ram/": "host_memory", "power/energy-psys/": "node",
}  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: lines of an interval with joules of a power event."""
    return 1.0 if any(re.match(_ROW, line) for line in probe.lines(40)) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the energy counted up since the start, for each event and socket.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    lines = read_text(path, options.max_ratio).splitlines()
    started = next((m[1] for line in lines[:50] if (m := _STARTED.match(line))), None)
    start_ns = wall_clock_ns(started.strip()) if started else None
    table = pl.DataFrame({"text": lines}, schema={"text": pl.String}).with_row_index("line", offset=1)
    table = table.filter((pl.col("text").str.strip_chars() != "") & ~pl.col("text").str.starts_with("#"))
    fields = table["text"].str.extract_groups(_ROW).struct.unnest()
    fields.columns = ["seconds", "socket", "joules", "unit", "event"]
    table = table.hstack(fields).with_columns(
        (pl.col("seconds").cast(pl.Float64) * 1e9).round().cast(pl.Int64).alias("time_ns") + (start_ns or 0),
        pl.col("joules").cast(pl.Float64, strict=False),
        pl.col("socket").fill_null("all"),
    )
    energies = table.filter(pl.col("event").is_in([*_SCOPES]) & pl.col("joules").is_not_null())
    clock = (
        Clock("local", error_ns=5e8, basis="perf's start in local time, whole seconds, and the time since")
        if start_ns is not None
        else Clock("session", basis="seconds since perf started")
    )
    trace = Trace("perf stat", clock)
    bad = table.filter(pl.col("event").is_null() | pl.col("joules").is_null())
    if bad.height:
        trace.rejected.append(
            rejected_rows(path.name, bad["line"], "not an interval with joules", bad["text"])
        )
    if not energies.height:
        raise BadInput.in_file(
            path,
            "holds no joules of a package",
            "perf stat -a -I 100 -x, -e power/energy-pkg/ -o perf.csv ./app",
        )
    meters = []
    for (event, socket), rows in energies.group_by("event", "socket", maintain_order=True):
        zero = rows.head(1).with_columns(joules=pl.lit(0.0), time_ns=pl.lit(start_ns or 0, dtype=pl.Int64))
        counted = pl.concat([zero, rows]).with_columns(pl.col("joules").cum_sum())
        scope = _SCOPES[str(event)]
        meters.append(meter_rows(counted, scope, f"{scope}.{event}{socket}", energy="joules"))
    trace.telemetry = readings(meters)
    return trace


FORMAT = Format(
    title="perf stat intervals (RAPL)",
    holds="telemetry",
    made_by="perf stat -a --per-socket -I 100 -x, -e power/energy-pkg/,power/energy-ram/ -o perf.csv ./app",
    tried="fields of perf 5 and 6, with and without --per-socket",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".csv", ".txt"),
    memory_ratio=30.0,
)
