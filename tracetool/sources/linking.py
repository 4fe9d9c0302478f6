"""Host call that launched each activity, operator that made the call, range that was open then."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracetool.sources.columns import each_block
from tracetool.sources.nesting import Nest, last_not_after, nest

_I = pl.Int64()
LAUNCH_COLUMNS = ("launch_ns", "thread", "launch_name")


def with_columns_present(frame: pl.DataFrame, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    """Add columns a reader did not make, as nulls."""
    return frame.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in columns.items() if name not in frame.columns
    )


def link_launches(activities: pl.DataFrame, calls: pl.DataFrame, *, names: bool = True) -> pl.DataFrame:
    """Add ``launch_ns``, ``thread``, ``launch_name`` of the host call, and its ``process`` where unknown.

    Parameters
    ----------
    activities : DataFrame
        With ``correlation``, ``start_ns`` and perhaps ``process``.
    calls : DataFrame
        ``host_calls`` of the same trace.
    names : bool
        Whether to add ``launch_name``.

    Notes
    -----
    A correlation repeats across processes, and in merged traces even where activities do not state their
    process: of several calls the last that began before the activity is taken. All kernels of one graph
    launch share its correlation, so activities are never taken for duplicates.
    """
    activities = with_columns_present(activities, {"correlation": _I, "process": _I})
    if (
        not calls.height
        or not activities.height
        or activities["correlation"].null_count() == activities.height
    ):
        return with_columns_present(activities, {"launch_ns": _I, "thread": _I, "launch_name": pl.String()})
    by_process = activities["process"].null_count() == 0
    several = by_process and calls["process"].n_unique() > 1
    keys = ["process", "correlation"] if several else ["correlation"]
    tied = pl.col("correlation").is_not_null() & (pl.col("correlation") != 0)
    if not calls.select(tied.all()).item():
        calls = calls.filter(tied)
    launches = calls.select(
        "correlation",
        *([pl.col("process")] if several else [pl.col("process").alias("launch_process")] * (not by_process)),
        pl.col("start_ns").alias("launch_ns"),
        "thread",
        *([pl.col("name").alias("launch_name")] if names else []),
    )
    if replaced := [c for c in LAUNCH_COLUMNS if c in activities.columns]:
        activities = activities.drop(replaced)
    if not several and (linked := _in_order(activities, launches)) is not None:
        return linked if by_process else _of_launch(linked)
    joined = activities.join(launches, on=keys, how="left", maintain_order="left")
    if joined.height != activities.height:  # a correlation used twice
        rows = activities.with_row_index("#row").sort("start_ns", maintain_order=True)
        joined = rows.join_asof(
            launches.sort("launch_ns"), left_on="start_ns", right_on="launch_ns", by=keys,
            strategy="backward", coalesce=False, check_sortedness=False,
        ).sort("#row")  # fmt: skip
        joined = joined.select(*activities.columns, *[c for c in launches.columns if c not in keys])
    return joined if by_process else _of_launch(joined)


def _of_launch(linked: pl.DataFrame) -> pl.DataFrame:
    """Take the process of the call where the activity states none."""
    return linked.with_columns(process=pl.coalesce("process", "launch_process")).drop("launch_process")


def _in_order(activities: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame | None:
    """Look launches up where correlations rise with every call, as most traces write them; None elsewhere."""
    correlations = calls["correlation"]
    if not len(correlations) or correlations.null_count() or not (correlations.diff().slice(1) > 0).all():
        return None

    def places(block: pl.DataFrame) -> pl.Series:
        correlation = block["correlation"]
        place = last_not_after(correlations, correlation)
        same = correlations.gather(place) == correlation
        return pl.select(pl.when(same).then(place.cast(pl.UInt32))).to_series()

    rows = pl.concat(each_block(activities.select("correlation"), places))
    launches = calls.drop("correlation").select(pl.all().gather(rows))
    return activities.hstack(launches)


_THREAD = ("process", "thread")


def _threads(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the (process, thread) pairs of a table, each with a number."""
    return frame.select(pl.col(_THREAD).cast(_I)).unique().sort(_THREAD).with_row_index("#thread")


def thread_of(frame: pl.DataFrame, threads: pl.DataFrame) -> pl.Series:
    """Return the number of each row's (process, thread), -1 where it is none of these."""
    keys = frame.select(pl.col(_THREAD).cast(_I))
    if threads.height == 1:
        thread = threads.row(0)[1:]
        same = keys.select(
            pl.all_horizontal(
                pl.col(c).eq_missing(pl.lit(v, dtype=_I)) for c, v in zip(_THREAD, thread, strict=True)
            )
        )
        return same.to_series().cast(_I) - 1
    numbered = keys.join(threads, on=_THREAD, how="left", nulls_equal=True, maintain_order="left")
    return numbered["#thread"].cast(_I).fill_null(-1)


