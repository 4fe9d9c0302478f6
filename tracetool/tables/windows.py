"""A run too large for memory as windows of its time: each is a run of its own to whatever reads it.

A window holds what starts in a stretch of the run's time. Stretches are cut where no GPU works: of the idle
times near an even division the longest, so that as little as possible crosses a cut. Every table is read
from Parquet row group by row group; rows outside the window are never in memory together.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.tables.run import Run
from tracetool.tables.schema import TableSchema, load_schema
from tracetool.tables.table_file import reading_table
from tracetool.tables.table_list import KEYS, row_count

#: Activities from which a run is read in windows, and how many a window has about: 2.5 GiB at most while
#: 100 million are predicted.
MANY: Final = 4_000_000
_EACH: Final = 2_000_000
#: Of this many activities one start is looked at to divide a run evenly; of fewer where windows are small.
_SAMPLED: Final = 64
#: Starts looked at around an even cut, in samples to either side.
_AROUND: Final = 128
#: Readings before the first window and after the last: they show what idle draws, filters reach back. [ns]
_READINGS_NS: Final = 5_000_000_000
#: A launch this long before its kernel is a fault of the trace, not a queue. [ns]
_LAUNCH_NS: Final = 10_000_000_000
#: Numbers up to this are looked up in a table of all of them. [1] By definition without effect on results.
_NUMBERED: Final = 1_000_000
#: Columns that hold numbers of rows of another table.
_REFERENCES: Final = {"operator": "operators", "range": "ranges", "module": "modules"}


def activities_of(run: Run) -> int:
    """Return how many activities a run has, from the footer of its table, not from ``run.json``."""
    file = run.path / "kernels.parquet"
    if not file.is_file():
        return 0
    with reading_table(file, whole=run.stamps is not None):
        return row_count(file)


def limits() -> tuple[int, int]:
    """Return from how many activities on a run is read in windows, and how many each has about.

    ``TRACETOOL_WINDOW`` states the second; the first is twice that.
    """
    stated = os.environ.get("TRACETOOL_WINDOW", "")
    if not stated:
        return MANY, _EACH
    if not stated.isdecimal() or int(stated) < 1:
        raise BadInput(f"TRACETOOL_WINDOW={stated}: not a number of activities", "e.g. 2000000")
    return 2 * int(stated), int(stated)


#: What can be done with a run that is too large for what is asked of it.
PARTS: Final = "ingest a part of the trace, or see: tracetool attribute"


def is_large(run: Run) -> bool:
    """Return whether a run is read in windows."""
    return not isinstance(run, Window) and activities_of(run) > limits()[0]


def refuse_large(run: Run, what: str, instead: str) -> None:
    """Refuse what needs all activities of a run at once.

    Raises
    ------
    BadInput
        If the run is read in windows.
    """
    if is_large(run):
        raise BadInput.in_file(
            run.path,
            f"has {counted(activities_of(run), 'activity', 'activities')}, too many for {what} at once",
            instead,
        )


@dataclass(frozen=True)
class Window(Run):
    """A stretch of a run's time, opened as a run: what starts in ``first_ns`` up to ``until_ns``."""

    first_ns: int = 0
    until_ns: int = 0
    idle_before_ns: int = 0  # between the last end before this window and its first start
    number: int = 0
    followed: bool = False  # whether another window comes after it

    def table(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of a table in this stretch, numbered anew from 0."""
        if name == "signatures":
            return self._signatures if columns is None else self._signatures.select(columns)
        if name not in ("kernels", "host_calls", "telemetry", "measured_work", *_REFERENCES.values()):
            return super().table(name, columns)
        rows = self._renumbered(name, self._rows(name, columns))
        return rows if columns is None else rows.select(c for c in rows.columns if c in set(columns))

    def launches(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return columns of the activities of this stretch, under the run's own numbers of signatures."""
        return self._rows("kernels", columns)

    def _rows(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        schema = load_schema(name)
        file = self.path / f"{name}.parquet"
        if not file.is_file():
            return schema.empty()
        with reading_table(file, whole=self.stamps is not None):
            return self._within(schema, pl.scan_parquet(file, glob=False), columns)

    def _within(self, schema: TableSchema, scan: pl.LazyFrame, columns: Sequence[str] | None) -> pl.DataFrame:
        """Return the rows of a table that lie in this stretch."""
        name = schema.name
        stored = scan.collect_schema().names()
        start = pl.col("start_ns")
        if name == "kernels":
            scan = scan.filter(start >= self.first_ns, start < self.until_ns)
        elif name == "host_calls":
            scan = scan.filter(start >= self._launched_ns, start < self.until_ns)
        elif name == "telemetry":
            time = pl.col("time_ns")
            # what other windows hold ran beside readings on their side of a cut: here it would pass for idle
            before_ns, after_ns = _READINGS_NS * (self.number == 0), _READINGS_NS * (not self.followed)
            scan = scan.filter(time >= self.first_ns - before_ns, time < self.until_ns + after_ns)
        elif name != "measured_work":
            scan = scan.filter(start < self.until_ns, start + pl.col("duration_ns") >= self._launched_ns)
        if columns is not None and name == "kernels":
            scan = scan.select(c for c in stored if c in set(columns))
            frame = scan.collect(engine="streaming")
            return frame.cast({c: t for c, t in schema.polars().items() if c in frame.columns})
        return schema.conform(scan.collect(engine="streaming"))

    @cached_property
    def _launched_ns(self) -> int:
        """Return when the first kernel of this window was launched."""
        first = self._rows("kernels", ["launch_ns"])["launch_ns"].min()
        return self.first_ns if not isinstance(first, int) else max(first, self.first_ns - _LAUNCH_NS)

    @cached_property
    def numbers(self) -> pl.Series:
        """Return the run's own numbers of the signatures of this window, which count from 0."""
        return self._launched["signature"]

    @cached_property
    def _launched(self) -> pl.DataFrame:
        rows = self._rows("kernels", ["signature", "duration_ns"])
        return rows.group_by("signature").agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("duration_ns").sum(),
            pl.col("duration_ns").median().cast(pl.Float64).alias("duration_median_ns"),
        ).sort("signature")  # fmt: skip

    @cached_property
    def _signatures(self) -> pl.DataFrame:
        run_signatures = Run.table(self, "signatures")
        launched = self._launched
        joined = run_signatures.drop("launches", "duration_ns", "duration_median_ns").join(
            launched, on="signature"
        )
        joined = joined.sort("signature").with_row_index("#number")
        numbered = joined.with_columns(pl.col("#number").cast(pl.Int64).alias("signature"))
        return numbered.select(run_signatures.columns)

    @cached_property
    def _placed(self) -> dict[str, Ints]:
        """Return the run's own numbers of the rows of operators, ranges and modules."""
        return {t: self._rows(t)[KEYS[t]].to_numpy() for t in _REFERENCES.values()}

    def _renumbered(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        columns = []
        if "signature" in frame.columns:
            columns.append(_places(frame["signature"], self.numbers.to_numpy()))
        for column, table in _REFERENCES.items():
            if column in frame.columns:
                columns.append(_places(frame[column], self._placed[table]))
            if name == table and "parent" in frame.columns:
                columns.append(_places(frame["parent"], self._placed[table]))
        placed = frame.with_columns(columns)
        return placed.drop_nulls("signature") if name == "measured_work" else placed


def _places(column: pl.Series, numbers: Ints) -> pl.Series:
    """Return the position of each value of a column in sorted numbers, null where it is not among them."""
    if not len(numbers) or column.null_count() == len(column):
        return pl.Series(column.name, [None], dtype=column.dtype).new_from_index(0, len(column))
    values = column.fill_null(-1).to_numpy()
    if numbers[0] >= 0 and numbers[-1] <= max(
        _NUMBERED, 4 * len(values)
    ):  # a table of all numbers is quicker
        place = np.full(int(numbers[-1]) + 2, -1)
        place[numbers] = np.arange(len(numbers))
        at = place[np.where((values < 0) | (values > numbers[-1]), -1, values)]
    else:
        at = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
        at = np.where(numbers[at] == values, at, -1)
    placed = pl.Series(column.name, at)
    return placed.set(placed < 0, None).cast(column.dtype)


def windows_of(run: Run, at_once: int = 1) -> Iterator[Window]:
    """Give the windows of a run in the order of time, of a size that so many ``at_once`` fit into memory."""
    cuts = _cuts(run, at_once)
    for number, ((first, idle), (until, _)) in enumerate(itertools.pairwise(cuts)):
        followed = number + 2 < len(cuts)
        yield Window(run.path, run.info, run.stamps, first, until, idle, number, followed)


def parts_of(run: Run) -> Iterable[Run]:
    """Give a large run's windows, or a run that fits into memory itself."""
    return windows_of(run) if is_large(run) else (run,)


def idle_before_s(run: Run) -> float:
    """Return the time no GPU worked between the window before and this one; 0 of a whole run. [s]"""
    return run.idle_before_ns * 1e-9 if isinstance(run, Window) else 0.0


def _cuts(run: Run, at_once: int) -> list[tuple[int, int]]:
    """Return where windows begin, and how long no GPU had worked before. [ns]"""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes 0.2 s, and most runs are small

    file = run.path / "kernels.parquet"
    samples, low, high = [], None, 0
    step = min(_SAMPLED, max(1, limits()[1] // (8 * _AROUND)))
    with reading_table(file, whole=run.stamps is not None):
        for batch in pq.ParquetFile(file).iter_batches(131_072, columns=["start_ns"]):
            start = batch.column(0).to_numpy()
            samples.append(start[::step])
            low = int(start.min()) if low is None else min(low, int(start.min()))
            high = max(high, int(start.max()))
    starts = np.sort(np.concatenate(samples))
    count = max(1, at_once * round(activities_of(run) / limits()[1]))
    cuts = [(low or 0, 0)]
    for number in range(1, count):
        at = number * len(starts) // count
        lower, upper = starts[max(at - _AROUND, 0)], starts[min(at + _AROUND, len(starts) - 1)]
        cut = _longest_idle(run, int(lower), int(upper))
        if cut is not None and cut[0] > cuts[-1][0]:
            cuts.append(cut)
    return [*cuts, (high + 1, 0)]


def _longest_idle(run: Run, first_ns: int, last_ns: int) -> tuple[int, int] | None:
    """Return the start after the longest time without work of any GPU, and that time. [ns]"""
    start = pl.col("start_ns")
    file = run.path / "kernels.parquet"
    with reading_table(file, whole=run.stamps is not None):
        rows = (
            pl.scan_parquet(file, glob=False)
            .filter(start >= first_ns, start <= last_ns)
            .select("start_ns", "duration_ns")
            .collect(engine="streaming")
            .sort("start_ns")
        )
    if rows.height < 2:
        return None
    times = rows["start_ns"].to_numpy()
    ends = np.maximum.accumulate(times + rows["duration_ns"].to_numpy())
    idle = times[1:] - ends[:-1]
    at = int(np.argmax(idle))
    return int(times[at + 1]), max(int(idle[at]), 0)
