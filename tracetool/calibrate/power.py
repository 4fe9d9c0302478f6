"""Fit a GPU's power: base and voltage from sweeps, energies of operations from measured kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tracetool.calibrate.law_fit import CLAIMED
from tracetool.calibrate.power_file import Fitted, calibration_toml
from tracetool.calibrate.power_fit import PowerFit, coefficient_vector, fit_power
from tracetool.calibrate.power_rows import COEFFICIENTS, PowerRows
from tracetool.calibrate.power_sweep import SweepFit, with_base
from tracetool.calibrate.power_validation import baselines, held_out
from tracetool.calibrate.result import CalibrationResult
from tracetool.calibrate.second_clock import NextClock, next_clock
from tracetool.calibrate.sweeps import FittedSweep, fitted_sweep
from tracetool.calibrate.tables import Measured
from tracetool.calibrate.voltage_fit import fit_voltage_readings
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import BASE, PowerCalibration
from tracetool.model.power_files import believed_calibration, power_calibration_of
from tracetool.model.thermal import thermal_resistance_c_per_w
from tracetool.tables.run_folder import is_run_path

#: Kind of the tables whose programs lie about the model by more than their rows do.
_MONITORED = "activity"
#: Of fewer groups than this none can be left out.
_FEWEST_GROUPS = 3
#: From this many clocks on kernels determine the voltage, where nothing else does. [1] A prior.
_CLOCKS_OF_VOLTAGE = 5


@dataclass
class _Fits:
    """Fits of a GPU's power made so far, each from where the one before left off."""

    gpu: Gpu
    read: Sequence[Measured]
    prior: PowerCalibration
    curve: VoltageCurve
    curve_measured: bool
    notes: list[str]
    swept: FittedSweep | None = None
    sections: dict[str, Fitted] = field(default_factory=dict)
    errors: list[dict[str, object]] = field(default_factory=list)
    tables: list[pl.DataFrame] = field(default_factory=list)

    @property
    def idle_measured(self) -> bool:
        """Whether an idle curve states the base."""
        return any(m.kind == "idle" for m in self.read)

    def fit_sweep(self, start: PowerCalibration) -> None:
        """Fit base and voltage to all sweeps read, if there are any."""
        self.swept = fitted_sweep(self.read, start, self.curve, fit_voltage=not self.curve_measured)
        if self.swept is None:
            return
        sweep = self.swept.fit
        self.curve = sweep.voltage
        self.prior = _on_base(self.prior, sweep)
        self.notes += sweep.notes(idle=self.idle_measured)
        self.tables.append(_base_table(sweep))

    def fit_section(self, section: str, kind: str) -> None:
        """Fit a section's coefficients to the tables of one kind, if there are any."""
        power_rows = [m.power for m in self.read if m.kind == kind and m.power is not None]
        if not power_rows:
            return
        rows = PowerRows.concat(power_rows)
        start = self.prior if section == "power" else self.prior.monitored or self.prior
        many_clocks = len(np.unique(rows.clock_mhz)) >= _CLOCKS_OF_VOLTAGE
        idle = self.idle_measured
        # Under a load the chip is warmer than the idle one its base was read from.
        heating = start.leakage_per_k * thermal_resistance_c_per_w(self.gpu) if idle else 0.0
        fit = fit_power(
            rows,
            start,
            self.curve,
            fit_voltage=self.swept is None and not self.curve_measured and many_clocks,
            known_base=idle,
            heating_per_w=heating,
            scattered=kind == _MONITORED,
        )
        self.curve = fit.calibration.voltage or self.curve
        fit, error = _with_held_out_error(
            fit, rows, start, self.curve, kind=kind, known_base=idle, heating=heating, notes=self.notes
        )
        self.sections[section] = Fitted(fit)
        self.errors.append(error)
        self.tables.append(_coefficients(section, fit, start))

    def add_sweep_error(self) -> None:
        """State the errors of the sweep beside those of the sections."""
        if self.swept is None:
            return
        swept = self.swept
        error: dict[str, object] = {
            "rows": "sweep",
            "count": len(swept.fit.residual),
            "fit_percent": 100 * swept.fit.error,
        }
        if np.isfinite(swept.held_out):
            error |= {"held_out_percent": 100 * swept.held_out, "constant power": 100 * swept.constant}
        self.errors.append(error)

    def text(self) -> str:
        """Return the calibration file."""
        about: dict[str, str | float] = {
            "title": f"Power of {self.gpu.name}",
            "basis": "calibrated",
            "gpu": self.gpu.name,
        }
        for error in self.errors:
            if isinstance(error.get("held_out_percent"), float):
                about[f"held_out_percent_{error['rows']}"] = round(float(str(error["held_out_percent"])), 2)
        return calibration_toml(
            about=about,
            source="calibrate",
            fits=self.sections,
            sweep=None if self.swept is None else self.swept.fit,
            voltage=None if self.curve is self.gpu.voltage else self.curve,
        )

    def rejected(self) -> pl.DataFrame:
        """Return the rows that no fit saw."""
        from_sweep = [] if self.swept is None else [self.swept.left_out]
        return pl.concat([*(_marked(m) for m in self.read), *from_sweep], how="diagonal_relaxed")


def calibrate_power(gpu: Gpu, read: Sequence[Measured]) -> CalibrationResult:
    """Return the power coefficients of a GPU fitted to what was measured.

    Raises
    ------
    BadInput
        If it determines no coefficient.
    """
    # Sweeps determine base and voltage alone, which a delivered calibration knows better than a description.
    power = power_calibration_of(gpu)
    start = next((c for c in (power, power.monitored) if c and c.basis == "calibrated"), power)
    notes: list[str] = []
    curve, curve_measured = _voltage(gpu, start, read, notes)
    advice = next_clock(read, gpu, curve)
    notes += [] if advice is None else [advice.note()]
    fits = _Fits(gpu, read, believed_calibration(gpu), curve, curve_measured, notes)
    fits.fit_sweep(start)
    fits.fit_section("power", "operators")
    fits.fit_section("monitor", _MONITORED)
    fits.add_sweep_error()
    if fits.swept is None and not fits.sections and all(m.supply_v is None for m in read):
        raise _one_clock(advice)
    text = fits.text()
    if any(is_run_path(m.path) for m in read):
        notes.append("powers of one run share the error of its sensor's gain: see tracetool attribute")
    rejected = fits.rejected()
    if rejected.height:
        notes.append(f"{counted(rejected.height, 'row')} left out of the fit; see rejected")
    return CalibrationResult(
        gpu.name,
        text,
        pl.concat(fits.tables, how="diagonal_relaxed") if fits.tables else pl.DataFrame(),
        pl.DataFrame(fits.errors),
        rejected,
        tuple(notes),
        advice,
    )


def _one_clock(advice: NextClock | None) -> BadInput:
    """Return the error of tables where no coefficient is identifiable."""
    return BadInput(
        "no coefficient is identifiable: every kernel was measured at one clock only",
        "give two clocks or more of a kernel"
        + ("" if advice is None else f" ({advice.clock_mhz:g} MHz says most)")
        + ", operators of known shape, or shares of activity",
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
        f"{kind}: not better than {b.name} on groups left out ({100 * b.mape:.1f} %)"
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
