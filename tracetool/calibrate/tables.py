"""Content of a table given to calibrate, and its rows as measurements of power."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from tracetool.calibrate.power_fit import coefficient_vector
from tracetool.calibrate.power_rows import (
    PowerRows,
    rows_of_activity,
    rows_of_timing,
    rows_of_utilization,
)
from tracetool.calibrate.power_sweep import SweepRows
from tracetool.calibrate.voltage_fit import SUPPLY_V
from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.families.formats import dtype_of, tensor_clocks
from tracetool.families.names import UNKNOWN
from tracetool.hardware.gpu import Gpu
from tracetool.model.activity import has_activity
from tracetool.model.power_calibration import BASE
from tracetool.model.power_priors import prior_calibration
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import as_columns, load_table, read_table
from tracetool.replay.table_checks import number_column
from tracetool.tables.counter_names import DURATIONS, POWERS, with_counter_names, with_our_names

Kind = Literal["idle", "activity", "sweep", "operators"]

#: Share of the power limit from which on the clock was lowered while a reading was taken. [1] A prior.
AT_CAP = 0.965
#: Ratios to the GPU's peak rates above which a row cannot be as stated. [1] Priors: bytes are modeled, not
#: counted, and may include traffic that caches absorbed.
_FLOPS_SLACK, _BYTES_SLACK = 1.02, 1.6
#: Repetitions below which a loop is start-up and not a steady state, [1] unless it took this long. [us]
#: Priors.
_FEWEST_ITERATIONS = 20
_SHORT_LOOP_US = 1e5
#: Duration of a monitor's sample that states none. [us] Any value: shares and power are means.
_SAMPLE_US = 1e6
#: What no measurement exceeds, whatever the GPU: [W], [MHz], and a month. [us] Priors.
_MOST: Final = {"power_w": 2e4, "clock_mhz": 2e4, "mem_clock_mhz": 1e5, "duration_us": 2.6e12}
#: What no measurement falls below, in the same units: a microwatt, a hertz, a picosecond. Priors.
_LEAST: Final = 1e-6
#: Shares of a unit's time exceed 1 by what a counter's sampling misses. [1] A prior.
_MOST_SHARE: Final = 1.02
#: Ratio of power above idle to the prior's for the same counts, at most, either way. [1] A prior.
_MOST_RATIO: Final = 3.5
_SMEARED: Final = "its work cannot draw this power: the sensor averaged over more than this kernel"


@dataclass(frozen=True)
class Measured:
    """One table's usable rows, and the rows that were left out with the reason."""

    kind: Kind
    path: str
    power: PowerRows | None
    sweep: SweepRows | None
    rejected: pl.DataFrame
    supply_v: Floats | None = None
    supply_mhz: Floats | None = None


def read_measured(path: str | os.PathLike[str], gpu: Gpu) -> Measured:
    """Read one table of measurements.

    An idle curve has ``clock_mhz`` and ``idle_w`` (and may have ``supply_mv``); the others have
    ``power_w`` and a duration: programs with ``act_*`` shares, operator tables (column ``op``), and
    kernels repeated over clocks.

    Raises
    ------
    BadInput
        If the table is none of these or none of its rows can be used.
    """
    name = os.fspath(path)
    frame = with_our_names(with_counter_names(load_table(Path(path))))
    if not frame.height:
        raise BadInput.in_file(name, "holds no rows", "give a row for each measurement")
    if {"idle_w", "clock_mhz"} <= set(frame.columns):
        return _idle(name, frame)
    if "power_w" not in frame.columns:
        raise BadInput.in_file(
            name,
            "has no measured power",
            f"columns: clock_mhz and idle_w, or duration_us and one of {', '.join(POWERS)}",
        )
    if "clock_mhz" not in frame.columns:
        frame = frame.with_columns(pl.lit(gpu.clock_boost_mhz).alias("clock_mhz"))
    shares = [c for c in frame.columns if c.startswith("util_")]
    if shares and "op" not in frame.columns:
        return _utilization(name, frame, shares, gpu)
    if "duration_us" not in frame.columns and any(c.startswith("act_") for c in frame.columns):
        frame = frame.with_columns(pl.lit(_SAMPLE_US).alias("duration_us"))
    if "duration_us" not in frame.columns:
        raise BadInput.in_file(name, "has no measured duration", f"one of {', '.join(DURATIONS)}")
    frame, rejected = _gated(frame, gpu)
    if not frame.height:
        raise BadInput.in_file(name, "has no row that can be used", f"first reason: {rejected['reason'][0]}")
    if "op" in frame.columns:
        return _operators(name, frame, rejected, gpu)
    table = read_table(frame)
    rows = table.rows.take(table.index)
    if (with_activity := has_activity(rows)).any():
        activity_rows = replace(rows_of_activity(rows, gpu), group=_groups(frame)).take(with_activity)
        unread = frame.filter(pl.Series(~with_activity)).with_columns(
            pl.lit("no activity read").alias("reason")
        )
        rejected = pl.concat([rejected, unread], how="diagonal_relaxed")
        return Measured("activity", name, activity_rows, None, rejected)
    seconds = frame["duration_us"].cast(pl.Float64).to_numpy() * 1e-6
    sweep = SweepRows(
        frame["power_w"].cast(pl.Float64).to_numpy(),
        frame["clock_mhz"].cast(pl.Float64).to_numpy(),
        seconds,
        _groups(frame),
        rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz) / gpu.memory_clock_mhz,
    )
    return Measured("sweep", name, None, sweep, rejected)