@dataclass(frozen=True)
class Tree:
    """Intervals of host threads: the threads, each with a number, and what encloses what on each."""

    threads: pl.DataFrame
    nest: Nest

    @classmethod
    def of(cls, intervals: pl.DataFrame) -> Tree:
        """Find what encloses what, once for all questions about it."""
        threads = _threads(intervals)
        start = intervals["start_ns"]
        return cls(threads, nest(thread_of(intervals, threads), start, start + intervals["duration_ns"]))


def number_ranges(ranges: pl.DataFrame) -> tuple[pl.DataFrame, Tree | None]:
    """Add ``range`` (row number), ``parent`` and ``depth``; return what encloses what too."""
    ranges = with_columns_present(ranges, {"process": _I, "thread": _I}).sort("start_ns", maintain_order=True)
    if not ranges.height:
        none = pl.lit(None, dtype=_I)
        return ranges.with_columns(range=none, parent=none, depth=none.cast(pl.Int32)), None
    tree = Tree.of(ranges)
    numbered = ranges.with_columns(
        pl.int_range(pl.len(), dtype=_I).alias("range"),
        tree.nest.parents().cast(_I).alias("parent"),
        tree.nest.depths().alias("depth"),
    )
    return numbered, tree


def number_operators(operators: pl.DataFrame) -> tuple[pl.DataFrame, Tree | None]:
    """Add ``operator`` (row number) and ``parent``; return what encloses what too."""
    operators = with_columns_present(operators, {"process": _I, "thread": _I, "external_id": _I})
    operators = operators.sort("start_ns", maintain_order=True)
    if not operators.height:
        return operators.with_columns(operator=pl.lit(None, dtype=_I), parent=pl.lit(None, dtype=_I)), None
    tree = Tree.of(operators)
    numbered = operators.with_columns(
        pl.int_range(pl.len(), dtype=_I).alias("operator"), tree.nest.parents().cast(_I).alias("parent")
    )
    return numbered, tree


def innermost(activities: pl.DataFrame, tree: Tree) -> pl.Series:
    """Return the innermost interval open on the launching thread at the launch, null for none."""

    def enclosing(block: pl.DataFrame) -> pl.Series:
        launched = block["launch_ns"].is_not_null() & block["thread"].is_not_null()
        thread = thread_of(block, tree.threads)
        if not launched.all():
            thread = pl.select(pl.when(launched).then(thread).otherwise(-1)).to_series()
        return tree.nest.innermost(thread, block["launch_ns"].fill_null(0))

    return pl.concat(each_block(activities.select(*_THREAD, "launch_ns"), enclosing))


def link_operators(activities: pl.DataFrame, operators: pl.DataFrame, tree: Tree | None) -> pl.DataFrame:
    """Add ``operator``: by the profiler's id where it is one earlier operator's, else the enclosing call."""
    if tree is None or not activities.height:
        return activities.with_columns(operator=pl.lit(None, dtype=pl.Int32))
    enclosing = innermost(activities, tree)
    activities = with_columns_present(activities, {"external_id": _I})
    named = pl.col("external_id").is_not_null()
    by_id = operators.filter(named & pl.col("external_id").is_unique())
    by_id = by_id.select("external_id", "operator", pl.col("start_ns").alias("#begun"))
    ids = activities.select("external_id", pl.coalesce("launch_ns", "start_ns").alias("#at"))
    joined = ids.join(by_id, on="external_id", how="left", maintain_order="left")
    stated = joined.select(pl.when(pl.col("#begun") <= pl.col("#at")).then("operator")).to_series()
    # Kineto writes the correlation as id where it knows no operator, a number that an unrelated one may have.
    repeats = activities.select(~named | pl.col("external_id").eq_missing(pl.col("correlation"))).to_series()
    ways = (stated, enclosing)
    if repeats.all():
        ways = (enclosing, stated)
    elif activities["launch_ns"].is_not_null().any():
        ways = (pl.select(pl.when(~repeats).then(stated)).to_series(), enclosing)
    return activities.with_columns(operator=pl.select(pl.coalesce(*ways)).to_series())


def link_ranges(activities: pl.DataFrame, tree: Tree | None) -> pl.DataFrame:
    """Add ``range``: the innermost one open on the launching thread at the launch."""
    if tree is None or not activities.height:
        return activities.with_columns(range=pl.lit(None, dtype=pl.Int32))
    return activities.with_columns(innermost(activities, tree).alias("range"))
