"""Predicted against measured in one run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetool.compare.accuracy import Accuracy, accuracy_table, breaches, compare_signatures
from tracetool.compare.accuracy_sums import ENDS
from tracetool.compare.thresholds import Threshold
from tracetool.measure.timeline import GAP_HOLD_S
from tracetool.report.run_tables import idle_intervals
from tracetool.tables.run import Run
from tracetool.vocabulary.errors import BadInput
from tracetool.workflows.collective_waits import without_waits

if TYPE_CHECKING:
    from tracetool.workflows.predict import PredictedRun


def diff_run(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    clock_mhz: float | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    thresholds: Sequence[Threshold] = (),
) -> Accuracy:
    """Compare the model's prediction with what a run measured.

    Parameters
    ----------
    run : Run or path
        The run. Times are always measured; energies where it holds power readings.
    gpu : str, optional
        Name of the GPU; by default the one the run recorded.
    clock_mhz : float, optional
        Core clock of the run; by default the recorded one, else the GPU's boost clock. [MHz]
    power : sequence of path, optional
        Power logs to use beside those of the run.
    tz : str, optional
        Zone of those logs, ``+HH:MM``.
    thresholds : sequence of Threshold
        Limits to judge by.

    Raises
    ------
    BadInput
        If the run holds no kernels, the GPU is not known, or a threshold cannot be judged.
    """
    from tracetool.workflows.predict import predict_run

    opened = run if isinstance(run, Run) else Run.open(run)
    if not opened.signatures.filter(pl.col("kind") == "kernel").height:
        raise BadInput.in_file(opened.path, "holds no kernels to compare", "ingest a trace with GPU activity")
    predicted = predict_run(opened, gpu, None if clock_mhz is None else [clock_mhz], anchor=False)
    return accuracy_of(opened, predicted, gpu=gpu, power=power, tz=tz, thresholds=thresholds)


def accuracy_of(
    run: Run,
    predicted: PredictedRun,
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    thresholds: Sequence[Threshold] = (),
) -> Accuracy:
    """Compare a prediction at one clock, not anchored on the run's times, with what the run measured."""
    measured, said, warnings = measured_energy(run, gpu=gpu, power=power, tz=tz)
    rows = compare_signatures(run.signatures, predicted.signatures, measured)
    rows, waits = without_waits(rows, predicted.replays)
    table = accuracy_table(rows, _scopes(run, predicted.totals[0], measured))
    if measured is None and not warnings:
        warnings.append("no power readings: energy and power are predicted only, times are compared")
    return Accuracy(
        run=str(run.path),
        gpu=predicted.gpu,
        clock_mhz=float(predicted.totals[0]["clock_mhz"]),
        table=table,
        breaches=breaches(table, thresholds),
        notes=(*predicted.notes, *waits, *said),
        warnings=tuple(warnings),
        coverage=predicted.info.get("coverage", {}),
    )


def measured_energy(
    run: Run, *, gpu: str | None = None, power: Sequence[Path] = (), tz: str | None = None
) -> tuple[pl.DataFrame | None, list[str], list[str]]:
    """Return the attributed energy of a run, or None where nothing can be attributed; notes and warnings."""
    if not run.telemetry.height and not power:
        return None, [], []
    from tracetool.workflows.attribute import attribute_run

    try:
        found = attribute_run(run, gpu=gpu, power=power, tz=tz)
    except BadInput as error:
        if power:
            raise
        return None, [], [f"energy was not attributed: {error.message}"]
    energy: pl.DataFrame = found.energy
    notes = list(found.notes)
    if energy["energy_j"].is_not_null().any():
        return energy, notes, []
    return None, notes, ["the power log tells no kernel's energy; energies are predicted only"]


