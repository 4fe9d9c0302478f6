"""Predicted against measured in one run; waits of collectives for other ranks are no errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetool.compare.accuracy import (
    SHAPES,
    Accuracy,
    accuracy_table,
    breaches,
    compare_signatures,
    measured_by_signature,
)
from tracetool.compare.accuracy_sums import grouped_rows, with_errors
from tracetool.compare.idle_groups import GAP_KEY, idle_accuracy, idle_groups
from tracetool.compare.thresholds import Threshold
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.families import names
from tracetool.measure.measured_scopes import idle_watts, measured_scopes
from tracetool.measure.own_time import with_own_time
from tracetool.replay.groups import activity_groups
from tracetool.tables.measured_work import COMPARED, with_errors_of_work, work_by_signature, work_notes
from tracetool.tables.run import Run
from tracetool.tables.windows import refuse_large

if TYPE_CHECKING:
    from tracetool.measure.attribution import Attribution
    from tracetool.replay.prepared_replay import RunReplay


def without_waits(rows: pl.DataFrame, replays: RunReplay | None) -> tuple[pl.DataFrame, list[str]]:
    """Return signature rows whose errors of time are those of the transfer, and notes on the waits.

    Parameters
    ----------
    rows : DataFrame
        As :func:`tracetool.compare.accuracy.compare_signatures` returns.
    replays : RunReplay, optional
        The run's timeline: which collectives met others, and when the last of each meeting had come.

    Returns
    -------
    rows : DataFrame
        With ``waiting_ms``, null where no collective of the signature met others. Collectives that met
        none hold an unknown wait: they are not compared.
    notes : list of str
        How long collectives waited, and how much of the time cannot be split.
    """
    if replays is None or not replays.collective.any():
        return rows, []
    work, met, count = replays.work, replays.met, len(replays.rows)
    wait_ns = met.arrived_ns - work.start_ns[met.member]
    waited = np.bincount(work.signature[met.member], weights=wait_ns, minlength=count)
    meeting = np.bincount(work.signature[met.member], minlength=count)
    launched = np.maximum(np.bincount(work.signature, minlength=count), 1)
    collective = np.asarray(replays.rows.family == names.COLLECTIVE)
    waits = pl.DataFrame(
        {
            "signature": np.arange(count),
            "wait_each_ms": waited / launched * 1e-6,
            "met": meeting > 0,
            "unsplit": collective & (meeting < launched),
        }
    )
    joined = rows.drop("waiting_ms").join(waits, on="signature", how="left", maintain_order="left")
    joined = joined.with_columns(
        pl.when("met").then(pl.col("wait_each_ms") * pl.col("launches")).alias("waiting_ms"),
        (pl.col("compared") & ~pl.col("unsplit")).alias("compared"),
    )
    return with_errors(joined.drop("wait_each_ms", "met", "unsplit")), _notes(joined)


def _notes(rows: pl.DataFrame) -> list[str]:
    notes = []
    split = rows.filter(pl.col("met") & ~pl.col("unsplit"))
    if split.height:
        waiting, total_ms = float(split["waiting_ms"].sum()), float(split["time_ms"].sum())
        notes.append(
            f"collectives: {waiting:.4g} ms waiting for other ranks, {total_ms - waiting:.4g} ms transfer;"
            " the errors of time compare the transfer"
        )
    lone = rows.filter("unsplit")
    if lone.height:
        sized = lone.filter(pl.col("predicted_from") == SHAPES)
        whole_ms, transfer_ms = float(lone["time_ms"].sum()), float(sized["time_predicted_ms"].sum())
        predicted = f", {transfer_ms:.4g} ms transfer predicted" if sized.height == lone.height else ""
        notes.append(
            f"collectives without their other ranks: {whole_ms:.4g} ms measured{predicted};"
            " one rank cannot show what of it is waiting: not compared (ingest the ranks together)"
        )
    return notes


if TYPE_CHECKING:
    from tracetool.replay.predict import PredictedRun


def diff_run(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    clock_mhz: float | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    thresholds: Sequence[Threshold] = (),
    by: Sequence[str] = (),
    depth: int | None = None,
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
    by : sequence of str
        Keys of :mod:`tracetool.replay.groups` to compare by too.
    depth : int, optional
        Levels of nested modules kept apart.

    Raises
    ------
    BadInput
        If the run holds no kernels, the GPU is not known, or a threshold cannot be judged.
    """
    from tracetool.replay.predict import predict_run

    opened = run if isinstance(run, Run) else Run.open(run)
    if not opened.signatures.filter(pl.col("kind") == "kernel").height:
        raise BadInput.in_file(opened.path, "holds no kernels to compare", "ingest a trace with GPU activity")
    if by:
        refuse_large(opened, f"groups by {','.join(by)}", "leave out --by")
    predicted = predict_run(opened, gpu, None if clock_mhz is None else [clock_mhz], anchor=False)
    group = activity_groups(opened, by, depth) if by else None
    return accuracy_of(
        opened,
        predicted,
        gpu=gpu,
        power=power,
        tz=tz,
        thresholds=thresholds,
        group=group,
        by=tuple(by),
        depth=depth,
    )


