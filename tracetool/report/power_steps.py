"""Power over time as a table: what the picture shows, also for those who cannot see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.report.pictures.timeline import Curve

#: Equal parts of the run, one row each.
PARTS: Final = 24


def power_steps(
    kernels: pl.DataFrame, curves: Mapping[int, Curve], telemetry: pl.DataFrame, parts: int = PARTS
) -> pl.DataFrame:
    """Return mean powers over equal parts of a run.

    Parameters
    ----------
    kernels, telemetry : DataFrame
        The run's tables.
    curves : mapping of int to Curve
        Predicted power of each device over the recorded times, never above the power limit.
    parts : int
        How many.

    Returns
    -------
    DataFrame, one row per part
        ``from_ms``, ``to_ms``, ``launches`` (begun in it), ``busy_pct`` (with at least one activity, mean
        of the devices), ``power_w`` (predicted, summed over devices), ``measured_w`` (mean of the readings,
        summed over devices, null where there is none). Empty without activities.
    """
    work = kernels.select("device", "start_ns", "duration_ns").sort("start_ns")
    if not work.height:
        return pl.DataFrame()
    first = int(work["start_ns"][0])
    start = (work["start_ns"] - first).cast(pl.Float64).to_numpy()
    end = start + work["duration_ns"].cast(pl.Float64).to_numpy()
    edges = np.linspace(0.0, float(end.max()), parts + 1)
    if edges[-1] <= 0:
        return pl.DataFrame()
    device = work["device"].to_numpy()
    busy = np.mean([_covered(start[device == d], end[device == d], edges) for d in np.unique(device)], axis=0)
    joules = np.sum([np.diff(c.energy_until(edges, 0.0)) for c in curves.values()], axis=0)
    return pl.DataFrame(
        {
            "from_ms": edges[:-1] * 1e-6,
            "to_ms": edges[1:] * 1e-6,
            "launches": np.histogram(start, edges)[0],
            "busy_pct": 100.0 * busy,
            "power_w": joules / (np.diff(edges) * 1e-9),
            "measured_w": _measured(telemetry, first, edges),
        }
    )


def _spread(start: Floats, end: Floats, amount: Floats, edges: Floats) -> Floats:
    """Return how much of amounts spread evenly over their times falls into each part."""
    lasting = end > start
    s, e, rate = start[lasting], end[lasting], amount[lasting] / (end - start)[lasting]
    sums = np.zeros(len(edges) - 1)
    for i in range(len(sums)):
        inside = np.minimum(e, edges[i + 1]) - np.maximum(s, edges[i])
        sums[i] = rate @ np.maximum(inside, 0.0)
    return sums


def _covered(start: Floats, end: Floats, edges: Floats) -> Floats:
    """Return the share of each part covered by any of the times, which begin in order."""
    until = np.concatenate([[0.0], np.maximum.accumulate(end)[:-1]])
    begin = np.maximum(start, until)
    return _spread(begin, np.maximum(end, begin), np.maximum(end - begin, 0.0), edges) / np.diff(edges)


def _measured(telemetry: pl.DataFrame, first: int, edges: Floats) -> pl.Series:
    """Return the mean reading of each part, summed over devices; one field of the log."""
    readings = telemetry.filter(pl.col("power_w").is_not_null())
    field = readings["field"].drop_nulls().unique(maintain_order=True)
    if len(field):
        readings = readings.filter(pl.col("field") == field[0])
    part = np.searchsorted(edges, (readings["time_ns"] - first).cast(pl.Float64).to_numpy(), side="right") - 1
    means = (
        readings.select("device", "power_w")
        .with_columns(pl.Series("part", part, dtype=pl.Int64))
        .group_by("part", "device")
        .agg(pl.col("power_w").mean())
        .group_by("part")
        .agg(pl.col("power_w").sum())
    )
    places = pl.DataFrame({"part": np.arange(len(edges) - 1)}, schema={"part": pl.Int64})
    return places.join(means, on="part", how="left", maintain_order="left")["power_w"].alias("measured_w")
