"""A run, a table or a stored baseline as one side of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.diff_run import measured_energy
from tracetool.compare.idle_groups import GAP_KEY, idle_groups
from tracetool.compare.readings_error import ReadingsError
from tracetool.compare.requested_runs import opened_run
from tracetool.compare.run_options import Basis, RunOptions
from tracetool.compare.sides import GROUP, IDENTITY, RunClasses, count_steps, run_classes
from tracetool.compare.steps import Steps, step_times
from tracetool.compare.table_side import table_classes
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.measure.measured_scopes import idle_watts, measured_gaps
from tracetool.replay.groups import activity_groups
from tracetool.replay.iterations import named_steps
from tracetool.replay.measured_energy import why_unusable
from tracetool.replay.predict import PredictedRun, predict_run
from tracetool.tables.run import Run

_TABLES: Final = (".csv", ".parquet", ".json", ".jsonl", ".ndjson")
#: Columns of a class that add up over runs and classes.
_SUMS: Final = ("launches", "time_s", "energy_j", "energy_low_j", "energy_high_j")
#: What separates signatures of one name in one run, in the name of a group.
_NUMBER: Final = r" #[0-9]+( / |$)"


@dataclass
class LoadedRun:
    """One run of a side as classes of work, with what the comparison needs to know of it."""

    classes: RunClasses
    basis: Basis
    signatures: pl.Series | None  # signature of each row of the classes; None for tables and baselines
    run: Run | None = None
    notes: list[str] = field(default_factory=list)
    clock_recorded: bool = False
    modeled_j: float | None = None  # modeled energy of the run, where its energies are measured

    def groups(self) -> set[str]:
        """Return the names of its groups; none where it is not grouped."""
        of_launches = set(self.classes.classes[GROUP]) if GROUP in self.classes.classes.columns else set()
        idle = set() if self.classes.idle is None else set(self.classes.idle["name"])
        return (of_launches | idle) - {""}


def load_run(
    path: Path, basis: Basis, options: RunOptions, opened: dict[Path, Run] | None = None
) -> LoadedRun:
    """Return a run or table as classes with energies of one basis.

    Parameters
    ----------
    path : path
        A run folder, or an operator table.
    basis : {"measured", "anchored", "predicted"}
        ``measured`` from the power log, ``anchored`` modeled from measured times, ``predicted`` times
        and energies both from the model at one clock.
    options : RunOptions
        GPU and clocks.
    opened : dict of path to Run, optional
        As for :func:`tracetool.compare.requested_runs.chosen_basis`.

    Raises
    ------
    BadInput
        If the run holds no activity, or its GPU is not known.
    """
    if path.is_file():
        return _load_table(path, options)
    run = opened_run(path, opened)
    if not run.kernels.height:
        raise BadInput.in_file(
            path, "holds no activity of a GPU to compare", "ingest a trace with GPU activity"
        )
    as_predicted = basis == "predicted"
    predicted = predict_run(
        run,
        options.gpu,
        [options.clock_mhz] if as_predicted and options.clock_mhz is not None else None,
        mem_clock_mhz=options.mem_clock_mhz,
        power_cap_w=options.power_cap_w,
        anchor=not as_predicted,
    )
    notes = [f"{path.name}: {n}" for n in predicted.notes]
    per_launch = _energy_per_launch(predicted, times=as_predicted)
    gap_s, gap_j, span_s = _gap_totals(predicted, recorded=not as_predicted)
    modeled_j, idle_w = None, None
    if basis == "measured":
        counted = per_launch.join(run.signatures.select("signature", "launches"), on="signature")
        modeled_j = float((counted["each_j"] * counted["launches"]).sum()) + gap_j
        per_launch, gap_j, idle_w, energy_notes = _with_measured_energy(run, options, per_launch, gap_j)
        notes += [f"{path.name}: {n}" for n in energy_notes]
    elif not as_predicted and (verdict := why_unusable(run)):
        notes.append(f"{path.name}: not measured: {verdict}")
    ranges = run.table("ranges")
    group = _groups(run, options)
    classes, sequence = run_classes(run.kernels, run.signatures, ranges, per_launch, group)
    steps = count_steps(ranges)
    clock_mhz = predicted.totals[0]["clock_mhz"]
    if not as_predicted:
        clock_mhz = predicted.info.get("recorded_clock_mhz") or clock_mhz
    classes_of_run = RunClasses(
        label=path.name.removesuffix(".tracetool"),
        classes=classes.select(*IDENTITY, GROUP, "family", "kind", *_SUMS),
        sequence=sequence,
        gap_s=gap_s,
        gap_j=gap_j,
        span_s=span_s,
        steps=steps,
        keys=run_keys(run, predicted, basis),
        clock_mhz=float(clock_mhz),
        steps_taken=_steps(run, classes, group) if steps and not as_predicted else None,
        idle=idle_groups(run, options.by, options.depth, idle_w) if GAP_KEY in options.by else None,
        open_energy=_readings_error(run, options, classes) if basis == "measured" else None,
    )
    return LoadedRun(classes_of_run, basis, classes["signature"], run, notes, _clock_recorded(run), modeled_j)


def _readings_error(run: Run, options: RunOptions, classes: pl.DataFrame) -> ReadingsError | None:
    """Return the errors of the measured energies of a run's classes; None where nothing is measured."""
    attribution, *_ = measured_energy(run, gpu=options.gpu)
    return None if attribution is None else ReadingsError.of(attribution, classes)


def _clock_recorded(run: Run) -> bool:
    return bool(run.telemetry["clock_mhz"].is_not_null().any())


