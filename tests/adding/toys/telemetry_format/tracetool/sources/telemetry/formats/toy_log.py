"""Toy logs: a first line ``TOYLOG`` and one reading a line: seconds since 1970, watts."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.readings import power_rows


def sniff(probe: Probe) -> float:
    """Score: the first line."""
    return 1.0 if probe.head.startswith(b"TOYLOG") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings."""
    cells = pl.Series("text", read_text(path, options.max_ratio).splitlines()[1:], dtype=pl.String)
    rows = (
        cells.to_frame()
        .with_row_index("line", 2)
        .with_columns(pl.col("text").str.extract_groups(r"^(\d{1,10})\.?(\d{0,9}) ([\d.]+)$").alias("cell"))
        .with_columns(
            time_ns=(pl.col("cell").struct[0] + pl.col("cell").struct[1].str.pad_end(9, "0")).cast(pl.Int64),
            power=pl.col("cell").struct[2].cast(pl.Float64, strict=False),
            device=pl.lit(0, pl.Int32),
        )
    )
    bad, good = rows.filter(pl.col("power").is_null()), rows.filter(pl.col("power").is_not_null())
    if not good.height:
        raise BadInput.in_file(path, "holds no reading: seconds watts", "log again")
    trace = Trace("toy log", Clock("utc", 0, 1e6, basis="seconds since 1970"))
    if bad.height:
        trace.rejected.append(rejected_rows(path.name, bad["line"], "not a reading", bad["text"]))
    trace.telemetry = power_rows(good.select("time_ns", "device", "power"), {"power": "power"}, {"power": None})
    trace.devices = pl.DataFrame({"device": [0], "profiler_device": [0]})
    return trace


FORMAT = Format(
    title="toy log",
    holds="telemetry",
    made_by="a toy logger",
    tried="1",
    checked="1",
    sniff=sniff,
    read=read,
    suffixes=(".toylog",),
    memory_ratio=20.0,
)
