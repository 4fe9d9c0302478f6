"""The predicted power of a run over time, as a table and in figures, with the log's readings beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.replay.power import PowerCurve
from tracetool.replay.power_swing import swing_record
from tracetool.replay.predict import PredictedRun, PredictedTable
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Steps of the table at most, of each GPU and clock.
_MOST: Final = 20_000
#: A replayed timeline this close to the recorded one has the log's readings beside it. [1]
_AS_RECORDED: Final = 0.01
#: What is said with every figure.
SENSOR_NOTE: Final = (
    "power over time is the power drawn, averaged over the stated windows alone: no sensor's averaging is in "
    "it, and readings beside it hold theirs"
)


@dataclass(frozen=True)
class PowerOverTime:
    """Power over time at every clock.

    Parameters
    ----------
    frame : DataFrame
        The ``power_over_time`` table.
    records : list of dict
        Per clock what :func:`tracetool.replay.power_swing.swing_record` returns, behind ``clock_mhz``, of all
        GPUs together, and of each in ``devices``.
    """

    frame: pl.DataFrame
    records: list[dict[str, Any]]


def power_over_time(prediction: PredictedRun | PredictedTable, at: int | None = None) -> PowerOverTime:
    """Return the power of a predicted run over time.

    Parameters
    ----------
    prediction : PredictedRun
        From :func:`tracetool.replay.predict.predict`.
    at : int, optional
        One of its clocks; by default all.

    Raises
    ------
    BadInput
        If the prediction holds no timeline.
    """
    replays = prediction.replays if isinstance(prediction, PredictedRun) else None
    if replays is None or isinstance(prediction, PredictedTable):
        raise BadInput("--power-over-time is of a run's timeline; a table has none", "give a run")
    frames, records = [], []
    for j, total in enumerate(prediction.totals):
        if at is not None and j != at:
            continue
        curves = replays.curves(j)
        recorded_ms = float(prediction.info.get("recorded_makespan_ms", 0.0))
        near = abs(total["makespan_ms"] - recorded_ms) <= _AS_RECORDED * recorded_ms
        log = _readings(replays.run, replays.work.origin_ns) if near else {}
        factors = [total[f"mean_power{end}_w"] / total["mean_power_w"] for end in ("_low", "_high")]
        record = {"clock_mhz": total["clock_mhz"], **swing_record(curves, *factors)}
        if len(curves) > 1:
            record["devices"] = [{"device": d, **swing_record({d: c}, *factors)} for d, c in curves.items()]
        records.append(record)
        frames += [_steps(d, c, total["clock_mhz"], log.get(d)) for d, c in curves.items()]
    return PowerOverTime(load_schema("power_over_time").conform(pl.concat(frames)), records)


def _steps(
    device: int, curve: PowerCurve, clock_mhz: float, log: tuple[Floats, Floats] | None
) -> pl.DataFrame:
    """Return one GPU's power step by step; steps are at least a millisecond."""
    first, last = curve.edge_ns[0], curve.edge_ns[-1]
    step = _round_step(max(1e6, (last - first) / _MOST))
    count = max(int(np.ceil((last - first) / step - 1e-9)), 1)
    edges = np.minimum(first + step * np.arange(count + 1), last)
    long_enough = np.maximum(np.diff(edges), 1e-3)
    mean = np.diff(curve.energy_until(edges, 0.0)) / (long_enough * 1e-9)
    begins = np.clip(np.searchsorted(curve.edge_ns, edges[:-1], side="right") - 1, 0, len(curve.power_w) - 1)
    highest = np.maximum.reduceat(curve.power_w, begins)
    measured = np.full(count, np.nan)
    if log is not None:
        place = np.floor((log[0] - first) / step).astype(np.int64)
        inside = (place >= 0) & (place < count)
        sums = np.bincount(place[inside], log[1][inside], minlength=count)
        number = np.bincount(place[inside], minlength=count)
        measured = np.divide(sums, number, out=measured, where=number > 0)
    return pl.DataFrame(
        {
            "clock_mhz": np.full(count, float(clock_mhz)),
            "device": np.full(count, device, np.int32),
            "time_ms": (edges[:-1] - first) * 1e-6,
            "step_ms": long_enough * 1e-6,
            "power_w": mean,
            "highest_w": np.maximum(highest, mean),
            "measured_w": measured,
        }
    ).with_columns(pl.col("measured_w").fill_nan(None))


def _round_step(at_least: float) -> float:
    """Return the next of 1, 2, 5, 10, ... milliseconds. [ns]"""
    decade = 10.0 ** np.floor(np.log10(at_least))
    return float(next(m * decade for m in (1.0, 2.0, 5.0, 10.0) if m * decade >= at_least * (1 - 1e-9)))


def _readings(run: Run, origin_ns: int) -> Mapping[int, tuple[Floats, Floats]]:
    """Return times from the first activity and power readings of each GPU, one field of the log."""
    rows = run.telemetry.filter(pl.col("power_w").is_not_null()).sort("time_ns")
    field = rows["field"].drop_nulls().unique(maintain_order=True)
    if len(field):
        instant = [f for f in field if "instant" in f]
        rows = rows.filter(pl.col("field") == (instant or field.to_list())[0])
    return {
        int(device): (
            (device_rows["time_ns"] - origin_ns).cast(pl.Float64).to_numpy(),
            device_rows["power_w"].to_numpy(),
        )
        for (device,), device_rows in rows.group_by("device", maintain_order=True)
    }
