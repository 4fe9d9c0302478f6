"""Toy traces: a first line ``TOYTRACE`` and one kernel a line: start, end, name. [ns]"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import clean_text, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text


def sniff(probe: Probe) -> float:
    """Score: the first line."""
    return 1.0 if probe.head.startswith(b"TOYTRACE") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the kernels."""
    lines = pl.Series("text", read_text(path, options.max_ratio).splitlines()[1:], dtype=pl.String)
    cells = pl.col("text").str.extract_groups(r"^(\d{1,18}) (\d{1,18}) (.+)$")
    rows = lines.to_frame().with_row_index("line", 2).filter(pl.col("text").str.strip_chars() != "")
    rows = rows.with_columns(cells.struct.rename_fields(["start_ns", "end_ns", "name"]).alias("cells")).unnest("cells")
    bad, good = rows.filter(pl.col("name").is_null()), rows.filter(pl.col("name").is_not_null())
    if not good.height:
        raise BadInput.in_file(path, "holds no line: start end name", "write the trace again")
    trace = Trace("toy", Clock("session", basis="times as the trace gives them"))
    if bad.height:
        trace.rejected.append(rejected_rows(path.name, bad["line"], "not a kernel", bad["text"]))
    trace.devices = pl.DataFrame({"device": [0], "name": ["NVIDIA H100 80GB HBM3"]})
    trace.activities = good.select(
        pl.col("start_ns", "end_ns").cast(pl.Int64),
        clean_text(pl.col("name")),
        place=pl.format("line {}", "line"),
        kind=pl.lit("kernel"),
        device=pl.lit(0, pl.Int32),
    )
    return trace


FORMAT = Format(
    title="toy trace",
    holds="trace",
    made_by="a toy profiler",
    tried="1",
    checked="1",
    sniff=sniff,
    read=read,
    suffixes=(".toy",),
)