def accuracy_of(
    run: Run,
    predicted: PredictedRun,
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    thresholds: Sequence[Threshold] = (),
    group: pl.Series | None = None,
    by: tuple[str, ...] = (),
    depth: int | None = None,
) -> Accuracy:
    """Compare a prediction at one clock, not anchored on the run's times, with what the run measured.

    ``group`` is the group of each activity by the keys ``by``, shape (n,): its rows are output too.
    """
    attribution, energy_notes, warnings = measured_energy(run, gpu=gpu, power=power, tz=tz)
    measured = None if attribution is None else attribution.energy
    sums = None if attribution is None else attribution.sums
    own = None if measured is None else with_own_time(run, measured)
    rows = compare_signatures(run.signatures, predicted.signatures, own)
    rows, waits = without_waits(rows, predicted.replays)
    rows, work = with_counted_work(rows, run, predicted.signatures)
    groups = None if group is None else grouped_rows(rows, run.kernels["signature"], group, sums)
    half_shares = None if attribution is None else attribution.half_shares
    covered = None if attribution is None else attribution.covered
    scopes = measured_scopes(run, measured, sums, half_shares, covered)
    scope_rows = _scopes(predicted.totals[0], scopes)
    if groups is not None and GAP_KEY in by:
        watts = None if measured is None else idle_watts(measured)
        shares = idle_groups(run, by, depth, None if watts is None else (watts[0][0], watts[1][0]))
        idle = idle_accuracy(shares, scope_rows)
        groups = groups if idle is None else pl.concat([groups, idle], how="diagonal_relaxed")
    table = accuracy_table(rows, scope_rows, groups, sums)
    return Accuracy(
        run=str(run.path),
        gpu=predicted.gpu,
        clock_mhz=float(predicted.totals[0]["clock_mhz"]),
        table=table,
        breaches=breaches(table, thresholds),
        notes=(*predicted.notes, *waits, *work, *energy_notes),
        warnings=tuple(warnings),
        coverage=predicted.info.get("coverage", {}),
        whole=scopes.get("run", {}),
        by=by,
        by_signature=measured_by_signature(own),
    )


def with_counted_work(
    rows: pl.DataFrame, run: Run, predicted: pl.DataFrame
) -> tuple[pl.DataFrame, list[str]]:
    """Return signature rows with the work of one launch, counted and modeled, and its error."""
    counted = work_by_signature(run)
    if not counted.height:
        return rows, []
    modeled = predicted.select(
        pl.col("signature").cast(pl.Int64), *(pl.col(c).alias(f"{c}_predicted") for _, c, *_ in COMPARED)
    )
    joined = rows.join(counted, on="signature", how="left", maintain_order="left")
    joined = joined.join(modeled, on="signature", how="left", maintain_order="left")
    joined = with_errors_of_work(joined, "_predicted")
    return joined.rename({measured: c for _, c, measured, _ in COMPARED}), work_notes(joined)


def measured_energy(
    run: Run, *, gpu: str | None = None, power: Sequence[Path] = (), tz: str | None = None
) -> tuple[Attribution | None, list[str], list[str]]:
    """Return the attribution of a run, None where there can be none; notes and warnings."""
    from tracetool.replay.measured_energy import attribute_or_note

    attribution, why_not = attribute_or_note(run, gpu=gpu, power=power, tz=tz)
    if attribution is None:
        return None, [], why_not
    verdicts = attribution.notes[: bool(attribution.verdict)]
    notes = list(attribution.notes[len(verdicts) :])
    if attribution.energy["energy_j"].is_not_null().any():
        return attribution, notes, list(verdicts)
    return None, notes, ["no kernel's energy is identifiable from the power log; energies are predicted only"]


def _scopes(total: Mapping[str, Any], scopes: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """Return the run's kernels, copies and, where a log determines them, gaps: measured beside predicted."""
    rows = []
    for level, stem, name in (("kernels", "kernel_", "(all kernels)"), ("copies", "copy_", "(copies)")):
        if level in scopes:
            figures = _predicted_figures(
                total, f"{stem}time{{}}_ms", f"{stem}energy{{}}_j", f"{stem}power{{}}_w"
            )
            rows.append({"level": level, "name": name, **figures, **scopes[level]})
    if "gaps" in scopes:
        figures = _predicted_figures(total, "gap{}_ms", "gap_energy{}_j", "idle_power{}_w")
        rows.append({"level": "gap", "name": "(gap)", **figures, **scopes["gaps"]})
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.lit("not compared").alias("agrees"))


def _predicted_figures(total: Mapping[str, Any], time: str, energy: str, power: str) -> dict[str, Any]:
    """Return a scope's predicted time, energy and power with their intervals."""
    return {
        f"{what}_predicted{end}_{unit}": total[key.format(end)]
        for what, unit, key in (("time", "ms", time), ("energy", "j", energy), ("power", "w", power))
        for end in ENDS
    }