def _scopes(run: Run, total: Mapping[str, Any], measured: pl.DataFrame | None) -> pl.DataFrame:
    """Return the run's kernels, copies and, where a log tells them, gaps: measured beside predicted."""
    made = []
    for level, stem, name in (("kernels", "kernel", "(all kernels)"), ("copies", "copy", "(copies)")):
        signatures = run.signatures.filter((pl.col("kind") == "kernel") == (level == "kernels"))
        if not signatures.height:
            continue
        inside = None
        if measured is not None:
            inside = measured.filter(pl.col("signature").is_in(signatures["signature"].implode()))
        whole = {
            "launches": int(signatures["launches"].sum()),
            "time_ms": float(signatures.select(pl.col("duration_ns").sum() / 1e6).item()),
        }
        figures = _predicted_figures(
            total, f"{stem}_time{{}}_ms", f"{stem}_energy{{}}_j", f"{stem}_power{{}}_w"
        )
        made.append({"level": level, "name": name, **whole, **figures, **_metered(inside, whole["time_ms"])})
    gaps = None if measured is None else _metered_gaps(run, measured)
    if gaps is not None:
        figures = _predicted_figures(total, "gap{}_ms", "gap_energy{}_j", "idle_power{}_w")
        made.append({"level": "gap", "name": "(gap)", **figures, **gaps})
    return pl.DataFrame(made, infer_schema_length=None).with_columns(pl.lit("not compared").alias("agrees"))


def _predicted_figures(total: Mapping[str, Any], time: str, energy: str, power: str) -> dict[str, Any]:
    """Return a scope's predicted time, energy and power with their intervals."""
    return {
        f"{what}_predicted{end}_{unit}": total[key.format(end)]
        for what, unit, key in (("time", "ms", time), ("energy", "j", energy), ("power", "w", power))
        for end in ENDS
    }


def _metered(rows: pl.DataFrame | None, time_ms: float) -> dict[str, Any]:
    """Return the measured energy of a scope's activities and the share of its time that was metered."""
    metered = None if rows is None else rows.filter(pl.col("energy_j").is_not_null())
    if metered is None or not metered.height:
        return {"measured_pct": 0.0}
    seconds = float(metered["duration_ns"].sum()) / 1e9
    made: dict[str, Any] = {"measured_pct": 1e5 * seconds / time_ms if time_ms else None}
    for end in ENDS:
        joules = float(metered[f"energy{end}_j"].sum())
        made |= {f"energy{end}_j": joules, f"power{end}_w": joules / seconds if seconds else None}
    return made


def _metered_gaps(run: Run, measured: pl.DataFrame) -> dict[str, Any] | None:
    """Return the measured energy of the gaps inside the run's window; None where the log tells none.

    A log tells the power shortly after an activity and, where there is any, the power later on; time
    after the last activity is in neither scope of the run.
    """
    watts = {name: _watts(measured.filter(pl.col("class") == name)) for name in ("(gap)", "(idle)")}
    near, far = watts["(gap)"], watts["(idle)"] or watts["(gap)"]
    if near is None or far is None:
        return None
    gaps = idle_intervals(run.kernels)
    whole_s = gaps["gap_ns"].to_numpy() * 1e-9
    held_s = np.where(gaps["after"].is_not_null(), np.minimum(whole_s, GAP_HOLD_S), 0.0)
    time, held = float(whole_s.sum()), float(held_s.sum())
    made: dict[str, Any] = {"launches": gaps.height, "time_ms": 1e3 * time, "measured_pct": 100.0}
    for end, one, other in zip(ENDS, near, far, strict=True):
        joules = one * held + other * (time - held)
        made |= {f"energy{end}_j": joules, f"power{end}_w": joules / time if time else None}
    return made


def _watts(rows: pl.DataFrame) -> tuple[float, float, float] | None:
    """Return the mean power of a state with its interval; None where it was not metered. [W]"""
    known = rows.filter(pl.col("energy_j").is_not_null() & (pl.col("duration_ns") > 0))
    if not known.height:
        return None
    seconds = float(known["duration_ns"].sum()) / 1e9
    value, low, high = (float(known[f"energy{end}_j"].sum()) / seconds for end in ENDS)
    return value, low, high
