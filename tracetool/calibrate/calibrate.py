"""Calibrate: fit a GPU's power coefficients to measurements, and say what they are worth."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tracetool.calibrate.fit_time import TimeFit
from tracetool.calibrate.power_file import Fitted, calibration_toml
from tracetool.calibrate.power_fit import PowerFit, coefficient_vector, fit_power
from tracetool.calibrate.power_rows import COEFFICIENTS, PowerRows
from tracetool.calibrate.power_sweep import SweepFit, with_base
from tracetool.calibrate.power_validation import baselines, held_out
from tracetool.calibrate.runs import read_measured_run
from tracetool.calibrate.second_clock import NextClock, next_clock
from tracetool.calibrate.sweeps import fitted_sweep
from tracetool.calibrate.tables import Measured, read_measured
from tracetool.calibrate.time import CLAIMED
from tracetool.calibrate.times import Timed, fit_times, read_timed, tells_power, time_tables, time_text
from tracetool.calibrate.voltage_fit import fit_voltage_readings
from tracetool.core.errors import BadInput
from tracetool.core.figures import counted
from tracetool.core.progress import Progress, Silent
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import BASE, PowerCalibration
from tracetool.model.power_files import believed_calibration, power_calibration_of
from tracetool.model.thermal import thermal_resistance_c_per_w
from tracetool.tables.run_folder import is_run_path

#: What a calibration can be of.
PARTS = ("power", "time", "both")
#: Kind of the tables whose programs lie about the model by more than their rows do.
_MONITORED = "activity"
#: Of fewer groups than this none can be left out.
_FEWEST_GROUPS = 3


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration file's text, and what stands behind it.

    ``coefficients`` has one row per coefficient with its spread and whether the data told it,
    ``errors`` one per kind of table with the held-out error and the plain baselines, ``rejected``
    the rows no fit saw.
    """

    gpu: str
    toml: str
    coefficients: pl.DataFrame
    errors: pl.DataFrame
    rejected: pl.DataFrame
    notes: tuple[str, ...]
    second_clock: NextClock | None = None


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
        If a table or run cannot be used, or no coefficient can be told from them.
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
    asked, part = part, part or ("power" if any(tells_power(path) for path in sources) else "time")
    read: list[Measured] = []
    timed: list[Timed] = []
    for number, path in enumerate(sources):
        reporter.step(f"reading {os.fspath(path)}", number / (len(sources) + 2))
        # A table of durations has no power, an idle curve no shapes: each serves the part it can.
        if part != "time":
            read.append(
                read_measured_run(path, gpu_spec) if is_run_path(path) else read_measured(path, gpu_spec)
            )
        if part != "power" and (times := read_timed(path, gpu_spec)) is not None:
            timed.append(times)
    reporter.step("fitting", len(sources) / (len(sources) + 2))
    power = _fitted(gpu_spec, read) if read else None
    if power is None or part != "power":
        return _with_times(gpu_spec, fit_times(timed, gpu_spec), power)
    if asked is None and any(_tells_times(path, gpu_spec) for path in sources):
        note = "times of these operators were left aside: --part both fits their time laws too"
        return replace(power, notes=(*power.notes, note))
    return power


def _tells_times(path: str | os.PathLike[str], gpu: Gpu) -> bool:
    """Return whether a table has times that a law could be fitted to."""
    if is_run_path(path):
        return False
    try:
        return read_timed(path, gpu) is not None
    except BadInput:
        return False


