"""Predictions as a table: one row per piece of work and clock, behind the columns of the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import ENDS
from tracetool.core.operators import distinct_texts
from tracetool.core.prediction import BOUNDS, UNITS, Prediction
from tracetool.replay.coverage import predicted_from
from tracetool.replay.operator_tables import InputTable
from tracetool.replay.prepared_replay import RunReplay
from tracetool.replay.totals import RunTotals
from tracetool.tables.schema import load_schema

#: Columns of a kernel table that the prediction's own columns replace, and the names they keep.
_KEPT_AS: Final = {
    "clock_mhz": "recorded_clock_mhz",
    "duration_us": "measured_duration_us",
    "power_w": "measured_power_w",
}
_BYTES: Final = ("shared_bytes", "l2_bytes", "dram_bytes", "link_bytes")


def prediction_frame(predicted: Prediction) -> pl.DataFrame:
    """Return a prediction as the ``predictions`` table, row by row and within a row clock by clock."""
    timing, work = predicted.timing, predicted.timing.work
    n, c = timing.duration_s.shape
    duration = timing.duration_s
    per_row = {"flops": work.useful_flops, **{k: getattr(work, k) for k in _BYTES}}
    columns: dict[str, Any] = {
        "clock_mhz": np.tile(predicted.requested_mhz, n),
        "clock_actual_mhz": predicted.clock_mhz.ravel(),
        "duration_us": (duration * 1e6).ravel(),
        "duration_low_us": (duration * timing.low * 1e6).ravel(),
        "duration_high_us": (duration * timing.high * 1e6).ravel(),
        "power_w": predicted.power_w.ravel(),
        "power_low_w": predicted.power_low_w.ravel(),
        "power_high_w": predicted.power_high_w.ravel(),
        "energy_mj": (predicted.energy_j * 1e3).ravel(),
        "energy_low_mj": (predicted.energy_low_j * 1e3).ravel(),
        "energy_high_mj": (predicted.energy_high_j * 1e3).ravel(),
    }
    safe = np.where(duration > 0, duration, 1.0)
    for unit in UNITS:
        busy = timing.busy_s.get(unit)
        columns[f"util_{unit}"] = np.zeros(n * c) if busy is None else np.clip(busy / safe, 0.0, 1.0).ravel()
    columns["util_sm_active"] = np.clip(timing.sm_active, 0.0, 1.0).ravel()
    for name, values in per_row.items():
        columns[name] = np.repeat(values, c)
    columns["bound"] = _texts(BOUNDS, timing.bound.ravel())
    columns["throttled"] = predicted.throttled.ravel()
    columns["throttled_share"] = predicted.throttled_share.ravel()
    basis, place = distinct_texts(timing.basis)
    columns["basis"] = _texts(basis, np.repeat(place, c))
    return load_schema("predictions").conform(pl.DataFrame(columns))


def _texts(texts: Sequence[str], place: Ints) -> pl.Series:
    """Return a column of few texts; an array of numpy would reserve the longest's length in every cell."""
    return pl.Series(texts, dtype=pl.String).gather(place)


def with_inputs(table: InputTable, predictions: pl.DataFrame) -> pl.DataFrame:
    """Put the predictions of each row behind its input columns; input names that clash are renamed."""
    c = predictions.height // max(1, len(table.rows))
    predicted_columns = set(predictions.columns)
    used_names = set(table.frame.columns) | predicted_columns
    names = {}
    for column in table.frame.columns:
        if column in predicted_columns:
            new_name = (
                _KEPT_AS.get(column, f"input_{column}") if table.kind == "kernels" else f"input_{column}"
            )
            while new_name in used_names:
                new_name = f"input_{new_name}"
            used_names.add(new_name)
            names[column] = new_name
    inputs = table.frame.rename(names)
    if c == 1:
        return pl.concat([inputs, predictions[table.index]], how="horizontal")
    repeated = inputs[np.repeat(np.arange(inputs.height), c)]
    if not np.array_equal(table.index, np.arange(len(table.rows))):  # rows alike were predicted once
        predictions = predictions[(table.index[:, None] * c + np.arange(c)).ravel()]
    return pl.concat([repeated, predictions], how="horizontal")


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
    of_signatures = signatures.select(
        "signature",
        "family",
        "kind",
        "name",
        pl.Series("launches", replays.launches.astype(np.int64)),
        (pl.col("duration_ns") / pl.col("launches").clip(1) / 1e3).alias("measured_duration_us"),
        pl.Series("inferred", rows.text("inferred").astype(str)),
        pl.Series("predicted_from", predicted_from(rows).astype(str)),
    )
    repeated = of_signatures[np.repeat(np.arange(of_signatures.height), c)]
    frame = pl.concat([repeated, prediction_frame(predicted)], how="horizontal")
    return _in_the_run(frame, replays.launches, totals)


def _in_the_run(frame: pl.DataFrame, launches: Floats, totals: RunTotals) -> pl.DataFrame:
    """Replace time and energy of a launch alone by those of the launches in the replayed run.

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
        pl.col(name.format(end)) * factor for name, factor in scaled.items() for end in ENDS
    ).drop("_longer", "_dearer")
