"""Where the predicted energy goes."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.replay.breakdown import breakdown
from tracetool.replay.predict import PredictedRun, PredictedTable
from tracetool.report.pictures.charts import Chart
from tracetool.report.pictures.measured import energy_bars

_MOST: Final = 25
_ENDS: Final = ("energy_j", "energy_low_j", "energy_high_j")


def predicted_bars(predicted: PredictedRun | PredictedTable) -> Chart:
    """Return the energy of each family of a run, or of each row of a table, at the first clock asked for."""
    clock = float(predicted.totals[0]["clock_mhz"])
    if isinstance(predicted, PredictedRun):
        rows = breakdown(predicted, "family").rename({"family": "label"})
    else:
        label = next((c for c in ("name", "op", "operator") if c in predicted.frame.columns), None)
        named = pl.lit("row") if label is None else pl.col(label).cast(pl.String).fill_null("row")
        rows = predicted.frame.with_columns(
            named.alias("label"), *((pl.col(c.replace("_j", "_mj")) / 1e3).alias(c) for c in _ENDS)
        )
    rows = rows.filter((pl.col("clock_mhz") - clock).abs() < 0.5, pl.col("energy_j") > 0)
    rows = rows.sort("energy_j", descending=True).head(_MOST)
    missing = [pl.lit(None, pl.Float64).alias(c) for c in _ENDS if c not in rows.columns]  # sums have no ends
    rows = rows.with_columns(missing)
    energy, low, high = (rows[c].fill_null(np.nan).to_numpy() for c in _ENDS)
    title = f"Predicted energy on {predicted.gpu} at {clock:g} MHz"
    return energy_bars(rows["label"].to_list(), energy, low, high, title=title)
