"""The time part of calibrate: measured durations of operators or of a run's kernels, law by law."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracetool.calibrate.fit_time_laws import TimeFit, fit_time
from tracetool.calibrate.law_fit import FEWEST_ROWS, LawFit
from tracetool.calibrate.runs import check_gpu
from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import laws
from tracetool.families.registry import known_shape
from tracetool.hardware.gpu import Gpu
from tracetool.model.predict import predict_rows
from tracetool.model.time_files import time_calibration_of
from tracetool.replay.measured_energy import why_unusable
from tracetool.replay.operator_tables import load_table, read_table
from tracetool.replay.recording_conditions import recorded
from tracetool.replay.run_rows import run_rows
from tracetool.tables.counter_names import with_our_names
from tracetool.tables.run import Run
from tracetool.tables.run_folder import is_run_path


def time_toml(fit: TimeFit, *, about: Mapping[str, str | float], source: str) -> str:
    """Return the text of a time calibration.

    Parameters
    ----------
    fit : TimeFit
        What was fitted.
    about : mapping
        Further lines of ``[about]``: the data and the command that made it.
    source : str
        Where the measurements come from: a name of the references.
    """
    lines = ["[about]", f'title = "Time of {fit.gpu}"', 'basis = "calibrated"']
    lines += [f"{k} = {_plain(v)}" for k, v in about.items()]
    for name, law_fit in fit.laws.items():
        for key, value in (("mape", law_fit.mape_percent), ("mdape", law_fit.mdape_percent)):
            lines.append(f"held_out_{key}_percent_{name} = {_rounded(value, 3)!r}")
        lines.append(f"interval_holds_percent_{name} = {_rounded(law_fit.coverage_percent, 3)!r}")
        lines.append(f"rows_{name} = {law_fit.rows}")
    for name, law_fit in fit.laws.items():
        lines += ["", f"[{name}]", *_section(name, law_fit, source)]
    return "\n".join(lines) + "\n"


def _section(name: str, law_fit: LawFit, source: str) -> list[str]:
    lines, law = [], laws()[name]
    for key, coefficient in law.priors.items():
        value = law_fit.values[key]
        if not coefficient.fitted and not coefficient.choices:
            continue
        basis, of = ("prior", coefficient.source) if key in law.source_tells else ("fitted", source)
        entry = f'value = {_rounded(value)!r}, unit = "{coefficient.unit}", kind = "{basis}", source = "{of}"'
        if basis == "prior":
            entry += f", low = {min(coefficient.choices)!r}, high = {max(coefficient.choices)!r}"
        elif key in law_fit.low:
            entry += f", low = {_rounded(law_fit.low[key])!r}, high = {_rounded(law_fit.high[key])!r}"
        lines.append(f"{key} = {{ {entry} }}")
    for kind, band in law_fit.spread.items():
        for side, value in zip(("low", "high"), band, strict=True):
            key = f"spread_{side}_{kind}".rstrip("_")
            lines.append(
                f'{key} = {{ value = {_rounded(value)!r}, unit = "1", kind = "fitted", source = "{source}" }}'
            )
    return lines


def _rounded(value: float, digits: int = 5) -> float:
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(float(value), digits - 1 - math.floor(math.log10(abs(value))))


def _plain(value: str | float) -> str:
    if isinstance(value, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else " " for c in value) + '"'
    return repr(value)


#: What no calibration reads besides shapes: measurements.
_MEASURED: Final = ("duration_us", "power_w", "energy_j", "idle_w", "iterations")


@dataclass(frozen=True)
class Timed:
    """Operators of known shape with what was measured of them: (n,) each."""

    rows: OperatorColumns
    seconds: Floats
    clock_mhz: Floats

    @classmethod
    def concat(cls, tables: Sequence[Timed]) -> Timed:
        """Return several tables as one; a column missing from one is empty there."""
        names = sorted({c for table in tables for c in table.rows.columns})
        columns = {}
        for name in names:
            columns_of_parts = [table.rows.columns.get(name) for table in tables]
            text = any(h is not None and np.asarray(h).dtype == object for h in columns_of_parts)
            columns[name] = np.concatenate(
                [table.rows.text(name) if text else table.rows.number(name) for table in tables]
            )
        family = np.concatenate([table.rows.family for table in tables])
        return cls(
            OperatorColumns(family, columns),
            np.concatenate([table.seconds for table in tables]),
            np.concatenate([table.clock_mhz for table in tables]),
        )


def read_timed(path: str | os.PathLike[str], gpu: Gpu) -> Timed | None:
    """Return the operators of a table or run with their durations; None if it has no shapes.

    Raises
    ------
    BadInput
        If it cannot be read, or the run was recorded on another GPU.
    """
    if is_run_path(path):
        run = Run.open(path)
        check_gpu(run, gpu)
        _, rows = run_rows(run)
        conditions = recorded(run, rows, gpu)
        seconds = conditions.rows.number("duration_us") * 1e-6
        return _usable(
            Timed(
                conditions.rows, seconds, conditions.rows.number("recorded_clock_mhz", conditions.clock_mhz)
            )
        )
    frame = with_our_names(load_table(Path(path)))
    if not {"op", "duration_us"} <= set(frame.columns):
        return None
    table = read_table(frame.drop(*_MEASURED, strict=False))
    rows = table.rows.take(table.index)
    seconds = frame["duration_us"].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy() * 1e-6
    if "clock_mhz" in frame.columns:
        clock = frame["clock_mhz"].cast(pl.Float64, strict=False).fill_null(gpu.clock_boost_mhz).to_numpy()
    else:
        # A GPU left to itself runs as fast as its power limit lets it.
        boost = np.array([gpu.clock_boost_mhz])
        clock = predict_rows(rows, gpu, boost).clock_mhz[:, 0]
    return _usable(Timed(rows, seconds, np.asarray(clock, np.float64)))


def has_power(path: str | os.PathLike[str]) -> bool:
    """Return whether a table states power or energy, or a run has a usable power log.

    Raises
    ------
    BadInput
        If it cannot be read.
    """
    if is_run_path(path):
        run = Run.open(path)
        return bool(run.table("telemetry").height) and not why_unusable(run)
    columns = with_our_names(load_table(Path(path))).columns
    return not {"op", "duration_us"} <= set(columns) or bool({"power_w", "energy_j"} & set(columns))


def _usable(timed: Timed) -> Timed | None:
    good = known_shape(timed.rows) & np.isfinite(timed.seconds) & (timed.seconds > 0)
    good &= ~np.isfinite(timed.rows.number("inferred_low"))  # a size read off the time says nothing of it
    usable_rows = np.flatnonzero(good)
    if not usable_rows.size:
        return None
    return Timed(timed.rows.take(usable_rows), timed.seconds[usable_rows], timed.clock_mhz[usable_rows])


def fit_times(tables: Sequence[Timed], gpu: Gpu) -> TimeFit:
    """Fit every law that has enough rows, from the coefficients the GPU has so far.

    Raises
    ------
    BadInput
        If no kind of work has enough rows.
    """
    if not tables:
        raise BadInput(
            "no table or run holds operators of known shape with durations",
            "give an operator table with duration_us, or a run whose trace has shapes",
        )
    all_rows = Timed.concat(tables)
    fit = fit_time(all_rows.rows, all_rows.seconds, gpu, all_rows.clock_mhz, time_calibration_of(gpu))
    if not fit.laws:
        families, counts = np.unique(all_rows.rows.family.astype(str), return_counts=True)
        row_counts = ", ".join(f"{n} of {f}" for f, n in zip(families, counts, strict=True))
        raise BadInput(
            f"no kind of work has the {FEWEST_ROWS} rows its time needs: {row_counts}",
            "give more shapes, or --part power",
        )
    return fit


def time_text(fit: TimeFit) -> tuple[dict[str, str | float], str]:
    """Return the lines of ``[about]`` and the sections of a calibration file for a time fit."""
    text = time_toml(fit, about={}, source="calibrate")
    _, _, sections = text.partition("\n\n")
    about: dict[str, str | float] = {"from_traces": "yes"} if fit.traces else {}
    for name, law_fit in fit.laws.items():
        about[f"held_out_mape_percent_{name}"] = round(law_fit.mape_percent, 2)
        about[f"rows_{name}"] = law_fit.rows
        if name in fit.ran_by:
            about[f"fitted_to_{name}"] = ", ".join(sorted(fit.ran_by[name]))
    return about, sections


def time_tables(fit: TimeFit) -> tuple[pl.DataFrame, list[dict[str, object]]]:
    """Return the coefficients of a time fit with their 90 % bounds, and its errors, law by law."""
    rows = [
        {
            "section": name,
            "coefficient": key,
            "value": float(value),
            "low": float(law_fit.low[key]),
            "high": float(law_fit.high[key]),
            "rests_on": "prior" if key in law_fit.from_prior else "data",
        }
        for name, law_fit in fit.laws.items()
        for key, value in law_fit.values.items()
        if key in law_fit.low
    ]
    errors: list[dict[str, object]] = [
        {"rows": f"time of {name}", "count": law_fit.rows, "held_out_percent": law_fit.mape_percent}
        for name, law_fit in fit.laws.items()
    ]
    return pl.DataFrame(rows), errors
