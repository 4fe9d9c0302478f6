"""The clock that suits each family of kernels: compute wants it high, memory and idle time do not."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.replay.operating_points import least
from tracetool.replay.predict import PredictedRun, PredictedTable

_SUMS = ("duration_us", "energy_mj", "energy_low_mj", "energy_high_mj")


def family_choices(
    prediction: PredictedTable | PredictedRun, reference_mhz: float, slowdown: float, common: float
) -> pl.DataFrame:
    """Return the clock of least energy of every family, alone and within a slowdown.

    Parameters
    ----------
    prediction : PredictedTable or PredictedRun
        Predictions at every clock.
    reference_mhz : float
        The clock that gains are stated against, one of those predicted. [MHz]
    slowdown : float
        How much longer the family's kernels may take than at that clock. [1]
    common : float
        Share of the variance two clocks have in common, see :func:`tracetool.replay.sweep.best_points`.

    Returns
    -------
    DataFrame, one row per family (attention by phase), highest energy first
        ``family``, ``share`` of the energy of the run, gaps included, at that clock, ``best_clock_mhz``,
        ``energy_saved`` with its interval, ``slowdown`` there; ``within_clock_mhz``,
        ``within_saved``. Gaps belong to no family.
    """
    sums = _family_sums(prediction)
    if not sums.height:
        return pl.DataFrame()
    rows = []
    for name in sums["family"].unique(maintain_order=True).to_list():
        family_rows = sums.filter(pl.col("family") == name).sort("clock_mhz")
        time, energy = family_rows["duration_us"].to_numpy(), family_rows["energy_mj"].to_numpy()
        at = int(np.argmin(np.abs(family_rows["clock_mhz"].to_numpy() - reference_mhz)))
        if energy[at] <= 0:
            continue
        half = (
            (family_rows["energy_high_mj"] - family_rows["energy_low_mj"]).to_numpy()
            / 2.0
            / np.maximum(energy, 1e-300)
        )
        best = least(energy, time)
        allowed = time <= time[at] * (1.0 + slowdown + 1e-9)
        within = least(np.where(allowed, energy, np.inf), time)
        ratio = energy[best] / energy[at]
        spread = half[best] ** 2 + half[at] ** 2 - 2.0 * common * half[best] * half[at]
        width = 0.0 if best == at else ratio * np.sqrt(max(spread, 0.0))
        rows.append(
            {
                "family": name,
                "energy_mj": float(energy[at]),
                "best_clock_mhz": float(family_rows["clock_mhz"][best]),
                "energy_saved": float(1.0 - ratio),
                "energy_saved_low": float(1.0 - ratio - width),
                "energy_saved_high": float(1.0 - ratio + width),
                "slowdown": float(time[best] / time[at] - 1.0) if time[at] > 0 else 0.0,
                "within_clock_mhz": float(family_rows["clock_mhz"][within]),
                "within_saved": float(1.0 - energy[within] / energy[at]),
            }
        )
    choices = pl.DataFrame(rows).sort("energy_mj", descending=True)
    clocks = np.array([total["clock_mhz"] for total in prediction.totals])
    run_j = prediction.totals[int(np.argmin(np.abs(clocks - reference_mhz)))]["energy_j"]
    share = (1e-3 * pl.col("energy_mj") / run_j).alias("share")
    return (
        choices.with_columns(share).drop("energy_mj").select("family", "share", pl.exclude("family", "share"))
    )


def _family_sums(prediction: PredictedTable | PredictedRun) -> pl.DataFrame:
    """Time and energy of each family at each clock."""
    if isinstance(prediction, PredictedRun):
        frame, weight = prediction.signatures, pl.col("launches")
    else:
        frame = prediction.frame
        weight = pl.col("count").fill_null(1) if "count" in frame.columns else pl.lit(1)
        if "op" in frame.columns:
            label = pl.col("op").str.to_lowercase()
            if "phase" in frame.columns:
                label = (
                    pl.when(pl.col("phase").is_not_null())
                    .then(pl.format("{} ({})", label, pl.col("phase")))
                    .otherwise(label)
                )
            frame = frame.with_columns(label.alias("family"))
        elif "family" not in frame.columns:
            frame = frame.with_columns(pl.col("kernel").alias("family"))
    return frame.group_by("family", "clock_mhz", maintain_order=True).agg(
        (pl.col(c) * weight).sum() for c in _SUMS
    )
