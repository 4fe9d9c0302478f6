"""Readings of a log: one row per power field; repeats, steps back, gaps and absurd values are reported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted, number
from tracetool.sources.columns import KEPT_ROWS, TIME_LIMIT_NS, rejected_rows
from tracetool.sources.format import Trace
from tracetool.tables.scopes import scope_of_field

#: What a sensor of a GPU can read. No GPU draws more, no counter has run for longer, no clock is faster.
RANGES = {
    "power_w": (0.0, 20_000.0), "energy_j": (0.0, 1e13), "clock_mhz": (0.0, 20_000.0),
    "mem_clock_mhz": (0.0, 100_000.0), "temperature_c": (-273.15, 1000.0), "power_limit_w": (0.0, 20_000.0),
    "utilization": (-1e6, 1e6),
}  # fmt: skip
#: Columns of power and of energy counters.
_POWER: Final = ("power_w", "energy_j")
#: In a log of so many polls a GPU that one of them names is none.
LONE_POLLS = 10
#: An idle time this many times the usual spacing is a gap.
GAP_SPACINGS = 10.0


def reject_impossible(trace: Trace, path: Path, latest_ns: int = TIME_LIMIT_NS) -> Trace:
    """Reject the readings of a source that cannot be, in place; its devices are those of the others.

    Parameters
    ----------
    trace : Trace
        Its ``telemetry`` is checked: times, and values against :data:`RANGES`.
    path : Path
        The file.
    latest_ns : int
        Latest time on the file's clock that still is one once it is on the run's. [ns]

    Notes
    -----
    A reading whose time or power is impossible is left out; of one with another impossible value that value
    is, and the reading too if nothing else is in it. Units are checked before: a sensor whose readings are
    mostly impossible is more likely in another unit than broken.

    Raises
    ------
    BadInput
        If power and counter are in different units, no reading of a log or of one of its sensors can be, or
        a log has no times.
    """
    frame = trace.telemetry
    if not frame.height:
        return trace
    if trace.clock.domain == "none" and not trace.activities.height:
        raise without_times(path)
    checked = [c for c in RANGES if c in frame.columns]
    if not trace.activities.height:
        trace.warnings += _no_power_note(trace, frame)
    bad = {"time_ns": ~pl.col("time_ns").is_between(-TIME_LIMIT_NS, latest_ns).fill_null(value=False)}
    for column in checked:
        value = pl.col(column)
        fine = value.is_finite() & value.is_between(*RANGES[column])
        bad[column] = value.is_not_null() & ~fine
    flags = frame.select(e.alias(c) for c, e in bad.items())
    if {"power_w", "energy_j"} <= set(checked):
        from tracetool.sources.telemetry.units import check_units  # loads numpy

        check_units(_in_any_unit(frame, flags), path)
    if not trace.activities.height and "power_w" in checked and flags["power_w"].any():
        _check_each_sensor(frame, path)
    if flags.select(pl.any_horizontal(pl.all()).any()).item():
        _list_impossible(trace, path, frame, flags)
        other_columns = [c for c in checked if c != "power_w"]
        frame = frame.with_columns(
            pl.when(~flags[c]).then(pl.col(c)).alias(c) for c in other_columns if flags[c].any()
        )
        values = [c for c in (*RANGES, "throttle_reasons") if c in frame.columns]
        left_out = flags["time_ns"] | (flags["power_w"] if "power_w" in checked else flags["time_ns"])
        empty = frame.select(pl.all_horizontal(pl.col(values).is_null())).to_series()
        possible = frame.filter(~(left_out | empty))
        if not possible.height and not trace.activities.height:
            raise _no_possible(frame, path)
        frame = possible
    trace.telemetry = _without_lone(trace, path, frame)
    if not trace.activities.height and "device" in trace.devices.columns:
        used = trace.telemetry["device"].unique() if trace.telemetry.height else pl.Series([], dtype=pl.Int32)
        trace.devices = trace.devices.filter(pl.col("device").is_in(used.implode()))
    return trace


def _no_power_note(trace: Trace, frame: pl.DataFrame) -> list[str]:
    """Return the note on a log without any reading of power, where its reader has not said so."""
    power = any(frame[c].null_count() < frame.height for c in _POWER if c in frame.columns)
    return [] if power or any("of power" in w for w in trace.warnings) else ["holds no readings of power"]


def without_times(path: Path) -> BadInput:
    """Return the fault of a log whose readings have no time stamps."""
    return BadInput.in_file(
        path,
        "its readings have no time stamps",
        "add them while logging: date +%s.%N before each, or lines through | ts '%Y-%m-%dT%H:%M:%.S%z'",
    )


def _in_any_unit(frame: pl.DataFrame, flags: pl.DataFrame) -> pl.DataFrame:
    """Return the readings without impossible values, but with those of a sensor most of whose values are."""
    keys = [c for c in ("device", "field") if c in frame.columns]
    values = []
    for column in ("power_w", "energy_j"):
        if column in frame.columns:
            bad, value = pl.lit(flags[column]), pl.col(column)
            mostly = 2 * bad.cast(pl.Int32).sum().over(keys) > value.count().over(keys)
            values.append(pl.when(~bad | (mostly & value.is_finite())).then(value).alias(column))
    return frame.with_columns(values).filter(~flags["time_ns"])


def _check_each_sensor(frame: pl.DataFrame, path: Path) -> None:
    """Refuse a log where all readings of one sensor are too high: leaving it out loses a GPU.

    A single value that is repeated is how drivers say that there is none; such readings are left out.
    """
    keys = [c for c in ("device", "field") if c in frame.columns]
    for _, sensor in frame.group_by(keys, maintain_order=True):
        check_watts(sensor["power_w"], path)


def check_watts(power: pl.Series, path: Path) -> None:
    """Refuse readings of one sensor that are all more than a GPU draws: they are in another unit.

    Raises
    ------
    BadInput
        If they are, and are more than one repeated value.
    """
    drawn = power.filter(power.is_finite())
    lowest = drawn.min()
    if isinstance(lowest, float) and lowest > RANGES["power_w"][1] and drawn.n_unique() > 2:
        raise _no_possible(drawn.to_frame("power_w"), path)


def _no_possible(frame: pl.DataFrame, path: Path) -> BadInput:
    """Return the fault of a log none of whose readings can be."""
    drawn = frame["power_w"].drop_nulls() if "power_w" in frame.columns else pl.Series([], dtype=pl.Float64)
    usual = drawn.filter(drawn.is_finite()).median()
    most_w = RANGES["power_w"][1]
    if isinstance(usual, float) and usual > most_w:
        fault = f"reads {number(usual)} W of power, no GPU draws more than {number(most_w)} W"
        return BadInput.in_file(path, fault, "state it in watts: is it in milliwatts?")
    fault = f"none of its {counted(frame.height, 'reading')} can be: times or values out of range"
    return BadInput.in_file(path, fault, "log again")


def _list_impossible(trace: Trace, path: Path, frame: pl.DataFrame, flags: pl.DataFrame) -> None:
    """Count the readings that cannot be, by what is wrong with them."""
    what = [pl.when(pl.col(c)).then(pl.lit(c)) for c in flags.columns]
    reason = flags.select(pl.concat_str(what, separator=", ", ignore_nulls=True)).to_series()
    shown = [c for c in ("time_ns", *RANGES) if c in frame.columns]
    rows = frame.select(shown).with_columns(reason.alias("#reason")).filter(reason != "")
    for (columns,), part in rows.group_by("#reason", maintain_order=True):
        texts = [str(r) for r in part.drop("#reason").head(KEPT_ROWS).rows(named=True)]
        places = [path.name] * len(texts)
        why = f"impossible reading: {columns}"
        trace.rejected.append(rejected_rows(path.name, places, why, texts, part.height))


def _without_lone(trace: Trace, path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a log's readings without those of a GPU that only one of many polls names: a broken line."""
    if trace.activities.height or not frame.height:
        return frame
    polls = frame.group_by("device").agg(pl.col("time_ns").n_unique().alias("polls"))
    usual = polls["polls"].max()
    lone = polls.filter(pl.col("polls") == 1)["device"]
    if not len(lone) or not isinstance(usual, int) or usual < LONE_POLLS:
        return frame
    is_lone = pl.col("device").is_in(lone.implode())
    rows = frame.filter(is_lone)
    texts = [str(r) for r in rows.head(KEPT_ROWS).rows(named=True)]
    why = "a GPU that no other line names"
    trace.rejected.append(rejected_rows(path.name, [path.name] * len(texts), why, texts, rows.height))
    return frame.filter(~is_lone)