def _load_table(path: Path, options: RunOptions) -> LoadedRun:
    """Return an operator table as classes with predicted energies."""
    if options.by:
        raise BadInput.in_file(path, "--by groups the launches of runs; a table has none", "give two runs")
    if path.suffix.lower() not in _TABLES:
        raise BadInput.in_file(path, "is neither a run nor a table", "ingest a trace first: tracetool ingest")
    classes, notes = table_classes(
        path,
        options.gpu,
        options.clock_mhz,
        mem_clock_mhz=options.mem_clock_mhz,
        power_cap_w=options.power_cap_w,
    )
    return LoadedRun(classes, "predicted", None, None, notes)


def _groups(run: Run, options: RunOptions) -> pl.Series | None:
    """Return the group of each launch; None where none are asked for."""
    if not options.by:
        return None
    group = activity_groups(run, options.by, options.depth)
    if "signature" in options.by:
        # a signature's number is its run's own: across runs those of one name are one group
        return group.str.replace(_NUMBER, "$1")
    return group


def _steps(run: Run, classes: pl.DataFrame, group: pl.Series | None) -> Steps | None:
    """Return the times of the steps of a run, where launches can be placed in its steps."""
    ranges = run.table("ranges")
    number, _ = named_steps(ranges, run.kernels)
    if number is None:
        return None
    return step_times(run.kernels, pl.Series("step", number, dtype=pl.Int64), ranges, classes, group)


def _energy_per_launch(predicted: PredictedRun, *, times: bool) -> pl.DataFrame:
    """Return family, energy and (where asked) time of one launch, per signature."""
    rows = predicted.signatures.unique("signature", keep="first", maintain_order=True)
    return rows.select(
        pl.col("signature").cast(pl.Int64),
        "family",
        *((pl.col(f"energy{e}_mj") / 1e3).alias(f"each{e}_j") for e in ENDS),
        (pl.col("duration_us") / 1e6 if times else pl.lit(None, dtype=pl.Float64)).alias("each_s"),
    )


def _gap_totals(predicted: PredictedRun, *, recorded: bool) -> tuple[float, float, float]:
    """Return time and energy of the gaps, and the span of the run. [s], [J], [s]"""
    total = predicted.totals[0]
    span = float(predicted.info["recorded_makespan_ms"] if recorded else total["makespan_ms"]) / 1e3
    return float(total.get("gap_ms", 0.0)) / 1e3, float(total.get("gap_energy_j", 0.0)), span


def _with_measured_energy(
    run: Run, options: RunOptions, per_launch: pl.DataFrame, modeled_gap_j: float
) -> tuple[pl.DataFrame, float, tuple[float, float] | None, list[str]]:
    """Replace modeled energies by measured ones wherever the log determines them.

    Returns
    -------
    per_launch : DataFrame
        As given, with measured energies.
    gap_j : float
        Energy of the gaps. [J]
    idle_w : (float, float) or None
        Power up to a second after an activity, and later; None where the log does not determine it. [W]
    notes : list of str
        Sentences on the basis of the figures.
    """
    attribution, notes, warnings = measured_energy(run, gpu=options.gpu)
    if attribution is None:
        raise BadInput.in_file(
            run.path,
            "no kernel's energy is identifiable from its power log",
            "compare modeled energies: --energy anchored",
        )
    energy = attribution.energy
    measured_j = (
        energy.filter(pl.col("signature").is_not_null() & pl.col("energy_j").is_not_null())
        .group_by("signature", maintain_order=True)
        .agg(*(pl.col(c).sum() for c in ("launches", "energy_j", "energy_low_j", "energy_high_j")))
        .filter(pl.col("launches") > 0)
        .select(
            "signature",
            *((pl.col(f"energy{e}_j") / pl.col("launches")).alias(f"log{e}_j") for e in ENDS),
        )
    )
    energies = per_launch.join(measured_j, on="signature", how="left")
    unresolved = energies.filter(pl.col("log_j").is_null()).height
    if unresolved:
        notes.append(
            f"{unresolved} of {energies.height} kinds of work not resolved by the log: "
            "the model's energies taken"
        )
    energies = energies.with_columns(pl.coalesce(f"log{e}_j", f"each{e}_j").alias(f"each{e}_j") for e in ENDS)
    gap, idle_intervals_w = measured_gaps(run, energy), idle_watts(energy)
    idle_w = None if idle_intervals_w is None else (idle_intervals_w[0][0], idle_intervals_w[1][0])
    gap_j = modeled_gap_j
    if gap is not None and gap["measured_pct"] > 0.0:  # gaps without readings are as those with
        gap_j = 100.0 * float(gap["energy_j"]) / gap["measured_pct"]
    return energies, gap_j, idle_w, notes + warnings


def run_keys(run: Run, predicted: PredictedRun, basis: Basis) -> dict[str, str]:
    """Return the conditions that must agree between two runs for their energies to be comparable."""
    keys = {"GPU": predicted.gpu}
    if basis == "predicted":
        return keys | {"clock": f"{predicted.totals[0]['clock_mhz']:g} MHz"}
    if basis == "anchored":  # a clock that is assumed on one side alone would pass for a change of energy
        return keys | {"clock": "recorded" if _clock_recorded(run) else "not recorded"}
    if basis == "measured":
        readings = run.telemetry
        limits = readings["power_limit_w"].drop_nulls()
        if limits.len():
            keys["power cap"] = f"{float(np.median(limits.to_numpy())):.0f} W"
        if readings["field"].drop_nulls().len():
            keys["power field"] = ", ".join(sorted(map(str, readings["field"].drop_nulls().unique())))
        clocks = readings["clock_mhz"].drop_nulls().to_numpy()
        if clocks.size >= 10:
            busy = clocks[clocks > 0.5 * clocks.max()]
            keys["clock mode"] = "locked" if float(busy.std()) < 5.0 else "free"
    return keys
