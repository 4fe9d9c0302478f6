"""Many sources, one run: one clock, one numbering of devices, every kernel linked and signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tracetool.sources.checks import check_activities, check_intervals
from tracetool.sources.columns import TIME_LIMIT_NS, rejected_rows
from tracetool.sources.devices import check_devices, place_devices
from tracetool.sources.format import Trace
from tracetool.sources.linking import (
    link_launches,
    link_operators,
    link_ranges,
    number_operators,
    number_ranges,
)
from tracetool.sources.modules import link_modules, number_modules
from tracetool.sources.signatures import number_signatures
from tracetool.sources.telemetry.readings import reject_impossible

_I = pl.Int64()
#: Text that repeats a thousandfold is held as codes; None: as the reader made it.
_CATEGORY = pl.Categorical()
_ACTIVITIES: dict[str, pl.DataType | None] = {
    "start_ns": _I, "end_ns": _I, "device": pl.Int32(), "kind": _CATEGORY, "name": _CATEGORY,
    "process": None, "correlation": _I, "external_id": None,
}  # fmt: skip
_CALLS: dict[str, pl.DataType | None] = {
    "start_ns": _I, "duration_ns": _I, "process": None, "thread": None, "name": _CATEGORY, "kind": _CATEGORY,
    "correlation": _I,
}  # fmt: skip
_INTERVALS: dict[str, pl.DataType | None] = {
    "name": pl.String(), "start_ns": _I, "duration_ns": _I, "process": _I, "thread": _I,
}  # fmt: skip


@dataclass
class Assembled:
    """The tables of a run, and warnings."""

    tables: dict[str, pl.DataFrame]
    warnings: list[str] = field(default_factory=list)


def _shaped(frame: pl.DataFrame, columns: dict[str, pl.DataType | None]) -> pl.DataFrame:
    """Return a reader's table with at least these columns, in these types."""
    if not frame.width:
        return pl.DataFrame(schema={c: kind or _I for c, kind in columns.items()})
    additions = []
    for column, kind in columns.items():
        if column not in frame.columns:
            additions.append(pl.lit(None, dtype=kind or pl.Int32()).alias(column))
        elif kind is not None and frame.schema[column] != kind:
            additions.append(pl.col(column).cast(kind))
    return frame.with_columns(additions)


def check_trace(trace: Trace, path: Path) -> Trace:
    """Check the rows of one source and link its kernels to calls, operators, ranges and modules, in place.

    Operators, ranges and modules are numbered from 0 within the source.
    """
    latest_ns = TIME_LIMIT_NS - max(0, trace.clock.to_utc_ns or 0)  # what is to be added must not overflow
    good, bad = check_activities(_shaped(trace.activities, _ACTIVITIES), path.name, latest_ns)
    good = good.drop("end_ns", "place", "place_of", strict=False)
    trace.activities = good
    trace.rejected += bad
    reject_impossible(trace, path, latest_ns)
    trace.devices, odd = check_devices(trace.devices)
    trace.warnings += odd
    if trace.telemetry.height:
        trace.telemetry = trace.telemetry.with_columns(source=pl.lit(path.name))
    intervals = dict.fromkeys(("operators", "ranges", "modules"), _INTERVALS)
    for table, columns in {"host_calls": _CALLS, **intervals}.items():
        shaped = _shaped(getattr(trace, table), columns)
        sane = check_intervals(shaped, latest_ns)
        if sane.height < shaped.height:
            lost = shaped.height - sane.height
            trace.rejected.append(
                rejected_rows(path.name, [], f"{table}: no name or impossible times", [], lost)
            )
        setattr(trace, table, sane)
    if "launch_ns" not in good.columns:
        good = link_launches(good, trace.host_calls, names=False)
    trace.operators, calls = number_operators(trace.operators)
    trace.ranges, ranges = number_ranges(trace.ranges)
    good = link_operators(good, trace.operators, calls)
    good = link_ranges(good, ranges)
    if trace.modules.height:
        trace.modules, modules = number_modules(trace.modules)
        good = link_modules(good, trace.operators, trace.modules, modules)
    trace.activities = good.drop("launch_name", "external_id", "thread", strict=False)
    trace.operators = trace.operators.drop("record_function", strict=False)
    return trace


def shift_trace(trace: Trace, by_ns: int) -> Trace:
    """Move all times of a source, in place."""
    if by_ns:
        for table in ("activities", "host_calls", "operators", "ranges", "modules"):
            frame: pl.DataFrame = getattr(trace, table)
            moved = [pl.col(c) + by_ns for c in ("start_ns", "end_ns", "launch_ns") if c in frame.columns]
            for column in moved:  # one at a time: each takes the place of its own
                frame = frame.with_columns(column)
                setattr(trace, table, frame)
        if trace.telemetry.height:
            trace.telemetry = trace.telemetry.with_columns(pl.col("time_ns") + by_ns)
    return trace


def stretch_trace(trace: Trace, by: float, pivot_ns: int) -> Trace:
    """Let the clock of a trace run faster by a share of its time since a pivot, in place; durations stay."""
    for table in ("activities", "host_calls", "operators", "ranges", "modules"):
        frame: pl.DataFrame = getattr(trace, table)
        for column in ("start_ns", "end_ns", "launch_ns"):
            if column in frame.columns and frame.height:
                later = ((pl.col(column) - pivot_ns) * by).round().cast(_I)
                frame = frame.with_columns(pl.col(column) + later)
        setattr(trace, table, frame)
    return trace


