"""How long what a log measured took by itself, where activities of one GPU overlap.

Attribution divides each moment equally among the activities that run in it; times of kernels and copies are
sums of their durations, in which a moment counts once for each.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import polars as pl

from tracetool.measure.timeline import build_timeline
from tracetool.tables.run import Run
from tracetool.tables.windows import Window, parts_of

_NS: Final = 1e-9


def with_own_time(run: Run, energy: pl.DataFrame) -> pl.DataFrame:
    """Return the ``energy`` table of a run with durations in which what overlaps is not divided.

    Parameters
    ----------
    run : Run
        The run.
    energy : DataFrame
        Its ``energy`` table; of a run whose activities never overlap it is returned as it is.

    Notes
    -----
    Of a class that the log covers in part, the part keeps its ratio: as much of it overlaps as of the whole.
    """
    ratios = _own_over_shared(run)
    if ratios is None:
        return energy
    rows = energy.join(ratios, on=["signature", "device"], how="left", maintain_order="left")
    own = (pl.col("duration_ns") * pl.col("own_over_shared").fill_null(1.0)).round().cast(pl.Int64)
    return rows.with_columns(own.alias("duration_ns")).drop("own_over_shared")


def _own_over_shared(run: Run) -> pl.DataFrame | None:
    """Return the time of each signature on each device over its share of it [1]; None where none overlap."""
    key = ("own over shared time",)
    if key not in run.memo:
        parts = [_times(part) for part in parts_of(run)]
        run.memo[key] = None
        if any(overlapping for overlapping, _ in parts):
            of_all = (
                pl.concat(times for _, times in parts)
                .group_by("signature", "device", maintain_order=True)
                .sum()
            )
            run.memo[key] = of_all.filter(pl.col("shared_s") > 0).select(
                pl.col("signature").cast(pl.Int64),
                pl.col("device").cast(pl.Int32),
                (pl.col("own_s") / pl.col("shared_s")).alias("own_over_shared"),
            )
    return cast("pl.DataFrame | None", run.memo[key])


def _times(part: Run) -> tuple[bool, pl.DataFrame]:
    """Return whether activities overlap, and ``own_s`` and ``shared_s`` of each signature and device. [s]"""
    spans = part.kernels.select("device", "start_ns", "duration_ns").sort("device", "start_ns")
    until_ns = (pl.col("start_ns") + pl.col("duration_ns")).cum_max().shift().over("device")
    overlapping = bool(spans.select((pl.col("start_ns") < until_ns).any()).item())
    if not (overlapping or isinstance(part, Window)):
        return False, pl.DataFrame()
    columns = ["signature", "device", "start_ns", "duration_ns"]
    kernels = part.launches(columns) if isinstance(part, Window) else part.kernels.select(columns)
    frames = []
    for (device,), rows in kernels.group_by("device", maintain_order=True):
        start_ns, duration_ns = (rows[c].to_numpy() for c in columns[2:])
        start_s = (start_ns - start_ns.min()) * _NS
        end_s = start_s + duration_ns * _NS
        signature, label = np.unique(rows["signature"].to_numpy(), return_inverse=True)
        share = build_timeline(start_s, end_s, label, len(signature)).share
        sums = [
            np.bincount(label, s, len(signature)) for s in (end_s - start_s, share(end_s) - share(start_s))
        ]
        frames.append(pl.DataFrame({"signature": signature, "own_s": sums[0], "shared_s": sums[1]}))
        frames[-1] = frames[-1].with_columns(pl.lit(device, pl.Int32).alias("device"))
    return overlapping, pl.concat(frames)