def _with_times(gpu_spec: Gpu, fit: TimeFit, power: CalibrationResult | None) -> CalibrationResult:
    """Return a time fit as a result of its own, or joined to one of power."""
    more, sections = time_text(fit)
    table, errors = time_tables(fit)
    if power is None:
        about = {"title": f"Time of {gpu_spec.name}", "basis": "calibrated", "gpu": gpu_spec.name, **more}
        text = calibration_toml(about=about, source="calibrate", fits={}) + "\n" + sections
        return CalibrationResult(gpu_spec.name, text, table, pl.DataFrame(errors), pl.DataFrame(), ())
    head, _, rest = power.toml.partition("\n\n")
    lines = calibration_toml(about=more, source="calibrate", fits={}).removeprefix("[about]\n")
    return replace(
        power,
        toml=f"{head}\n{lines}\n{rest}\n{sections}",
        coefficients=pl.concat([power.coefficients, table], how="diagonal_relaxed"),
        errors=pl.concat([power.errors, pl.DataFrame(errors)], how="diagonal_relaxed"),
    )


def _fitted(gpu_spec: Gpu, read: Sequence[Measured]) -> CalibrationResult:
    prior = believed_calibration(gpu_spec)
    # Sweeps tell base and voltage alone, which a delivered calibration knows better than a description.
    power = power_calibration_of(gpu_spec)
    known = next((c for c in (power, power.monitored) if c and c.basis == "calibrated"), power)
    notes: list[str] = []
    curve, measured_curve = _voltage(gpu_spec, known, read, notes)
    advice = next_clock(read, gpu_spec, curve)
    notes += [] if advice is None else [advice.note()]
    swept = fitted_sweep(read, known, curve, fit_voltage=not measured_curve)
    sweep = None if swept is None else swept.fit
    idle = any(m.kind == "idle" for m in read)
    if sweep is not None:
        curve = sweep.voltage
        prior = _on_base(prior, sweep)
        notes += sweep.notes(idle=idle)
    fits: dict[str, Fitted] = {}
    errors: list[dict[str, object]] = []
    tables: list[pl.DataFrame] = []
    for section, kind in (("power", "operators"), ("monitor", _MONITORED)):
        parts = [m.power for m in read if m.kind == kind and m.power is not None]
        if not parts:
            continue
        rows = PowerRows.concat(parts)
        start = prior if section == "power" else prior.monitored or prior
        free = sweep is None and not measured_curve and len(np.unique(rows.clock_mhz)) >= 5
        # Under a load the chip is warmer than the idle one its base was read from.
        heating = start.leakage_per_k * thermal_resistance_c_per_w(gpu_spec) if idle else 0.0
        monitored = kind == _MONITORED
        fit = fit_power(
            rows, start, curve, fit_voltage=free, known_base=idle, heating_per_w=heating, scattered=monitored
        )
        used = fit.calibration.voltage or curve
        fit, error = _with_held_out_error(
            fit, rows, start, used, kind=kind, known_base=idle, heating=heating, notes=notes
        )
        fits[section] = Fitted(fit)
        errors.append(error)
        tables.append(_coefficients(section, fit, start))
        curve = used
    if swept is not None:
        tables.insert(0, _base_table(swept.fit))
        error = {"rows": "sweep", "count": len(swept.fit.residual), "fit_percent": 100 * swept.fit.error}
        if np.isfinite(swept.held_out):
            error |= {"held_out_percent": 100 * swept.held_out, "constant power": 100 * swept.constant}
        errors.append(error)
    if swept is None and not fits and all(m.supply_v is None for m in read):
        raise BadInput(
            "no coefficient is identifiable: every kernel was measured at one clock only",
            "give two clocks or more of a kernel"
            + ("" if advice is None else f" ({advice.clock_mhz:g} MHz says most)")
            + ", operators of known shape, or shares of activity",
        )
    about: dict[str, str | float] = {
        "title": f"Power of {gpu_spec.name}",
        "basis": "calibrated",
        "gpu": gpu_spec.name,
    }
    for error in errors:
        if isinstance(error.get("held_out_percent"), float):
            about[f"held_out_percent_{error['rows']}"] = round(float(str(error["held_out_percent"])), 2)
    shown = curve if curve is not gpu_spec.voltage else None
    text = calibration_toml(about=about, source="calibrate", fits=fits, sweep=sweep, voltage=shown)
    if any(is_run_path(m.path) for m in read):
        notes.append("powers of one run share the error of its sensor's gain: see tracetool attribute")
    other = [] if swept is None else [swept.left_out]
    rejected = pl.concat([*(_marked(m) for m in read), *other], how="diagonal_relaxed")
    if rejected.height:
        notes.append(f"{counted(rejected.height, 'row')} left out of the fit; see rejected")
    return CalibrationResult(
        gpu_spec.name,
        text,
        pl.concat(tables, how="diagonal_relaxed") if tables else pl.DataFrame(),
        pl.DataFrame(errors),
        rejected,
        tuple(notes),
        advice,
    )


