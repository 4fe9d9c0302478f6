"""A run, a table or a stored baseline as one side of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from tracetool.compare.diff_run import measured_energy
from tracetool.compare.idle_groups import GAP_KEY, idle_groups
from tracetool.compare.readings_error import ReadingsError
from tracetool.compare.sides import GROUP, IDENTITY, RunClasses, count_steps, run_classes
from tracetool.compare.steps import Steps, step_times
from tracetool.compare.table_side import table_classes
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.measure.measured_scopes import idle_watts, measured_gaps
from tracetool.measure.power_log import telemetry_devices
from tracetool.replay.groups import activity_groups, check_depth, parse_keys
from tracetool.replay.iterations import named_steps
from tracetool.replay.measured_energy import why_unusable
from tracetool.replay.predict import PredictedRun, predict_run
from tracetool.tables.run import RUN_FILE, Run
from tracetool.tables.run_folder import clean_up, is_run_path
from tracetool.tables.scratch import Scratch

Basis = Literal["measured", "anchored", "predicted"]
_TABLES: Final = (".csv", ".parquet", ".json", ".jsonl", ".ndjson")


#: What separates signatures of one name in one run, in the name of a group.
_NUMBER: Final = r" #[0-9]+( / |$)"


@dataclass(frozen=True)
class Reading:
    """Settings by which runs are read for a comparison."""

    basis: Basis | Literal["auto"] = "auto"
    gpu: str | None = None
    clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    power_cap_w: float | None = None
    by: tuple[str, ...] = ()  # what the comparison groups launches by, beside families and the like
    depth: int | None = None  # levels of nested modules kept apart


def compared_by(text: str | None, depth: int | None = None) -> tuple[str, ...]:
    """Return the keys that ``--by`` asks a comparison for; none where it does not.

    Raises
    ------
    BadInput
        If a key is not known, or the depth does not apply.
    """
    keys = parse_keys(text) if text else ()
    check_depth(keys, depth)
    return keys


@dataclass
class LoadedRun:
    """One run of a side, and what else the comparison needs of it."""

    classes: RunClasses
    basis: Basis
    signatures: pl.Series | None  # signature of each row of the classes; None for tables and baselines
    run: Run | None = None
    notes: list[str] = field(default_factory=list)
    clock_recorded: bool = False
    modeled_j: float | None = None  # what the model says of the run, where its energies are measured

    def groups(self) -> set[str]:
        """Return the names of its groups; none where it is not grouped."""
        of_launches = set(self.classes.classes[GROUP]) if GROUP in self.classes.classes.columns else set()
        idle = set() if self.classes.idle is None else set(self.classes.idle["name"])
        return (of_launches | idle) - {""}


def basis_named(text: str) -> Basis | Literal["auto"]:
    """Return the basis called ``text``.

    Raises
    ------
    BadInput
        If there is none of that name.
    """
    for basis in ("auto", "measured", "anchored", "predicted"):
        if text == basis:
            return basis
    raise BadInput(f"no energies called {text!r}", "measured, anchored, predicted or auto")


def expand(paths: Sequence[Path | str]) -> list[Path]:
    """Return the runs and tables a list of paths names, each once: folders of runs and patterns are opened.

    A run named twice is no repeated run: it would make intervals narrower and show nothing.

    Raises
    ------
    BadInput
        If one names nothing.
    """
    run_paths: list[Path] = []
    for pattern in paths:
        path = Path(pattern)
        if is_run_path(path) and not (path / RUN_FILE).is_file():
            clean_up(path)
            inside = sorted(p for p in path.iterdir() if (p / RUN_FILE).is_file() and not Scratch.of(p))
            if not inside:
                raise BadInput.in_file(
                    path, "is neither a run nor a folder of runs", "make one with: tracetool ingest TRACE"
                )
            run_paths += inside
        elif path.exists():
            run_paths.append(path)
        elif matches := sorted(
            Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path))
        ):
            run_paths += expand(matches)
        else:
            raise BadInput.in_file(
                path, "no such run or table", "make one with: tracetool ingest TRACE -o RUN"
            )
    once: dict[Path, Path] = {}
    for path in run_paths:
        once.setdefault(path.resolve(), path)
    return list(once.values())


def chosen_basis(
    paths: Sequence[Path], requested: Basis | Literal["auto"], opened: dict[Path, Run] | None = None
) -> Basis:
    """Return the basis of the energies to compare: measured where every run has usable power readings.

    Parameters
    ----------
    paths : sequence of path
        Runs, or one table.
    requested : str
        What was asked for.
    opened : dict of path to Run, optional
        Runs that are open, to which those opened here are added: what a run's log is judged to be, and its
        tables, are then not asked of it twice.

    Raises
    ------
    BadInput
        If measured energies were asked for and a run has none.
    """
    tables = [p for p in paths if p.is_file()]
    if tables:
        if requested not in ("auto", "predicted"):
            raise BadInput.in_file(tables[0], f"a table holds no {requested} energies", "leave --energy out")
        return "predicted"
    if requested in ("predicted", "anchored"):
        return requested
    for path in paths:
        run = _opened(path, opened)
        fault = why_unusable(run) if telemetry_devices(run.telemetry) else "holds no power readings"
        if fault and requested == "measured":
            raise BadInput.in_file(path, fault, "ingest it again with --power LOG")
        if fault:
            return "anchored"
    return "measured"


def _opened(path: Path, opened: dict[Path, Run] | None) -> Run:
    if opened is None:
        return Run.open(path)
    if path not in opened:
        opened[path] = Run.open(path)
    return opened[path]


def load_run(path: Path, basis: Basis, reading: Reading, opened: dict[Path, Run] | None = None) -> LoadedRun:
    """Return a run or table as classes with energies of one basis.

    Parameters
    ----------
    path : path
        A run folder, or an operator table.
    basis : {"measured", "anchored", "predicted"}
        ``measured`` from the power log, ``anchored`` modeled from measured times, ``predicted`` times
        and energies both from the model at one clock.
    reading : Reading
        GPU and clocks.
    opened : dict of path to Run, optional
        As for :func:`chosen_basis`.

    Raises
    ------
    BadInput
        If the run holds no activity, or its GPU is not known.
    """
    if path.is_file():
        return _load_table(path, reading)
    run = _opened(path, opened)
    if not run.kernels.height:
        raise BadInput.in_file(
            path, "holds no activity of a GPU to compare", "ingest a trace with GPU activity"
        )
    as_predicted = basis == "predicted"
    predicted = predict_run(
        run,
        reading.gpu,
        [reading.clock_mhz] if as_predicted and reading.clock_mhz is not None else None,
        mem_clock_mhz=reading.mem_clock_mhz,
        power_cap_w=reading.power_cap_w,
        anchor=not as_predicted,
    )
    notes = [f"{path.name}: {n}" for n in predicted.notes]
    each = _each(predicted, times=as_predicted)
    gap_s, gap_j, span_s = _gaps(predicted, recorded=not as_predicted)
    modeled, watts = None, None
    if basis == "measured":
        counted = each.join(run.signatures.select("signature", "launches"), on="signature")
        modeled = float((counted["each_j"] * counted["launches"]).sum()) + gap_j
        each, gap_j, watts, energy_notes = _measured(run, reading, each, (gap_s, gap_j))
        notes += [f"{path.name}: {n}" for n in energy_notes]
    elif not as_predicted and (verdict := why_unusable(run)):
        notes.append(f"{path.name}: not measured: {verdict}")
    ranges = run.table("ranges")
    group = _groups(run, reading)
    classes, sequence = run_classes(run.kernels, run.signatures, ranges, each, group)
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
        idle=idle_groups(run, reading.by, reading.depth, watts) if GAP_KEY in reading.by else None,
        open_energy=_open_energy(run, reading, classes) if basis == "measured" else None,
    )
    return LoadedRun(classes_of_run, basis, classes["signature"], run, notes, _clock_recorded(run), modeled)


def _open_energy(run: Run, reading: Reading, classes: pl.DataFrame) -> ReadingsError | None:
    """Return what the log leaves open of the measured energies of a run's classes."""
    attribution, *_ = measured_energy(run, gpu=reading.gpu)
    return None if attribution is None else ReadingsError.of(attribution, classes)