def _idle(name: str, frame: pl.DataFrame) -> Measured:
    power = frame["idle_w"].cast(pl.Float64, strict=False).to_numpy()
    clock = frame["clock_mhz"].cast(pl.Float64, strict=False).to_numpy()
    good = (power > 0) & (power <= _MOST["power_w"]) & (clock > 0) & (clock <= _MOST["clock_mhz"])
    if good.sum() < 3:
        raise BadInput.in_file(name, "is an idle curve of fewer than three clocks")
    # Idle power rises with the clock: a reading far above a later one was taken in another state.
    order = np.argsort(clock)
    later = np.fmin.accumulate(np.where(good, power, np.nan)[order][::-1])[::-1]  # of those that are readings
    odd = np.zeros(len(power), dtype=np.bool_)
    odd[order] = power[order] > 1.2 * later
    used = good & ~odd
    rejected = frame.filter(pl.Series(~used)).with_columns(
        pl.lit("far above idle at higher clocks").alias("reason")
    )
    count = int(used.sum())
    sweep = SweepRows(
        power[used], clock[used], np.full(count, np.nan), np.full(count, "(idle)", dtype=object)
    )
    volts = None
    if "supply_mv" in frame.columns:
        volts = _supply_v(name, frame["supply_mv"].filter(pl.Series(used)))
    return Measured("idle", name, None, sweep, rejected, volts, clock[used] if volts is not None else None)


def _supply_v(name: str, read_mv: pl.Series) -> Floats | None:
    """Return readings of the supply, NaN where there is none; None of too few for a curve. Shape (n,). [V]"""
    volts = read_mv.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy() / 1e3
    volts = np.where(volts > 0, volts, np.nan)  # a sensor that is asleep
    odd = volts[(volts < SUPPLY_V[0]) | (volts > SUPPLY_V[1])]
    if odd.size:
        raise BadInput.in_file(
            name,
            f"states {1e3 * odd[0]:g} in supply_mv, which no core is supplied with",
            f"millivolts, {1e3 * SUPPLY_V[0]:g} to {1e3 * SUPPLY_V[1]:g}",
        )
    return volts if np.isfinite(volts).sum() >= 5 else None


def _utilization(name: str, frame: pl.DataFrame, shares: list[str], gpu: Gpu) -> Measured:
    """A table of unit utilizations: rows of the same shares are one kernel at several clocks."""
    frame = (
        frame.with_columns(pl.lit(1.0).alias("duration_us")) if "duration_us" not in frame.columns else frame
    )
    frame, rejected = _gated(frame, gpu)
    if not frame.height:
        raise BadInput.in_file(name, "has no row that can be used")
    columns = [number_column(name, frame, c).fill_null(0.0).alias(c) for c in shares]
    for values in columns:
        if (odd := values.filter(~values.is_between(0.0, _MOST_SHARE))).len():
            fault = f"column {values.name}: {odd[0]:g} is not a share"
            raise BadInput.in_file(name, fault, "shares lie between 0 and 1")
    numbers = frame.select(
        *columns,
        pl.col("power_w").cast(pl.Float64),
        pl.col("clock_mhz").cast(pl.Float64).alias("recorded_clock_mhz"),
    )
    if "mem_clock_mhz" in frame.columns:
        memory = number_column(name, frame, "mem_clock_mhz")
        numbers = numbers.with_columns(memory.alias("recorded_mem_clock_mhz"))
    rows = as_columns(numbers, pl.Series([UNKNOWN] * frame.height, dtype=pl.String))
    activity_rows = rows_of_utilization(rows, gpu)
    named = {"group", "kernel", "name", "workload"} & set(frame.columns)
    group = (
        _groups(frame)
        if named
        else numbers.select(pl.concat_str([pl.col(c).round(6) for c in shares], separator="|"))[
            :, 0
        ].to_numpy()
    )
    return Measured("activity", name, replace(activity_rows, group=group.astype(object)), None, rejected)


