"""Slurm's energy accounting: ``sh5util`` series of node and GPU power, and ``sacct`` totals of jobs.

Source: ``src/plugins/acct_gather_profile/hdf5/sh5util`` of Slurm 26.11 (times since 1970, and a column for
each field that plugins of ``src/plugins/acct_gather_energy`` name), and its ``libsh5util_old`` (local times).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, header_line, header_names, read_csv
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import parse_stamps
from tracetool.sources.telemetry.meters import gpus_of_hosts, meter_rows, readings

_SERIES = ("Node", "Series", "Date_Time", "Elapsed_Time", "Power")
_EPOCHS = ("Step", "Node", "ElapsedTime", "EpochTime")
#: Fields of power: of plugins that know the node alone, of the gpu plugin, of ipmi's sensors by label.
_POWER: Final = re.compile(r"(?:GPU(?P<gpu>\d{1,3})|(?P<label>\w*?))Power")
_OF_NODE: Final = ("", "Node", "Curr")
_SACCT = ("JobID", "ConsumedEnergyRaw", "Start", "End")
_EXTRACT: Final = "sh5util -j JOB -E -l Node:TimeSeries -s Energy"
_LOCAL = Clock("local", error_ns=1e9, basis="Slurm's local time, whole seconds")


def sniff(probe: Probe) -> float:
    """Score: the columns of an extracted energy series, or of sacct with raw energy and times."""
    first = (probe.lines(1) or [""])[0]
    if has_columns(first, *_SERIES) or has_columns(first, *_EPOCHS):
        return 1.0
    names = {n.lower() for n in first.split("|")}
    return 1.0 if {n.lower() for n in _SACCT} <= names else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return power of nodes and GPUs, or what each job's nodes consumed from start to end.

    Raises
    ------
    BadInput
        If it holds no energy.
    """
    first = header_line(path)
    if "|" in first:
        return _sacct(path, options)
    names = header_names(first)
    return (_epochs if has_columns(first, *_EPOCHS) else _series)(path, options, names)


def _epochs(path: Path, options: ReadOptions, names: list[str]) -> Trace:
    powers = {n: match for n in names if (match := _POWER.fullmatch(n))}
    used = [n for n, match in powers.items() if match["gpu"] or match["label"] in _OF_NODE]
    if not used:
        raise BadInput.in_file(path, "has no column of power", _EXTRACT)
    text = pl.String()
    rows = read_csv(path, {n: ([n], text) for n in ("Node", "EpochTime", *used)}, options.max_ratio)
    rows = rows.with_columns(
        (pl.col("EpochTime").cast(pl.Int64, strict=False) * 10**9).alias("time_ns"),
        *(measured(n) for n in used),
    )
    usable = pl.col("time_ns").is_not_null() & pl.any_horizontal(pl.col(n).is_not_null() for n in used)
    trace = Trace("Slurm", Clock("utc", 0, 1e9, basis="seconds since 1970, whole"))
    if unread := [n for n in powers if n not in used]:
        trace.warnings.append(f"{', '.join(unread)}: power of parts of a node, not read")
    good = _usable(path, trace, rows, usable).unique(["Node", "time_ns"], keep="first", maintain_order=True)
    parts = []
    for name in used:
        if (gpu := powers[name]["gpu"]) is None:
            parts += _of_nodes(good, name)
            continue
        part = good.select("Node", "time_ns", power_w=name, index=pl.lit(int(gpu), dtype=pl.Int64))
        parts.append(part.with_columns(field=pl.lit("gpu"), scope=pl.lit("gpu")))
    trace.telemetry = readings(parts)
    if "index" in trace.telemetry.columns:
        _number_gpus(trace)
    return trace


def _number_gpus(trace: Trace) -> None:
    """Number the GPUs of all nodes, in place."""
    of_gpu = trace.telemetry.filter(pl.col("index").is_not_null(), pl.col("power_w").is_not_null())
    absent = pl.lit(None, dtype=pl.String)
    device, trace.devices = gpus_of_hosts(of_gpu.select("index", host="Node", uuid=absent, name=absent))
    meters = trace.telemetry.filter(pl.col("index").is_null())
    meters_and_gpus = [of_gpu.with_columns(device=device), meters]
    trace.telemetry = readings([p.drop("Node", "index") for p in meters_and_gpus])


def _of_nodes(rows: pl.DataFrame, column: str) -> list[pl.DataFrame]:
    """Return the readings of each node's own meter."""
    return [
        meter_rows(part, "node", f"node.{node or 'Slurm'}", power=column, kind="average")
        for (node,), part in rows.group_by("Node", maintain_order=True)
    ]


def _usable(path: Path, trace: Trace, rows: pl.DataFrame, usable: pl.Expr) -> pl.DataFrame:
    """Return the usable rows; the rejected ones are listed.

    Raises
    ------
    BadInput
        If none is left.
    """
    if (bad := rows.filter(~usable)).height:
        trace.rejected.append(
            rejected_rows(path.name, bad["line"], "no time or power", bad["Node"].fill_null(""))
        )
    good = rows.filter(usable)
    if not good.height:
        raise BadInput.in_file(path, "holds no power", _EXTRACT)
    return good


def _series(path: Path, options: ReadOptions, names: list[str]) -> Trace:
    if missing := [n for n in ("Date_Time", "Node", "Power") if n not in {m.strip() for m in names}]:
        raise BadInput.in_file(path, f"has no column {missing[0]}", _EXTRACT)
    text = pl.String()
    columns = {n.strip(): ([n], text) for n in names}
    rows = read_csv(path, {c: columns[c] for c in columns if c in _SERIES}, options.max_ratio)
    rows = rows.with_columns(parse_stamps(rows["Date_Time"]).alias("time_ns"), watts=measured("Power"))
    usable = pl.col("time_ns").is_not_null() & pl.col("watts").is_not_null()
    trace = Trace("Slurm", _LOCAL)
    trace.telemetry = readings(_of_nodes(_usable(path, trace, rows, usable), "watts"))
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
    ordered_steps = table.with_columns(
        pl.col("job").str.split(".").list.first().alias("#job"),
        pl.col("job").str.contains(".", literal=True).alias("#step"),
    ).sort("#job", "#step", "joules", descending=[False, False, True], maintain_order=True)
    jobs = ordered_steps.unique("#job", keep="first", maintain_order=True)
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
    tried="no public file: the columns that sh5util.c (Slurm 26.11) and libsh5util_old write; sacct -P",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".csv", ".txt"),
    memory_ratio=25.0,
)