def _voltage(
    gpu_spec: Gpu, prior: PowerCalibration, read: Sequence[Measured], notes: list[str]
) -> tuple[VoltageCurve, bool]:
    """Return the voltage curve to start from, and whether it was read and needs no fit."""
    volts = [(m.supply_mhz, m.supply_v) for m in read if m.supply_v is not None and m.supply_mhz is not None]
    if volts:
        clock = np.concatenate([c for c, _ in volts])
        curve, rms = fit_voltage_readings(clock, np.concatenate([v for _, v in volts]))
        notes.append(
            f"voltage curve through {counted(len(clock), 'reading')}, RMS residual {1e3 * rms:.1f} mV"
        )
        return curve, True
    curve = prior.voltage or gpu_spec.voltage
    return curve, curve.measured


def _on_base(prior: PowerCalibration, sweep: SweepFit) -> PowerCalibration:
    monitored = None if prior.monitored is None else with_base(prior.monitored, sweep)
    return replace(with_base(prior, sweep), monitored=monitored)


def _with_held_out_error(
    fit: PowerFit,
    rows: PowerRows,
    prior: PowerCalibration,
    curve: VoltageCurve,
    *,
    kind: str,
    known_base: bool,
    heating: float,
    notes: list[str],
) -> tuple[PowerFit, dict[str, object]]:
    """Return the fit with its held-out spread, and its errors beside those of the plain models."""
    error: dict[str, object] = {
        "rows": kind,
        "count": len(rows),
        "fit_percent": 100 * float(np.mean(np.abs(fit.fitted_w / rows.power_w - 1.0))),
    }
    groups = len(np.unique(rows.group.astype(str)))
    error["groups"] = groups
    if groups < _FEWEST_GROUPS:
        notes.append(
            f"{kind}: {groups} group{'s' * (groups != 1)} only, so no error on unseen rows can be stated"
        )
        return fit, error
    monitored = kind == _MONITORED
    held_out_fit = held_out(
        rows, prior, curve, known_base=known_base, heating_per_w=heating, scattered=monitored
    )
    plain = baselines(rows)
    error |= {"held_out_percent": 100 * held_out_fit.mape, "relative_sd": held_out_fit.relative_sd}
    error |= {b.name: 100 * b.mape for b in plain}
    notes += [
        f"{kind}: does not beat {b.name} on unseen groups ({100 * b.mape:.1f} %)"
        for b in plain
        if b.mape <= held_out_fit.mape
    ]
    return replace(fit, calibration=replace(fit.calibration, relative_sd=held_out_fit.relative_sd)), error


def _coefficients(section: str, fit: PowerFit, prior: PowerCalibration) -> pl.DataFrame:
    from_data = fit.data_share >= CLAIMED
    return pl.DataFrame(
        {
            "section": section,
            "coefficient": list(COEFFICIENTS),
            "value": fit.values,
            "sd": fit.sd,
            "prior": coefficient_vector(prior),
            "told": fit.data_share,
            "rests_on": np.where(from_data, "data", "prior"),
        }
    )


def _base_table(sweep: SweepFit) -> pl.DataFrame:
    return pl.DataFrame(
        {"section": "base", "coefficient": list(BASE), "value": sweep.base, "rests_on": "data"}
    )


def _marked(measured: Measured) -> pl.DataFrame:
    return measured.rejected.with_columns(pl.lit(measured.path).alias("table"))