def separate_processes(traces: Sequence[Trace]) -> None:
    """Give processes of several hosts that share a number numbers of their own, in place.

    Two traces hold two processes of one number where they are of different ranks, or where one correlation
    number stands for two launches. Files of one process (``rocprofv3`` writes several) share neither.
    """
    owners: dict[int, list[Trace]] = {}
    following = 0
    for trace in traces:
        numbers = _processes(trace)
        renamed = {}
        for number in sorted(numbers):
            if any(_are_two(trace, known_trace, number) for known_trace in owners.get(number, ())):
                following = max(following, *owners, *numbers) + 1
                renamed[number] = following
            owners.setdefault(renamed.get(number, number), []).append(trace)
        if renamed:
            for table in ("activities", "host_calls", "operators", "ranges", "modules"):
                frame: pl.DataFrame = getattr(trace, table)
                if "process" in frame.columns and frame.height:
                    setattr(trace, table, frame.with_columns(pl.col("process").cast(_I).replace(renamed)))


def _processes(trace: Trace) -> set[int]:
    """Return the numbers of the processes of a trace."""
    frames = (
        getattr(trace, table) for table in ("activities", "host_calls", "operators", "ranges", "modules")
    )
    columns = [f["process"].drop_nulls().unique() for f in frames if f.height and "process" in f.columns]
    return {int(n) for column in columns for n in column}


def _are_two(trace: Trace, other: Trace, number: int) -> bool:
    """Return whether a process number denotes different processes in two traces."""
    ranks = trace.details.get("rank"), other.details.get("rank")
    if None not in ranks and ranks[0] != ranks[1]:
        return True
    if not trace.activities.height or not other.activities.height:
        return False
    one, two = (
        t.activities.lazy()
        .filter((pl.col("process") == number) & (pl.col("correlation") > 0))
        .select("correlation")
        .unique()
        for t in (trace, other)
    )
    return bool(one.join(two, on="correlation", how="semi").select(pl.len()).collect().item())


def assemble(traces: Sequence[Trace]) -> Assembled:
    """Return the tables of a run from checked sources whose times are on the run's clock.

    Parameters
    ----------
    traces : sequence of Trace
        Each through :func:`check_trace` and :func:`shift_trace`. They are emptied: their tables become the
        run's, and big ones must not lie in memory twice.
    """
    devices, maps, assumed = place_devices(traces)
    separate_processes(traces)
    frames: dict[str, list[pl.DataFrame]] = {
        k: [] for k in ("kernels", "host_calls", "operators", "ranges", "modules", "telemetry", "rejected")
    }
    operators = ranges = modules = 0
    for trace, place in zip(traces, maps, strict=True):
        to = pl.col("device").replace_strict(list(place), list(place.values()), return_dtype=pl.Int32)
        if trace.activities.height:
            moved = to if any(k != v for k, v in place.items()) else pl.col("device")
            numbers = {"operator": operators, "range": ranges}
            if "module" in trace.activities.columns:
                numbers["module"] = modules
            frames["kernels"].append(
                trace.activities.with_columns(moved, *(pl.col(c) + n for c, n in numbers.items()))
            )
        if trace.telemetry.height:
            frames["telemetry"].append(trace.telemetry.with_columns(to))
        frames["host_calls"].append(trace.host_calls)
        frames["operators"].append(
            trace.operators.with_columns(pl.col("operator") + operators, pl.col("parent") + operators)
        )
        frames["ranges"].append(
            trace.ranges.with_columns(pl.col("range") + ranges, pl.col("parent") + ranges)
        )
        if trace.modules.height:
            frames["modules"].append(
                trace.modules.with_columns(pl.col("module") + modules, pl.col("parent") + modules)
            )
        operators += trace.operators.height
        ranges += trace.ranges.height
        modules += trace.modules.height
        frames["rejected"] += trace.rejected
        trace.activities = trace.host_calls = pl.DataFrame()
    joined = {k: pl.concat(v, how="diagonal_relaxed") for k, v in frames.items() if v}
    frames.clear()
    empty = pl.DataFrame(
        schema={
            **{c: kind or _I for c, kind in _ACTIVITIES.items()},
            **dict.fromkeys(("duration_ns", "launch_ns", "operator", "range"), _I),
        }
    )
    kernels = joined.pop("kernels", empty)
    kernels, signatures = number_signatures(kernels, joined.get("operators", pl.DataFrame()), devices)
    tables = {
        "kernels": _sorted(kernels, "device", "start_ns"),
        "signatures": signatures,
        "devices": devices,
    }
    del kernels
    for name in ("operators", "ranges", "modules", "host_calls"):
        if name in joined and joined[name].height:
            tables[name] = joined[name] if name != "host_calls" else _sorted(joined[name], "start_ns")
    if "telemetry" in joined:
        tables["telemetry"] = _sorted(joined["telemetry"], "device", "time_ns")
    if "rejected" in joined and joined["rejected"].height:
        tables["rejected"] = joined["rejected"]
    return Assembled(tables, assumed)


def _sorted(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the rows in order; most traces are in order already, which is cheaper to see than to make."""
    if len(by) == 2 and frame[by[0]].n_unique() <= 1:
        by = by[1:]
    if len(by) == 1:
        return frame if frame[by[0]].is_sorted() else _reordered(frame, by)
    before = pl.lit(value=False)
    same = pl.lit(value=True)
    for column in by:
        step = pl.col(column).diff()
        before = before | (same & (step < 0))
        same = same & (step == 0)
    if not frame.select(before.any()).item():
        return frame
    return _reordered(frame, by)


def _reordered(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows in order; ``frame`` is emptied column by column: no table is in memory twice."""
    order = frame.select(pl.arg_sort_by(by, maintain_order=True)).to_series()
    return pl.DataFrame([frame.drop_in_place(name).gather(order) for name in frame.columns])