def tidy_readings(trace: Trace) -> Trace:
    """Sort a source's readings by device and time and drop exact repeats, in place."""
    frame = trace.telemetry
    if not frame.height:
        return trace
    keys = ["device", *[c for c in ("field",) if c in frame.columns]]
    back = frame.select((pl.col("time_ns").diff().over(keys) < 0).sum()).item()
    if back:
        trace.warnings.append(f"sorted by time: {counted(back, 'reading')} out of order in the log")
    tidy = frame.unique(maintain_order=True)
    if repeats := frame.height - tidy.height:
        trace.warnings.append(f"{counted(repeats, 'duplicate reading')} of the same time dropped")
    tidy = tidy.sort("device", "time_ns", maintain_order=True)
    if gap := _longest_gap(tidy):
        trace.warnings.append(gap)
    trace.telemetry = tidy
    return trace


def _longest_gap(frame: pl.DataFrame) -> str:
    step = frame.select(pl.col("time_ns").diff().over("device").alias("step")).filter(pl.col("step") > 0)[
        "step"
    ]
    usual = step.median()
    if not isinstance(usual, float) or len(step) < 20:
        return ""
    gaps = step.filter(step > max(GAP_SPACINGS * usual, 2e9))
    if not len(gaps):
        return ""
    longest = gaps.max()
    seconds = longest / 1e9 if isinstance(longest, int) else 0.0
    return (
        f"the log has {counted(len(gaps), 'gap')}, the longest {seconds:.1f} s: energy there is not measured"
    )


