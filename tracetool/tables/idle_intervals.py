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
        side, null before a device's first and after its last.
    """
    rows = kernels.sort("device", "start_ns").with_columns(
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns")
    )
    first, last = rows.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    inner = rows.select(
        "device",
        pl.col("end_ns").cum_max().shift(1).over("device").alias("busy_until_ns"),
        (pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1).over("device")).alias("gap_ns"),
        pl.col("name").shift(1).over("device").alias("after"),
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
        pl.col("end_ns").max().alias("busy_until_ns"),
        (last - pl.col("end_ns").max()).alias("gap_ns"),
        pl.col("name").sort_by("end_ns").last().alias("after"),
        pl.lit(None, pl.String).alias("before"),
    )
    return pl.concat([inner, head, tail], how="vertical_relaxed").filter(pl.col("gap_ns") > 0)
