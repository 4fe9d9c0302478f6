"""Slurm's energy accounting: ``sh5util`` series of node power and ``sacct`` totals of jobs."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, header_names, read_csv
from tracetool.sources.io.text import head_bytes, read_text
from tracetool.sources.telemetry.localtime import parse_stamps
from tracetool.sources.telemetry.meters import meter_rows, readings

_SERIES = ("Node", "Series", "Date_Time", "Elapsed_Time", "Power")
_SACCT = ("JobID", "ConsumedEnergyRaw", "Start", "End")
_LOCAL = Clock("local", error_ns=1e9, basis="Slurm's local time, whole seconds")


def sniff(probe: Probe) -> float:
    """Score: the columns of an extracted energy series, or of sacct with raw energy and times."""
    first = (probe.lines(1) or [""])[0]
    if has_columns(first, *_SERIES):
        return 1.0
    names = {n.lower() for n in first.split("|")}
    return 1.0 if {n.lower() for n in _SACCT} <= names else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return node power, or what each job's nodes consumed from start to end.

    Raises
    ------
    BadInput
        If it holds no energy.
    """
    first = next(iter(head_bytes(path)[0].decode("utf-8", "replace").splitlines()), "")
    return _sacct(path, options) if "|" in first else _series(path, options, header_names(first))


def _series(path: Path, options: ReadOptions, names: list[str]) -> Trace:
    if missing := [n for n in ("Date_Time", "Node", "Power") if n not in {m.strip() for m in names}]:
        raise BadInput.in_file(
            path, f"has no column {missing[0]}", "sh5util -j JOB -E -l Node:TimeSeries -s Energy"
        )
    text = pl.String()
    columns = {n.strip(): ([n], text) for n in names}
    rows = read_csv(path, {c: columns[c] for c in columns if c in _SERIES}, options.max_ratio)
    rows = rows.with_columns(parse_stamps(rows["Date_Time"]).alias("time_ns"), watts=measured("Power"))
    usable = pl.col("time_ns").is_not_null() & pl.col("watts").is_not_null()
    trace = Trace("Slurm", _LOCAL)
    if (bad := rows.filter(~usable)).height:
        trace.rejected.append(
            rejected_rows(path.name, bad["line"], "no time or power", bad["Node"].fill_null(""))
        )
    good = rows.filter(usable)
    if not good.height:
        raise BadInput.in_file(path, "holds no power", "sh5util -j JOB -E -l Node:TimeSeries -s Energy")
    trace.telemetry = readings(
        [
            meter_rows(part, "node", f"node.{node or 'Slurm'}", power="watts", kind="average")
            for (node,), part in good.group_by("Node", maintain_order=True)
        ]
    )
    return trace


def _sacct(path: Path, options: ReadOptions) -> Trace:
    lines = [line.strip() for line in read_text(path, options.max_ratio).splitlines() if line.strip()]
    names = [n.lower() for n in lines[0].split("|")]
    rows, bad = [], []
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("|")
        row = dict(zip(names, cells, strict=False))
        raw = row.get("consumedenergyraw", "")
        if len(cells) < len(names) or not row.get("jobid"):
            bad.append((number, line))
        elif raw.isdecimal() and int(raw) < 10**13:
            if int(raw):  # 0: nothing was read yet
                rows.append((row["jobid"], float(raw), row.get("start"), row.get("end")))
        elif raw:
            bad.append((number, line))
    schema = {"job": pl.String, "joules": pl.Float64, "start": pl.String, "end": pl.String}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    table = table.with_columns(
        parse_stamps(table["start"]).alias("#s"), parse_stamps(table["end"]).alias("#e")
    )
    table = table.filter((pl.col("#e") > pl.col("#s")).fill_null(value=False))
    trace = Trace("Slurm", _LOCAL)
    if bad:
        trace.rejected.append(
            rejected_rows(path.name, [n for n, _ in bad], "not a job with joules", [t for _, t in bad])
        )
    if not table.height:
        raise BadInput.in_file(
            path, "holds no energy of a job that has ended",
            "sacct -P -j JOB --format=JobID,ConsumedEnergyRaw,Start,End (needs AcctGatherEnergyType)",
        )  # fmt: skip
    # A job's own row holds its steps' energy; where it is empty the step with most stands for the job.
    whole = table.with_columns(
        pl.col("job").str.split(".").list.first().alias("#job"),
        pl.col("job").str.contains(".", literal=True).alias("#step"),
    ).sort("#job", "#step", "joules", descending=[False, False, True], maintain_order=True)
    jobs = whole.unique("#job", keep="first", maintain_order=True)
    ends = [
        meter_rows(
            pl.DataFrame({"time_ns": [row["#s"], row["#e"]], "j": [0.0, row["joules"]]}),
            "node", f"node.job {row['#job']}", energy="j",
        )
        for row in jobs.iter_rows(named=True)
    ]  # fmt: skip
    trace.telemetry = readings(ends)
    return trace


FORMAT = Format(
    title="Slurm energy accounting",
    holds="telemetry",
    made_by="sh5util -j JOB -E -s Energy   (or sacct -P --format=JobID,ConsumedEnergyRaw,Start,End)",
    tried="the columns sh5util's source writes; sacct -P of acct_gather_energy (RAPL, IPMI, XCC)",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".csv", ".txt"),
    memory_ratio=25.0,
)