def _gated(frame: pl.DataFrame, gpu: Gpu) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split off rows no fit may see: empty, at the cap, of too few repetitions."""
    number = {c: pl.col(c).cast(pl.Float64, strict=False).fill_nan(None) for c in _MOST if c in frame.columns}
    missing = [  # a memory clock may be left open
        (value < _LEAST).fill_null(value=c != "mem_clock_mhz") for c, value in number.items()
    ]
    vast = [(value > _MOST[c]).fill_null(value=False) for c, value in number.items()]
    limit = AT_CAP * gpu.power_limit_w
    most = max(gpu.power_limit_w, np.nan_to_num(gpu.power_limit_max_w))
    highest = frame["power_w"].cast(pl.Float64, strict=False).max()
    at_cap = pl.lit(value=False)
    if isinstance(highest, float) and highest <= most:
        at_cap = number["power_w"] >= limit
    few = pl.lit(value=False)
    if "iterations" in frame.columns:
        repeats = pl.col("iterations").cast(pl.Float64, strict=False)
        few = ((repeats < _FEWEST_ITERATIONS) & (number["duration_us"] * repeats < _SHORT_LOOP_US)).fill_null(
            value=False
        )
    reason = (
        pl.when(pl.any_horizontal(missing))
        .then(pl.lit("no power, duration or clock"))
        .when(pl.any_horizontal(vast))
        .then(pl.lit("power, duration or clock out of range"))
        .when(at_cap)
        .then(pl.lit("at the power cap"))
        .when(few)
        .then(pl.lit("too few repetitions"))
        .otherwise(None)
    )
    marked = frame.with_columns(reason.alias("reason"))
    return marked.filter(pl.col("reason").is_null()).drop("reason"), marked.filter(
        pl.col("reason").is_not_null()
    )


def _operators(name: str, frame: pl.DataFrame, rejected: pl.DataFrame, gpu: Gpu) -> Measured:
    table = read_table(frame)
    rows = table.rows.take(table.index)
    seconds = frame["duration_us"].cast(pl.Float64).to_numpy() * 1e-6
    clock = frame["clock_mhz"].cast(pl.Float64).to_numpy()
    timing = time_rows(rows, gpu, clock[:, None])
    measured = replace(timing, duration_s=seconds[:, None])
    fast = implausible(measured, rows, gpu, clock)
    group = (
        _groups(frame) if "group" in frame.columns else shape_groups(rows.family, timing.work.useful_flops)
    )
    power = rows_of_timing(
        measured, rows, gpu, clock, power_w=frame["power_w"].cast(pl.Float64).to_numpy(), group=group
    )
    if fast.all():
        raise BadInput.in_file(name, "is faster than the peak rates of the GPU allow, in every row")
    smeared = unlikely_power(power, gpu) & ~fast
    if (fast | smeared).all():
        raise BadInput.in_file(
            name,
            "holds powers that its work cannot have drawn, in every row",
            "loop each kernel for some windows of the sensor",
        )
    left_out = [
        frame.filter(pl.Series(rows)).with_columns(pl.lit(reason).alias("reason"))
        for rows, reason in ((fast, "faster than the peak rates allow"), (smeared, _SMEARED))
    ]
    return Measured(
        "operators",
        name,
        power.take(~(fast | smeared)),
        None,
        pl.concat([rejected, *left_out], how="diagonal_relaxed"),
    )


def unlikely_power(rows: PowerRows, gpu: Gpu) -> Bools:
    """Rows whose power above idle is not that of their counts, within a factor no GPU strays by.

    A sensor that averages over a second reads a loop of a third of one as a mixture of it and of what ran
    before: too little for a heavy kernel, too much for a light one.
    """
    prior = prior_calibration(gpu)
    design, expected = rows.design(gpu.voltage), coefficient_vector(prior)
    idle = design[:, : len(BASE)] @ expected[: len(BASE)]
    ratio = (rows.power_w - idle) / np.maximum(design @ expected - idle, 1e-3 * idle)
    return np.asarray((ratio < 1.0 / _MOST_RATIO) | (ratio > _MOST_RATIO))


def implausible(measured: Timing, rows: OperatorColumns, gpu: Gpu, clock_mhz: Floats) -> Bools:
    """Rows whose counts cannot have been worked off in their measured time."""
    seconds, work = measured.duration_s[:, 0], measured.work
    chip = gpu.sm_count * clock_mhz * 1e6
    matrix = tensor_clocks(work, dtype_of(rows, "bf16"), gpu) / chip
    vector = work.fp32_flops / (gpu.rate("fp32") * chip) + work.fp64_flops / (gpu.rate("fp64") * chip)
    memory = work.dram_bytes / gpu.dram_bytes_per_s
    return np.asarray(
        (matrix > _FLOPS_SLACK * seconds)
        | (vector > _FLOPS_SLACK * seconds)
        | (memory > _BYTES_SLACK * seconds)
    )


def _groups(frame: pl.DataFrame) -> Texts:
    """Return the groups to hold out: column ``group``, else the program, its inputs taken as one."""
    column = next((c for c in ("group", "kernel", "name", "workload") if c in frame.columns), None)
    if column is None:
        return np.full(frame.height, "(all)", dtype=object)
    text = frame[column].cast(pl.String).fill_null("")
    return text.str.replace(r"/input\d+$", "").to_numpy().astype(object)


def shape_groups(family: Texts, flops: Floats) -> Texts:
    """Family and size: shapes within a factor of four are one group."""
    size = np.floor(np.log2(np.maximum(flops, 1.0)) / 2.0).astype(int)
    return np.array([f"{f}:{s}" for f, s in zip(family, size, strict=True)], dtype=object)