#: Field as nvidia-smi spells it to the kind of reading. ``power.draw`` is a one-second average on some
#: GPUs and instantaneous on others: its kind is left open, the GPU's sensor class states it.
POWER_FIELDS: Final[dict[str, str | None]] = {
    "power.draw": None,
    "gpu.power.draw": None,
    "power.draw.average": "average",
    "gpu.power.draw.average": "average",
    "power.draw.instant": "instant",
    "gpu.power.draw.instant": "instant",
    "module.power.draw.average": "average",
    "module.power.draw.instant": "instant",
    "module.power.draw": None,
    "gpu_memory.power.draw.average": "average",
    "gpu_memory.power.draw.instant": "instant",
}


def power_rows(
    frame: pl.DataFrame, powers: Mapping[str, str], kinds: Mapping[str, str | None] | None = None
) -> pl.DataFrame:
    """Return one row per reading and power field.

    Parameters
    ----------
    frame : DataFrame
        ``time_ns``, ``device``, other telemetry columns, and one column of watts per power field.
    powers : mapping of str to str
        Power column to the field's name.
    kinds : mapping, optional
        Field to ``instant``, ``average`` or None; nvidia-smi's fields by default.

    Notes
    -----
    Rows without any power (clock logs, energy counters) stay, once each. Rows that hold nothing at
    all are left out. Power of another scope than the GPU's (a field such as ``module.power.draw``) is in
    rows of its own with its ``scope``; clocks, temperatures and counters stay in the GPU's rows.
    """
    meaning = POWER_FIELDS if kinds is None else kinds
    further = [c for c in frame.columns if c not in powers]
    scopes = {column: scope_of_field(field) for column, field in powers.items()}
    parts = [
        frame.select(
            *(further if scopes[column] == "gpu" else ("time_ns", "device")),
            power_w=pl.col(column),
            power_kind=pl.lit(meaning.get(field), dtype=pl.String),
            field=pl.lit(field),
            scope=pl.lit(scopes[column]),
        ).filter(pl.col("power_w").is_not_null())
        for column, field in powers.items()
    ]
    of_gpu = [c for c in powers if scopes[c] == "gpu"]
    if of_gpu:
        dark = frame.filter(pl.all_horizontal(pl.col(c).is_null() for c in of_gpu)).select(further)
    else:
        dark = frame.select(further)
    values = [c for c in further if c not in ("time_ns", "device")]
    if values:
        without_power = dark.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in values))
        if "energy_j" in further:
            counter = pl.when(pl.col("energy_j").is_not_null()).then(pl.lit("counter"))
            without_power = without_power.with_columns(
                power_kind=counter.otherwise(pl.lit(None, dtype=pl.String))
            )
        parts.append(without_power)
    if not parts:
        return pl.DataFrame(schema={"time_ns": pl.Int64, "device": pl.Int32})
    return pl.concat(parts, how="diagonal")  # in the order logged: whoever reads it sees steps back
