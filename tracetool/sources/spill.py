"""A trace larger than memory: its tables on disk as they are read, given back window by window."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints

T = TypeVar("T")
#: Activities of a window: reading and linking them takes about 0.5 GiB.
WINDOW_ROWS: Final = 1_000_000
#: Calls and operators this long before a window may have launched its kernels. [ns]
REACH_NS: Final = 2_000_000_000
#: Of this many activities one start is looked at to divide a trace evenly.
_SAMPLED: Final = 64
#: Other tables by name, as a trace calls them.
_OTHERS: Final = ("host_calls", "operators", "ranges", "modules")


@dataclass
class Spill(Generic[T]):
    """Tables of a trace in parts on disk.

    Parameters
    ----------
    folder : Path
        Scratch folder of its own.
    make : callable
        Returns the trace of some rows of the tables, on its own clock; set when all is read.
    """

    folder: Path
    make: Callable[[Mapping[str, pl.DataFrame]], T] | None = None
    parts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    _starts: list[Ints] = field(default_factory=list)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Write rows of a table."""
        if not frame.height:
            return
        number = self.parts.get(table, 0)
        place = self.folder / table
        place.mkdir(exist_ok=True)
        frame.write_parquet(place / f"{number:06d}.parquet", compression="zstd", compression_level=1)
        self.parts[table] = number + 1
        self.rows[table] = self.rows.get(table, 0) + frame.height
        if table == "activities":
            self._starts.append(frame["start_ns"].drop_nulls().to_numpy()[::_SAMPLED].copy())

    def windows(self, each: int = WINDOW_ROWS) -> Iterator[tuple[int, T]]:
        """Give the start of each window, on the trace's own clock, and its trace."""
        assert self.make is not None, "all parts are read first"
        for first, until in self._cuts(each):
            tables = {"activities": self._between("activities", first, until)}
            for name in _OTHERS:
                tables[name] = self._between(name, first - REACH_NS, until)
            yield first, self.make(tables)

    def _between(self, table: str, first: int, until: int) -> pl.DataFrame:
        if not self.parts.get(table):
            return pl.DataFrame()
        start = pl.col("start_ns")
        files = [self.folder / table / f"{number:06d}.parquet" for number in range(self.parts[table])]
        scan = pl.scan_parquet(files, missing_columns="insert", glob=False)
        last = start if table in ("activities", "host_calls") else start + pl.col("duration_ns").fill_null(0)
        return scan.filter(start < until, last >= first).collect(engine="streaming")

    def _cuts(self, each: int) -> list[tuple[int, int]]:
        low, high = -(1 << 62), 1 << 62
        starts = np.sort(np.concatenate(self._starts)) if self._starts else np.zeros(0, np.int64)
        count = max(1, round(self.rows.get("activities", 0) / each))
        inner = [int(starts[k * len(starts) // count]) for k in range(1, count)] if len(starts) else []
        bounds = [low, *sorted(set(inner)), high]
        return list(itertools.pairwise(bounds))
