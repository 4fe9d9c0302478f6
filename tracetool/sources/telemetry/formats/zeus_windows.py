"""Zeus's log of measurement windows: joules of each GPU, window by window."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import number
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, header_line, header_names, read_csv
from tracetool.sources.telemetry.localtime import parse_stamps
from tracetool.sources.telemetry.meters import readings

_GPU = re.compile(r"gpu(\d{1,4})_energy", re.IGNORECASE)

#: More than a GPU takes in a century: what states more is damaged. [J]
_MOST_J = 1e13


def sniff(probe: Probe) -> float:
    """Score: its columns."""
    first = (probe.lines(1) or [""])[0]
    has_gpus = any(_GPU.fullmatch(n) for n in header_names(first))
    return 1.0 if has_gpus and has_columns(first, "start_time", "window_name", "elapsed_time") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return counters that gain each window's energy from its start to its end; nested windows stay out.

    Raises
    ------
    BadInput
        If it holds no window.
    """
    first = header_line(path)
    gpus = {n: int(m[1]) for n in header_names(first) if (m := _GPU.fullmatch(n))}
    if not gpus:
        raise BadInput.in_file(path, "does not begin with its columns", "copy the file again")
    text = pl.String()
    columns = ("start_time", "window_name", "elapsed_time", *gpus)
    rows = read_csv(path, {c: ([c], text) for c in columns}, options.max_ratio)
    rows = rows.with_columns(
        parse_stamps(rows["start_time"]).alias("begin"),
        (measured("elapsed_time") * 1e9).round().cast(pl.Int64, strict=False).alias("length"),
        *(measured(g).alias(g) for g in gpus),
    )
    usable = (pl.col("begin").is_not_null() & (pl.col("length") > 0)).fill_null(value=False)
    trace = Trace("Zeus", Clock("utc", 0, 1e6, basis="seconds since 1970"))
    if (bad := rows.filter(~usable)).height:
        names = bad["window_name"].fill_null("")
        trace.rejected.append(rejected_rows(path.name, bad["line"], "not a whole window", names))
    good = rows.filter(usable).with_columns(end=pl.col("begin") + pl.col("length"))
    sound = {g: pl.col(g).is_between(0.0, _MOST_J) for g in gpus}
    odd = good.filter(pl.any_horizontal((~sound[g]).fill_null(value=False) for g in gpus))
    if odd.height:
        names = odd["window_name"].fill_null("")
        trace.rejected.append(rejected_rows(path.name, odd["line"], "no energy", names))
    good = good.with_columns(pl.when(sound[g]).then(pl.col(g)).alias(g) for g in gpus)
    if not good.height:
        raise BadInput.in_file(path, "holds no window", "ZeusMonitor(log_file=...) writes one at end_window")
    good = good.sort("begin", "length", descending=[False, True], maintain_order=True)
    inside = (good["end"] <= good["end"].cum_max().shift(1)).fill_null(value=False)
    outer = good.filter(~inside)
    overlap = (outer["begin"] < outer["end"].shift(1) - 1_000_000).fill_null(value=False)
    outer = outer.filter(~overlap)
    if lost := good.height - outer.height:
        trace.warnings.append(f"{lost} windows lie within or across others: their energy is in those")
    between_s = float((outer["begin"] - outer["end"].shift(1)).drop_nulls().clip(0).sum()) / 1e9
    if between_s > 0.01 * float(outer["length"].sum()) / 1e9:
        trace.warnings.append(f"the {number(between_s)} s between its windows were not measured: 0 J there")
    gpu_tables = []
    for name, device in gpus.items():
        gained = outer.drop_nulls(name).with_columns(total=pl.col(name).cum_sum())
        before = gained.select(time_ns="begin", energy_j=pl.col("total") - pl.col(name))
        after = gained.select(time_ns="end", energy_j="total")
        rows_of = pl.concat([before, after]).sort("time_ns", "energy_j")
        gpu_tables.append(
            rows_of.with_columns(
                device=pl.lit(device, dtype=pl.Int32), power_kind=pl.lit("counter"), field=pl.lit(name),
                scope=pl.lit("gpu"),
            )
        )  # fmt: skip
    trace.telemetry = readings(gpu_tables)
    trace.devices = logged_devices(pl.Series(gpus.values(), dtype=pl.Int32))
    return trace


FORMAT = Format(
    title="Zeus measurement windows",
    holds="telemetry",
    made_by="ZeusMonitor(log_file='zeus.csv'); begin_window('step') ... end_window('step')",
    tried="no public log: the columns zeus/monitor/energy.py writes (0.5 and later); joules by GPU",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".csv",),
    memory_ratio=20.0,
)
