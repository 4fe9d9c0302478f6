"""A run's predictions as a table: one row per signature and clock, which add up to the run's totals."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.replay.coverage import predicted_from
from tracetool.replay.prediction_frame import prediction_frame
from tracetool.replay.replays import RunReplay
from tracetool.replay.totals import RunTotals


def signature_frame(signatures: pl.DataFrame, replays: RunReplay, totals: RunTotals) -> pl.DataFrame:
    """Return one row per signature and clock; time, energy and power are means over the launches that run.

    Parameters
    ----------
    signatures : DataFrame, s rows
        The run's signatures with their ``family``.
    replays : RunReplay
        The replay, its rows and what the model says of them.
    totals : RunTotals
        What each signature takes and costs there, at each clock.
    """
    rows, predicted = replays.rows, replays.predicted
    c = len(predicted.requested_mhz)
    own = signatures.select(
        "signature",
        "family",
        "kind",
        "name",
        pl.Series("launches", replays.launches.astype(np.int64)),
        (pl.col("duration_ns") / pl.col("launches").clip(1) / 1e3).alias("measured_duration_us"),
        pl.Series("inferred", rows.text("inferred").astype(str)),
        pl.Series("predicted_from", predicted_from(rows).astype(str)),
    )
    repeated = own[np.repeat(np.arange(own.height), c)]
    frame = pl.concat([repeated, prediction_frame(predicted)], how="horizontal")
    return _in_the_run(frame, replays.launches, totals)


def _in_the_run(frame: pl.DataFrame, launches: Floats, totals: RunTotals) -> pl.DataFrame:
    """Put what the launches take and cost in the replayed run in place of what one takes alone.

    Where activities overlap they share base power, and a cap may slow them together.
    """
    count = launches[:, None]
    each_s, each_j = (
        np.divide(sums, count, out=np.full(sums.shape, np.nan), where=count > 0).ravel()
        for sums in (totals.time_s, totals.energy_j)
    )
    placed = frame.with_columns(
        pl.Series("_longer", each_s * 1e6).fill_nan(None) / pl.col("duration_us"),
        pl.Series("_dearer", each_j * 1e3).fill_nan(None) / pl.col("energy_mj"),
    ).with_columns(
        pl.when(pl.col(c).is_finite()).then(pl.col(c)).otherwise(1.0) for c in ("_longer", "_dearer")
    )
    stronger = pl.when(pl.col("_longer") > 0).then(pl.col("_dearer") / pl.col("_longer")).otherwise(1.0)
    scaled = {"duration{}_us": pl.col("_longer"), "energy{}_mj": pl.col("_dearer"), "power{}_w": stronger}
    return placed.with_columns(
        pl.col(name.format(end)) * factor for name, factor in scaled.items() for end in ("", "_low", "_high")
    ).drop("_longer", "_dearer")
