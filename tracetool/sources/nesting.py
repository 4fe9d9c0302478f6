"""Enclosing intervals: one sort and pointer jumps, never a join of intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

#: No table of intervals has two thousand million rows.
_PLACE = pl.Int32()


@dataclass(frozen=True)
class Nest:
    """Intervals of many threads, sorted once.

    Parameters
    ----------
    order : Series of int, shape (n,)
        Row of each interval in the caller's order, sorted by group, start, longest first.
    group, start, end : Series of int, shape (n,)
        In sorted order. [1, ns, ns]
    parent : Series of int, shape (n,)
        Sorted place of the enclosing interval, null where there is none.
    """

    order: pl.Series
    group: pl.Series
    start: pl.Series
    end: pl.Series
    parent: pl.Series

    def depths(self) -> pl.Series:
        """Return how many intervals enclose each, in the caller's order. Shape (n,)."""
        depth = self.parent.is_not_null().cast(_PLACE)
        jump = self.parent
        while jump.null_count() < len(jump):
            depth = depth + depth.gather(jump).fill_null(0)
            jump = jump.gather(jump)
        return self._back(depth)

    def parents(self) -> pl.Series:
        """Return the caller's row of the enclosing interval, null for none. Shape (n,)."""
        return self._back(self.order.gather(self.parent))

    def _back(self, values: pl.Series) -> pl.Series:
        if self.order.is_sorted():
            return values
        return pl.DataFrame({"order": self.order, "value": values}).sort("order")["value"]

    def innermost(self, group: pl.Series, time: pl.Series) -> pl.Series:
        """Return the caller's row of the innermost interval open at each time, null for none.

        Parameters
        ----------
        group, time : Series of int, shape (q,)
            Thread and instant. [1, ns]

        Returns
        -------
        Series of int, shape (q,)
            Rows in the caller's order.
        """
        intervals_of_threads = []
        rows = []
        for thread, which in _groups_with_rows(group):
            first = self.group.search_sorted(thread, "left")
            count = self.group.search_sorted(thread, "right") - first
            instants = time if which is None else time.gather(which)
            # The last interval that began before or at each instant.
            intervals_of_threads.append(last_not_after(self.start.slice(first, count), instants) + first)
            if which is not None:
                rows.append(which)
        intervals = pl.concat(intervals_of_threads) if intervals_of_threads else pl.Series(dtype=_PLACE)
        if rows:
            intervals = pl.DataFrame({"row": pl.concat(rows), "found": intervals}).sort("row")["found"]
        shut = (self.end.gather(intervals) < time).arg_true()
        while len(shut):
            outer = self.parent.gather(intervals.gather(shut))
            intervals.scatter(shut, outer)
            shut = shut.filter((self.end.gather(outer) < time.gather(shut)).fill_null(value=False))
        return self.order.gather(intervals)


def _groups_with_rows(group: pl.Series) -> Iterator[tuple[int, pl.Series | None]]:
    """Yield each group and the rows it has; None in place of the rows where they are all of one group."""
    if not len(group):
        return
    if group.min() == group.max():
        yield group[0], None
        return
    order = group.arg_sort()
    runs = group.gather(order).rle().struct.unnest()
    at = 0
    for count, thread in runs.iter_rows():
        yield thread, order.slice(at, count)
        at += count


def last_not_after(values: pl.Series, limits: pl.Series) -> pl.Series:
    """Return the place of the last value that is no greater than each limit, null where all are greater.

    Parameters
    ----------
    values : Series of int64, shape (n,)
        In order.
    limits : Series of int64, shape (q,)
        In any order, which takes ten times as long as the right one.
    """
    if limits.is_sorted() and not limits.null_count():
        table = values.alias("value").to_frame().with_row_index("place")
        joined = limits.alias("value").to_frame().join_asof(
            table, on="value", strategy="backward", check_sortedness=False
        )  # fmt: skip
        return joined["place"].cast(_PLACE)
    place = values.search_sorted(limits, "right").cast(_PLACE) - 1
    return pl.select(pl.when((place >= 0) & limits.is_not_null()).then(place)).to_series()


def nest(group: pl.Series, start: pl.Series, end: pl.Series) -> Nest:
    """Sort intervals and find what encloses each.

    Parameters
    ----------
    group : Series of int, shape (n,)
        Thread of each interval: only intervals of one group enclose each other.
    start, end : Series of int, shape (n,)
        Closed at both ends. [ns]

    Notes
    -----
    The parent is the nearest earlier interval of the sort that ends no sooner. Candidates start at
    the place before and jump to their own candidate while they end too soon; all places jump at once,
    so a thousand siblings take ten rounds.
    """
    frame = pl.DataFrame({"group": group, "start": start, "end": end}).with_row_index("order")
    if not _is_nested_order(frame):
        frame = frame.sort("group", "start", "end", descending=[False, False, True], maintain_order=True)
    same = (pl.col("group") == pl.col("group").shift(1)).fill_null(value=False)
    place = pl.int_range(pl.len(), dtype=_PLACE)
    # Where all before end sooner none encloses: a thread's outermost calls are recognized without a search.
    last = pl.col("end").cum_max().over("group") if frame["group"].n_unique() > 1 else pl.col("end").cum_max()
    parent = frame.select(pl.when(same & (last.shift(1) >= pl.col("end"))).then(place - 1)).to_series()
    end = frame["end"]
    short = (end.gather(parent) < end).arg_true()
    while len(short):
        outer = parent.gather(parent.gather(short))
        parent.scatter(short, outer)
        short = short.filter((end.gather(outer) < end.gather(short)).fill_null(value=False))
    return Nest(frame["order"].cast(_PLACE), frame["group"], frame["start"], end, parent)


def _is_nested_order(frame: pl.DataFrame) -> bool:
    """Return whether rows are already sorted by group, start, longest first, as most threads write them."""
    group, start, end = (pl.col(c) for c in ("group", "start", "end"))
    later = (start > start.shift(1)) | ((start == start.shift(1)) & (end <= end.shift(1)))
    fine = (group > group.shift(1)) | ((group == group.shift(1)) & later)
    return bool(frame.select(fine.all()).item())