def _clock_recorded(run: Run) -> bool:
    return bool(run.telemetry["clock_mhz"].is_not_null().any())


def _load_table(path: Path, reading: Reading) -> LoadedRun:
    """Return an operator table as classes with predicted energies."""
    if reading.by:
        raise BadInput.in_file(path, "--by groups the launches of runs; a table has none", "give two runs")
    if path.suffix.lower() not in _TABLES:
        raise BadInput.in_file(path, "is neither a run nor a table", "ingest a trace first: tracetool ingest")
    classes, notes = table_classes(
        path,
        reading.gpu,
        reading.clock_mhz,
        mem_clock_mhz=reading.mem_clock_mhz,
        power_cap_w=reading.power_cap_w,
    )
    return LoadedRun(classes, "predicted", None, None, notes)


def _groups(run: Run, reading: Reading) -> pl.Series | None:
    """Return the group of each launch; None where none are asked for."""
    if not reading.by:
        return None
    group = activity_groups(run, reading.by, reading.depth)
    if "signature" in reading.by:
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


_SUMS: Final = ("launches", "time_s", "energy_j", "energy_low_j", "energy_high_j")


def _each(predicted: PredictedRun, *, times: bool) -> pl.DataFrame:
    """Return family, energy and (where asked) time of one launch, per signature."""
    rows = predicted.signatures.unique("signature", keep="first", maintain_order=True)
    return rows.select(
        pl.col("signature").cast(pl.Int64),
        "family",
        *((pl.col(f"energy{e}_mj") / 1e3).alias(f"each{e}_j") for e in ENDS),
        (pl.col("duration_us") / 1e6 if times else pl.lit(None, dtype=pl.Float64)).alias("each_s"),
    )


def _gaps(predicted: PredictedRun, *, recorded: bool) -> tuple[float, float, float]:
    """Return time and energy of the gaps, and the span of the run. [s], [J], [s]"""
    total = predicted.totals[0]
    span = float(predicted.info["recorded_makespan_ms"] if recorded else total["makespan_ms"]) / 1e3
    return float(total.get("gap_ms", 0.0)) / 1e3, float(total.get("gap_energy_j", 0.0)), span


def _measured(
    run: Run, reading: Reading, each: pl.DataFrame, gaps: tuple[float, float]
) -> tuple[pl.DataFrame, float, tuple[float, float] | None, list[str]]:
    """Put measured energies in place of modeled ones wherever the log determines them; gaps too."""
    attribution, notes, warnings = measured_energy(run, gpu=reading.gpu)
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
    energies = each.join(measured_j, on="signature", how="left")
    blind = energies.filter(pl.col("log_j").is_null()).height
    if blind:
        notes.append(
            f"{blind} of {energies.height} kinds of work not resolved by the log: the model's energies taken"
        )
    energies = energies.with_columns(pl.coalesce(f"log{e}_j", f"each{e}_j").alias(f"each{e}_j") for e in ENDS)
    gap, watts = measured_gaps(run, energy), idle_watts(energy)
    idle = None if watts is None else (watts[0][0], watts[1][0])
    return energies, gaps[1] if gap is None else float(gap["energy_j"]), idle, notes + warnings


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
