"""Predicted against measured in one run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.compare.accuracy import Accuracy, accuracy_table, breaches, compare_signatures
from tracetool.compare.thresholds import Threshold
from tracetool.tables.run import Run
from tracetool.vocabulary.errors import BadInput

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
    rows, untimed = _without_circles(rows, predicted.signatures)
    table = accuracy_table(rows, _gaps(measured))
    if measured is None and not warnings:
        warnings.append("no power readings: energy and power are predicted only, times are compared")
    return Accuracy(
        run=str(run.path),
        gpu=predicted.gpu,
        clock_mhz=float(predicted.totals[0]["clock_mhz"]),
        table=table,
        breaches=breaches(table, thresholds),
        notes=(*predicted.notes, *untimed, *said),
        warnings=tuple(warnings),
    )


def _without_circles(rows: pl.DataFrame, predicted: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Take out the time errors of kernels whose sizes their own measured time had to tell; say so."""
    told = predicted.filter(pl.col("inferred") != "")["signature"]
    circle = pl.col("signature").is_in(told.cast(pl.Int64).implode()) & pl.col("time_error_pct").is_not_null()
    ours = rows.filter(circle)
    if not ours.height:
        return rows, []
    share = 100.0 * float(ours["time_ms"].sum()) / float(rows["time_ms"].sum())
    kept = pl.when(~circle).then("time_error_pct").alias("time_error_pct")
    said = (
        f"{ours.height} signatures ({share:.0f} % of the kernels' time) are left out of the errors of time: "
        "a size the trace does not state was inferred from that very time"
    )
    return rows.with_columns(kept), [said]


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


def _gaps(measured: pl.DataFrame | None) -> pl.DataFrame | None:
    if measured is None:
        return None
    rows = measured.filter(pl.col("class") == "(gap)")
    if not rows.height:
        return None
    sums: dict[str, Any] = {c: rows[c].sum() for c in ("energy_j", "energy_low_j", "energy_high_j")}
    seconds = float(rows["duration_ns"].sum()) / 1e9
    return pl.DataFrame(
        {
            "level": ["gap"],
            "name": ["(gap)"],
            "launches": [int(rows["launches"].sum())],
            "time_ms": [seconds * 1e3],
            **{k: [v] for k, v in sums.items()},
            **{
                f"power{e}_w": [sums[f"energy{e}_j"] / seconds if seconds else None]
                for e in ("", "_low", "_high")
            },
            "agrees": ["not predicted"],
        }
    )
