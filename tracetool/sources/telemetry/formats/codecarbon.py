"""CodeCarbon's ``emissions.csv``: cumulative kilowatt hours of GPUs, CPU, memory and all of them together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, read_csv
from tracetool.sources.telemetry.localtime import is_absolute, parse_stamps
from tracetool.sources.telemetry.meters import readings
from tracetool.tables.scopes import SCOPES

J_PER_KWH: Final = 3.6e6
#: Part to its scope.
_PARTS: Final = {"gpu": "gpu", "cpu": "socket", "ram": "host_memory"}
_TEXT = ("timestamp", "run_id", "gpu_count", "gpu_model")
_NUMBERS = (
    "duration", "energy_consumed", *(f"{p}_{what}" for p in _PARTS for what in ("energy", "power")),
)  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: its columns of emissions and of energy consumed."""
    first = (probe.lines(1) or [""])[0]
    return 1.0 if has_columns(first, "timestamp", "duration", "emissions", "energy_consumed") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings: of every row its counters, and zero where its run began.

    Raises
    ------
    BadInput
        If no row can be used.
    """
    text = pl.String()
    frame = read_csv(path, {n: ([n], text) for n in (*_TEXT, *_NUMBERS)}, options.max_ratio)
    frame = frame.with_columns(
        parse_stamps(frame["timestamp"]).alias("time_ns"), *(measured(c).alias(c) for c in _NUMBERS)
    )
    usable = pl.col("time_ns").is_not_null() & pl.col("duration").is_between(0.0, 1e9)
    bad = frame.filter(~usable.fill_null(value=False))
    utc = is_absolute(frame["timestamp"])
    clock = (
        Clock("utc", 0, 1e9, basis="stamps with their zone")
        if utc
        else Clock("local", error_ns=1e9, basis="the tracker's local time, whole seconds")
    )
    trace = Trace("CodeCarbon", clock)
    if bad.height:
        stamps = bad["timestamp"].fill_null("")
        trace.rejected.append(rejected_rows(path.name, bad["line"], "no time or duration", stamps))
    good = frame.filter(usable.fill_null(value=False)).sort("time_ns", maintain_order=True)
    if not good.height:
        raise BadInput.in_file(path, "holds no row with a timestamp and a duration", "track again")
    begun = good.unique("run_id", keep="first", maintain_order=True)
    zeros = begun.with_columns(
        pl.col("time_ns") - (pl.col("duration") * 1e9).round().cast(pl.Int64),
        *(pl.lit(None, dtype=pl.Float64).alias(f"{p}_power") for p in _PARTS),
        *(pl.lit(0.0).alias(c) for c in ("energy_consumed", *(f"{p}_energy" for p in _PARTS))),
    )
    rows = pl.concat([zeros, good]).sort("time_ns", maintain_order=True)
    rows = rows.with_columns(
        _running_counter(c).alias(c) for c in ("energy_consumed", *(f"{p}_energy" for p in _PARTS))
    )
    gpus = max([int(c) for c in good["gpu_count"].drop_nulls() if c.isdecimal() and len(c) < 5], default=0)
    meter_tables = [_meter_of(rows, "node", "energy_consumed", None)]
    meter_tables += [
        _meter_of(rows, scope, f"{component}_energy", f"{component}_power")
        for component, scope in _PARTS.items()
        if component != "gpu" or gpus <= 1
    ]
    trace.telemetry = readings(meter_tables)
    if gpus > 1:
        trace.warnings.append(
            f"its GPU energy is of {gpus} GPUs together and of none of them alone: only the node's is read"
        )
    trace.warnings.append(
        "CPU and memory may be estimates of the tracker (from their rated power), not measurements"
    )
    model = (good["gpu_model"].drop_nulls().to_list() or [None])[-1] if gpus == 1 else None
    if gpus <= 1 and good["gpu_energy"].fill_null(0.0).max() != 0.0:
        name = model.removeprefix("1 x ").strip() if model else None
        trace.devices = pl.DataFrame(
            {"device": [0], "name": [name]}, schema={"device": pl.Int32, "name": pl.String}
        )
    else:
        trace.telemetry = trace.telemetry.filter(pl.col("scope") != "gpu")
    return trace


def _running_counter(column: str) -> pl.Expr:
    """Return a counter that starts again with every run as one that goes on."""
    step = pl.col(column) - pl.col(column).shift(1).over("run_id").fill_null(0.0)
    return step.cum_sum()


def _meter_of(rows: pl.DataFrame, scope: str, energy: str, power: str | None) -> pl.DataFrame:
    watts = pl.lit(None, dtype=pl.Float64) if power is None else pl.col(power)
    assert scope in SCOPES
    return rows.select(
        "time_ns",
        device=pl.lit(0 if scope == "gpu" else None, dtype=pl.Int32),
        power_w=watts,
        power_kind=pl.when(watts.is_null()).then(pl.lit("counter")).otherwise(pl.lit("average")),
        energy_j=pl.col(energy) * J_PER_KWH,
        field=pl.lit(f"{scope}.{energy}" if scope != "gpu" else "codecarbon.average"),
        scope=pl.lit(scope),
    )


FORMAT = Format(
    title="CodeCarbon emissions",
    holds="telemetry",
    made_by="codecarbon monitor -- python train.py   (or EmissionsTracker(); emissions.csv)",
    tried="versions 2 and 3: three public logs of 500 to 936 runs, to the joule; local time without a zone",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".csv",),
    memory_ratio=20.0,
)
