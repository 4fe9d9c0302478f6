"""Counts of each kernel launch by Nsight Compute, from its CSV pages: measured work, no timeline."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns
from tracetool.sources.io.text import read_text
from tracetool.sources.nsight.ncu_metrics import WORK, work_of

_LAUNCH = ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device")
_LONG = ("Metric Name", "Metric Unit", "Metric Value")
_AGAIN = "write it again: ncu --import run.ncu-rep --csv --page raw > run.csv"


def sniff(probe: Probe) -> float:
    """Score: the header of a page, behind what ncu and the program print."""
    return 1.0 if any(_is_header(line) for line in probe.lines(400)) else 0.0


def _is_header(line: str) -> bool:
    return line.startswith('"ID"') and has_columns(line, "ID", "Process ID", "Kernel Name")


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the launches and what was counted of them in ``counted``.

    Raises
    ------
    BadInput
        If it holds no launch, or no count that can be used.
    """
    options.progress.step(f"reading {path.name}")
    cells = _cells(path, options)
    named = {name.lower(): name for name in cells.columns}
    missing = [name for name in ("ID", "Kernel Name") if name.lower() not in named]
    if missing:
        raise BadInput.in_file(path, f"has no column {' or '.join(missing)}", _AGAIN)
    cells = cells.rename({named[n.lower()]: n for n in (*_LAUNCH, *_LONG) if n.lower() in named})
    rows = cells.with_row_index("row").filter(pl.col("ID").str.contains(r"^\s*\d{1,9}\s*$"))
    if not rows.height:
        raise BadInput.in_file(path, "holds no launch: only a header", "profile again without a filter")
    trace = Trace("Nsight Compute", Clock("none", basis="counters of launches: no times"))
    trace.counted = _launches(rows).join(_work(cells, rows), on="launch_key", how="left").drop("launch_key")
    if trace.counted.select(pl.all_horizontal(pl.col(WORK).is_null()).all()).item():
        metrics = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum"
        raise BadInput.in_file(
            path, "holds no time, bytes or operations", f"profile with --metrics {metrics}, or --set roofline"
        )
    if lost := cells.height - rows.height - _unit_rows(cells):
        trace.warnings.append(f"{counted(lost, 'line')} of the table have no launch number and are left out")
    return trace


def _cells(path: Path, options: ReadOptions) -> pl.DataFrame:
    """Return the table as text: lines of the page, without the text around it."""
    lines = read_text(path, options.max_ratio).splitlines()
    start = next((i for i, line in enumerate(lines) if _is_header(line.strip())), None)
    if start is None:
        raise BadInput.in_file(path, "is no CSV page of Nsight Compute", _AGAIN)
    head = lines[start].strip()
    # A process that starts others has the header in their tables too; the program prints lines of its own.
    rows = [head, *(line for line in lines[start + 1 :] if line.startswith('"') and line.strip() != head)]
    try:
        page = io.BytesIO("\n".join(rows).encode())
        return pl.read_csv(page, infer_schema=False, truncate_ragged_lines=True).fill_null("")
    except (pl.exceptions.PolarsError, ValueError) as error:
        fault = str(error).splitlines()[0][:120] if str(error) else "unreadable"
        raise BadInput.in_file(path, f"is a broken CSV page: {fault}", _AGAIN) from error


def _unit_rows(cells: pl.DataFrame) -> int:
    """Return how many lines state units: the first of a table with a column for each metric."""
    return 0 if "Metric Name" in cells.columns else int((cells["ID"].str.strip_chars() == "").sum())


_KEY = pl.concat_str(pl.col("Process ID").fill_null(""), pl.col("ID").str.strip_chars(), separator="/").alias(
    "launch_key"
)


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    if "Process ID" not in rows.columns:
        rows = rows.with_columns(pl.lit("").alias("Process ID"))
    return rows.with_columns(_KEY)


def _launches(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per launch, in the order of the file: name, geometry, device."""
    absent = [pl.lit("").alias(c) for c in ("Block Size", "Grid Size", "Device") if c not in rows.columns]
    first = _keyed(rows.with_columns(absent)).unique("launch_key", keep="first", maintain_order=True)
    geometry = {}
    for column, name in (("Grid Size", "grid"), ("Block Size", "block")):
        axes = pl.col(column).str.extract_all(r"\d{1,10}")
        for i, axis in enumerate("xyz"):
            geometry[f"{name}_{axis}"] = axes.list.get(i, null_on_oob=True).cast(pl.Int64, strict=False)
    return first.select(
        "launch_key",
        name=clean_text("Kernel Name").str.strip_chars(),
        profiler_device=pl.col("Device").str.strip_chars().cast(pl.Int64, strict=False),
        **geometry,
    )


def _work(cells: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the counted work of each launch."""
    if set(_LONG) <= set(rows.columns):
        long = _keyed(rows).select(
            "launch_key",
            metric=pl.col("Metric Name"),
            unit=pl.col("Metric Unit"),
            value=pl.col("Metric Value"),
        )
        return work_of(long)
    metrics = [c for c in cells.columns if "__" in c]
    if not metrics:
        return work_of(
            pl.DataFrame(schema=dict.fromkeys(("launch_key", "metric", "unit", "value"), pl.String))
        )
    unit_rows = cells.filter(pl.col("ID").str.strip_chars() == "").head(1)
    units = dict(zip(metrics, unit_rows.select(metrics).row(0), strict=True)) if unit_rows.height else {}
    long = _keyed(rows).unpivot(metrics, index="launch_key", variable_name="metric", value_name="value")
    unit = pl.col("metric").replace_strict(units, default="", return_dtype=pl.String)
    return work_of(long.with_columns(unit=unit.fill_null("")))


FORMAT = Format(
    title="Nsight Compute CSV page",
    holds="counters",
    made_by="ncu --set roofline --csv --page raw --log-file ncu.csv python train.py",
    tried="a details page in microsoft/superbenchmark (compute capability 10.0); raw pages written by hand",
    checked="each metric as the csv module reads it, unit by unit; time and clock of the public page by eye",
    sniff=sniff,
    read=read,
    suffixes=(".csv",),
    memory_ratio=20.0,
)
