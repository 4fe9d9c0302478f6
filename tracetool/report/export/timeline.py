"""Content of an exported timeline: processes, tracks, slices with their arguments, and counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.report.export.lanes import lanes_of

#: Columns of slices that are not arguments. ``flow``: slices with one number are joined by an arrow.
PLACE = ("start_ns", "duration_ns", "track", "name", "flow")


@dataclass(frozen=True)
class Track:
    """A line of the picture: ``process`` is a place in :attr:`Timeline.processes`."""

    process: int
    name: str
    unit: str = ""  # of a counter


@dataclass(frozen=True)
class Slices:
    """Slices of one category.

    Parameters
    ----------
    category : str
        ``kernel``, ``memcpy``, ``memset``, ``host_call``, ``range`` or ``throttled``.
    frame : DataFrame
        ``start_ns``, ``duration_ns``, ``track`` (place in :attr:`Timeline.tracks`), ``name``; every further
        column is an argument, absent where null.
    """

    category: str
    frame: pl.DataFrame


@dataclass(frozen=True)
class Laid:
    """Slices on lanes: ``track`` of ``frame`` is a place in ``tracks``, names of tracks and lanes."""

    category: str
    tracks: list[str]
    frame: pl.DataFrame


@dataclass(frozen=True)
class Counter:
    """Values over time on one track; each applies until the next."""

    track: int
    time_ns: Ints
    value: Floats


@dataclass
class Timeline:
    """A timeline to write. Times are the run's, ``origin_ns`` the first of them. [ns]"""

    origin_ns: int
    processes: list[str] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    slices: list[Slices] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    predicted: set[int] = field(default_factory=set)  # places of processes that never ran

    def add_process(self, name: str, *, predicted: bool = False) -> int:
        """Add a process, one that ran or a ``predicted`` one, and return its place."""
        self.processes.append(name)
        place = len(self.processes) - 1
        if predicted:
            self.predicted.add(place)
        return place

    def add_counter(self, process: int, name: str, unit: str, time_ns: Ints, value: Floats) -> None:
        """Add a counter track with its values; ones that are not finite are left out."""
        finite = np.isfinite(value)
        self.tracks.append(Track(process, name, unit))
        self.counters.append(Counter(len(self.tracks) - 1, time_ns[finite], value[finite]))

    def add_slices(self, process: int, category: str, frame: pl.DataFrame, *, nested: bool = False) -> None:
        """Add slices: ``frame`` has ``track`` by name; slices that run at once go to lanes of their own.

        Parameters
        ----------
        process : int
            Place of the process.
        category : str
            Of all the slices.
        frame : DataFrame
            ``start_ns``, ``duration_ns``, ``track`` (its name), ``name`` and arguments.
        nested : bool
            Whether slices of a track may lie inside one another.
        """
        if frame.height:
            self.add_laid(process, laid_out(category, frame, nested=nested))

    def add_laid(self, process: int, laid: Laid) -> None:
        """Add slices that are on their lanes."""
        first = len(self.tracks)
        self.tracks += [Track(process, name) for name in laid.tracks]
        self.slices.append(Slices(laid.category, laid.frame.with_columns(pl.col("track") + first)))

    def names(self) -> list[str]:
        """Return the distinct names of slices."""
        return distinct(s.frame["name"] for s in self.slices)


def laid_out(category: str, frame: pl.DataFrame, *, nested: bool = False) -> Laid:
    """Return slices on lanes of their tracks; parameters as of :meth:`Timeline.add_slices`."""
    names = sorted(frame["track"].unique().to_list(), key=_natural)
    numbered = frame.with_columns(
        track=pl.col("track").replace_strict(names, list(range(len(names))), return_dtype=pl.Int64)
    )
    if not _in_order(numbered):
        order = ["track", "start_ns", "duration_ns"]
        numbered = numbered.sort(order, descending=[False, False, True], maintain_order=True)
    start = numbered["start_ns"].to_numpy()
    track = numbered["track"].to_numpy()
    lane = lanes_of(track, start, start + numbered["duration_ns"].to_numpy(), nested=nested)
    lanes = int(lane.max()) + 1
    used, place = _numbered_pairs(track * lanes + lane, len(names) * lanes)
    placed = numbered.with_columns(track=pl.Series(place).cast(pl.Int64))
    if lane.any():
        placed = placed.sort("track", "start_ns", maintain_order=True)
    return Laid(category, [_lane_name(names[p // lanes], p % lanes) for p in used], placed)


def _in_order(slices: pl.DataFrame) -> bool:
    """Whether slices are in the order of their track, then of start, then the longer one first."""
    track, start, duration = (slices[c].to_numpy() for c in ("track", "start_ns", "duration_ns"))
    later = np.diff(start)
    after = (later > 0) | ((later == 0) & (duration[1:] <= duration[:-1]))
    on = np.diff(track)
    return bool(((on > 0) | ((on == 0) & after)).all())


def _numbered_pairs(pair: Ints, most: int) -> tuple[list[int], Ints]:
    """Return which numbers below ``most`` occur, in order, and the place of each row's among them."""
    occurs = np.bincount(pair, minlength=most) > 0
    place = np.cumsum(occurs, dtype=np.int64) - 1
    return [int(p) for p in np.flatnonzero(occurs)], place[pair]


def distinct(columns: Iterable[pl.Series]) -> list[str]:
    """Return the distinct texts of several columns, in the order of their first use."""
    texts: dict[str, None] = {}
    for column in columns:
        texts.update(dict.fromkeys(column.drop_nulls().unique(maintain_order=True).to_list()))
    return list(texts)


def _lane_name(track: str, lane: int) -> str:
    return f"{track} (at once {lane + 1})" if lane else track


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``stream 10`` behind ``stream 9``."""
    words = text.split(" ")
    return [(int(w), "") if w.isdecimal() and len(w) < 20 else (-1, w) for w in words]
