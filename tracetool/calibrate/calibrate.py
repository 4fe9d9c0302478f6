"""Calibrate: fit a GPU's power or time coefficients to measurements, with their held-out errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from tracetool.calibrate.fit_time_laws import TimeFit
from tracetool.calibrate.measured_times import Timed, fit_times, has_power, read_timed, time_tables, time_text
from tracetool.calibrate.power import calibrate_power
from tracetool.calibrate.power_file import calibration_toml
from tracetool.calibrate.result import CalibrationResult
from tracetool.calibrate.runs import read_measured_run
from tracetool.calibrate.tables import Measured, read_measured
from tracetool.core.errors import BadInput
from tracetool.core.progress import Progress, Silent
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.names import variant_notes
from tracetool.measure.attribute import SEE_CHECKS
from tracetool.replay.measured_energy import why_unusable
from tracetool.sources.repeated_files import without_repeats
from tracetool.tables.run import Run
from tracetool.tables.run_folder import is_run_path

__all__ = ["PARTS", "CalibrationResult", "calibrate"]

#: What a calibration can be of.
PARTS = ("power", "time", "both")


def calibrate(
    sources: Sequence[str | os.PathLike[str]],
    gpu: str,
    *,
    part: str | None = None,
    progress: Progress | None = None,
) -> CalibrationResult:
    """Fit power or time coefficients, or both, from runs and tables of measurements.

    Parameters
    ----------
    sources : sequence of paths
        Runs with a power log, idle curves, tables of monitored programs, kernels repeated over clocks,
        operator tables with measured time and power; any mix. See
        :func:`tracetool.calibrate.tables.read_measured` and
        :func:`tracetool.calibrate.runs.read_measured_run`.
    gpu : str
        The GPU they were measured on.
    part : {"power", "time", "both"}, optional
        What to fit; by default power where a source states any, else time.

    Raises
    ------
    BadInput
        If a table or run cannot be used, or they determine no coefficient.
    """
    reporter = progress or Silent()
    gpu_spec = load_gpu(gpu)
    gpu_spec.require_model()
    if part is not None and part not in PARTS:
        raise BadInput(f"--part {part!r} is not known", f"one of {', '.join(PARTS)}")
    if not sources:
        raise BadInput(
            "calibrate needs at least one run or table", "give an idle curve, a sweep, a run or kernels"
        )
    paths, repeats = without_repeats([Path(path) for path in sources], Path)
    calibration = _calibrated(gpu_spec, paths, part, reporter)
    notes = (*variant_notes(gpu), *repeats)
    return replace(calibration, notes=(*notes, *calibration.notes)) if notes else calibration


def _calibrated(
    gpu_spec: Gpu, sources: Sequence[Path], part: str | None, reporter: Progress
) -> CalibrationResult:
    """Return the fit of checked sources; where ``part`` is None the sources decide it."""
    requested_part, part = part, part or ("power" if any(has_power(path) for path in sources) else "time")
    read: list[Measured] = []
    timed: list[Timed] = []
    unmeasured: list[str] = []
    for number, path in enumerate(sources):
        reporter.step(f"reading {os.fspath(path)}", number / (len(sources) + 2))
        # A table of durations has no power, an idle curve no shapes: each serves the part it can.
        if requested_part != "power" and is_run_path(path) and (fault := why_unusable(Run.open(path))):
            unmeasured.append(f"{path.name}: power is not fitted: {fault}; {SEE_CHECKS}")
        elif part != "time":
            read.append(
                read_measured_run(path, gpu_spec) if is_run_path(path) else read_measured(path, gpu_spec)
            )
        if part != "power" and (times := read_timed(path, gpu_spec)) is not None:
            timed.append(times)
    reporter.step("fitting", len(sources) / (len(sources) + 2))
    power = calibrate_power(gpu_spec, read) if read else None
    if power is None or part != "power":
        fitted = _with_times(gpu_spec, fit_times(timed, gpu_spec), power)
        return replace(fitted, notes=(*unmeasured, *fitted.notes))
    power = replace(power, notes=(*unmeasured, *power.notes))
    if requested_part is None and any(_has_times(path, gpu_spec) for path in sources):
        note = "times of these operators were left aside: --part both fits their time laws too"
        return replace(power, notes=(*power.notes, note))
    return power


def _has_times(path: str | os.PathLike[str], gpu: Gpu) -> bool:
    """Return whether a table has times that a law could be fitted to."""
    if is_run_path(path):
        return False
    try:
        return read_timed(path, gpu) is not None
    except BadInput:
        return False


def _with_times(gpu_spec: Gpu, fit: TimeFit, power: CalibrationResult | None) -> CalibrationResult:
    """Return the result of a time fit, alone or joined to that of a power fit."""
    more, sections = time_text(fit)
    table, errors = time_tables(fit)
    if power is None:
        about = {"title": f"Time of {gpu_spec.name}", "basis": "calibrated", "gpu": gpu_spec.name, **more}
        text = calibration_toml(about=about, source="calibrate", fits={}) + "\n" + sections
        return CalibrationResult(gpu_spec.name, text, table, pl.DataFrame(errors), pl.DataFrame(), ())
    head, _, body = power.toml.partition("\n\n")
    lines = calibration_toml(about=more, source="calibrate", fits={}).removeprefix("[about]\n")
    return replace(
        power,
        toml=f"{head}\n{lines}\n{body}\n{sections}",
        coefficients=pl.concat([power.coefficients, table], how="diagonal_relaxed"),
        errors=pl.concat([power.errors, pl.DataFrame(errors)], how="diagonal_relaxed"),
    )
