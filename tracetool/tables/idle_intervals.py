"""When each device of a run has no activity."""

from __future__ import annotations

import polars as pl


def idle_intervals(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return when each device has no activity between the run's first start and last end.

    Parameters
    ----------
    kernels : DataFrame
        The ``kernels`` table: activities of every kind.

    Returns
    -------
    DataFrame
        ``device``, ``busy_until_ns``, ``gap_ns``, ``after``, ``before``: names of the activities to either
        side, the one that ended last and the one that starts next; null before a device's first and after its
        last.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    rows = kernels.sort("device", "start_ns").with_columns(
        end.alias("end_ns"), end.cum_max().over("device").alias("busy_until_ns")
    )
    ended_last = pl.when(pl.col("end_ns") == pl.col("busy_until_ns")).then(pl.col("name")).forward_fill()
    rows = rows.with_columns(ended_last.over("device").alias("after"))
    first, last = rows.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    inner = rows.select(
        "device",
        pl.col("busy_until_ns").shift(1).over("device"),
        (pl.col("start_ns") - pl.col("busy_until_ns").shift(1).over("device")).alias("gap_ns"),
        pl.col("after").shift(1).over("device"),
        pl.col("name").alias("before"),
    )
    by = rows.group_by("device", maintain_order=True)
    head = by.agg(
        pl.lit(first).alias("busy_until_ns"),
        (pl.col("start_ns").min() - first).alias("gap_ns"),
        pl.lit(None, pl.String).alias("after"),
        pl.col("name").first().alias("before"),
    )
    tail = by.agg(
        pl.col("busy_until_ns").last(),
        (last - pl.col("busy_until_ns").last()).alias("gap_ns"),
        pl.col("after").last(),
        pl.lit(None, pl.String).alias("before"),
    )
    return pl.concat([inner, head, tail], how="vertical_relaxed").filter(pl.col("gap_ns") > 0)
