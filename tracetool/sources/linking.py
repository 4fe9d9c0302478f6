"""Which host call launched each activity, which operator made the call, which range was open then."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl

from tracetool.sources.nesting import nest
from tracetool.vocabulary.arrays import Ints

_I = pl.Int64()
LAUNCH_COLUMNS = ("launch_ns", "thread", "launch_name")


def with_columns_present(frame: pl.DataFrame, wanted: dict[str, pl.DataType]) -> pl.DataFrame:
    """Add columns a reader did not make, as nulls."""
    return frame.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in frame.columns
    )


def link_launches(activities: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Add ``launch_ns``, ``thread``, ``launch_name`` of the host call, and its ``process`` where unknown.

    Parameters
    ----------
    activities : DataFrame
        With ``correlation``, ``start_ns`` and perhaps ``process``.
    calls : DataFrame
        ``host_calls`` of the same trace.

    Notes
    -----
    A correlation repeats across processes, and in merged traces even where activities do not tell their
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
    made = calls.select(
        "correlation",
        pl.col("process") if several else pl.col("process").alias("launch_process"),
        pl.col("start_ns").alias("launch_ns"),
        "thread",
        pl.col("name").alias("launch_name"),
    )
    activities = activities.drop([c for c in LAUNCH_COLUMNS if c in activities.columns])
    if not several and (found := _in_order(activities, made)) is not None:
        return found.with_columns(process=pl.coalesce("process", "launch_process")).drop("launch_process")
    joined = activities.join(made, on=keys, how="left", maintain_order="left")
    if joined.height != activities.height:  # a correlation used twice
        rows = activities.with_row_index("#row").sort("start_ns", maintain_order=True)
        joined = rows.join_asof(
            made.sort("launch_ns"), left_on="start_ns", right_on="launch_ns", by=keys, strategy="backward",
            coalesce=False, check_sortedness=False,
        ).sort("#row")  # fmt: skip
        joined = joined.select(*activities.columns, *[c for c in made.columns if c not in keys])
    if not several:
        if not by_process:
            joined = joined.with_columns(process=pl.coalesce("process", "launch_process"))
        joined = joined.drop("launch_process")
    return joined


def _in_order(activities: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame | None:
    """Look launches up where correlations rise with every call, as most traces write them; None elsewhere."""
    known = calls["correlation"].to_numpy()
    if not len(known) or not (known[1:] > known[:-1]).all():
        return None
    asked = activities["correlation"]
    wanted = asked.fill_null(-1).to_numpy()
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    hit = pl.Series((known[place] == wanted) & asked.is_not_null().to_numpy())
    rows = pl.select(pl.when(hit).then(pl.Series(place, dtype=pl.UInt32))).to_series()
    return activities.with_columns(calls[c].gather(rows) for c in calls.columns if c != "correlation")


def _threads(*frames: pl.DataFrame) -> list[Ints]:
    """Return one number for each (process, thread), the same across frames."""
    keys = pl.concat([f.select(pl.col("process", "thread").cast(_I)) for f in frames])
    number = keys.select(pl.struct("process", "thread").rank("dense")).to_series().to_numpy().astype(np.int64)
    edges = np.cumsum([0, *[f.height for f in frames]])
    return [number[a:b] for a, b in itertools.pairwise(edges)]


def number_ranges(ranges: pl.DataFrame) -> pl.DataFrame:
    """Add ``range`` (row number), ``parent`` and ``depth``."""
    ranges = with_columns_present(ranges, {"process": _I, "thread": _I}).sort("start_ns", maintain_order=True)
    if not ranges.height:
        none = pl.lit(None, dtype=_I)
        return ranges.with_columns(range=none, parent=none, depth=none.cast(pl.Int32))
    group = _threads(ranges)[0]
    start = ranges["start_ns"].to_numpy()
    found = nest(group, start, start + ranges["duration_ns"].to_numpy())
    parents = pl.Series("parent", found.parents())
    return ranges.with_columns(
        pl.int_range(pl.len(), dtype=_I).alias("range"),
        pl.when(parents >= 0).then(parents).alias("parent"),
        pl.Series("depth", found.depths()).cast(pl.Int32),
    )


def number_operators(operators: pl.DataFrame) -> pl.DataFrame:
    """Add ``operator`` (row number) and ``parent``."""
    operators = with_columns_present(operators, {"process": _I, "thread": _I, "external_id": _I})
    operators = operators.sort("start_ns", maintain_order=True)
    if not operators.height:
        return operators.with_columns(operator=pl.lit(None, dtype=_I), parent=pl.lit(None, dtype=_I))
    group = _threads(operators)[0]
    start = operators["start_ns"].to_numpy()
    parents = pl.Series("parent", nest(group, start, start + operators["duration_ns"].to_numpy()).parents())
    return operators.with_columns(
        pl.int_range(pl.len(), dtype=_I).alias("operator"),
        pl.when(parents >= 0).then(parents).alias("parent"),
    )


def _innermost(activities: pl.DataFrame, intervals: pl.DataFrame) -> pl.Series:
    """Return the innermost interval open on the launching thread at the launch, null for none."""
    asked = activities.with_row_index("#row").filter(
        pl.col("launch_ns").is_not_null() & pl.col("thread").is_not_null()
    )
    found = np.full(activities.height, -1, dtype=np.int64)
    if asked.height and intervals.height:
        # All kernels of one graph launch ask the same question: ask it once.
        groups, questions = _threads(intervals, asked)
        start = intervals["start_ns"].to_numpy()
        tree = nest(groups, start, start + intervals["duration_ns"].to_numpy())
        found[asked["#row"].to_numpy()] = tree.innermost(questions, asked["launch_ns"].to_numpy())
    series = pl.Series(found, dtype=pl.Int64).cast(pl.Int32)  # a run has no two thousand million operators
    return pl.select(pl.when(series >= 0).then(series)).to_series()


def link_operators(activities: pl.DataFrame, operators: pl.DataFrame) -> pl.DataFrame:
    """Add ``operator``: by the profiler's id where it is one operator's, else the enclosing call."""
    if not operators.height or not activities.height:
        return activities.with_columns(operator=pl.lit(None, dtype=pl.Int32))
    enclosing = _innermost(activities, operators)
    activities = with_columns_present(activities, {"external_id": _I})
    known = operators.filter(pl.col("external_id").is_not_null()).select("external_id", "operator")
    known = known.filter(pl.col("external_id").is_unique())
    joined = activities.select("external_id").join(known, on="external_id", how="left", maintain_order="left")
    return activities.with_columns(operator=pl.select(pl.coalesce(joined["operator"], enclosing)).to_series())


def link_ranges(activities: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Add ``range``: the innermost one open on the launching thread at the launch."""
    if not ranges.height or not activities.height:
        return activities.with_columns(range=pl.lit(None, dtype=pl.Int32))
    return activities.with_columns(_innermost(activities, ranges).alias("range"))
