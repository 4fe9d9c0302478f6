"""Sweeps given to calibrate: which readings are of one state of the GPU, and the error on clocks unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.calibrate.power_sweep import SweepFit, SweepRows, fit_sweep, take, unseen_residual
from tracetool.calibrate.tables import Measured
from tracetool.core.arrays import Bools, Floats
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import PowerCalibration

#: Clocks that determine a voltage, at least. [clocks] A prior.
_FEWEST_CLOCKS = 5
#: Relative distance from the fit to higher clocks beyond which readings at the lowest clocks are of another
#: state of the GPU, e.g. of its memory. [1] A prior.
_OTHER_STATE: Final = 0.1
#: Share of the clocks, from the highest down, that defines the state. [1] A prior.
_UPPER_SHARE: Final = 0.5
#: Rows from which on the fit uses only some of the clocks; its errors are of all. [rows] For speed.
_MANY_ROWS: Final = 3000
#: Folds in which clocks are left out. [1] A setting of the method.
_FOLDS: Final = 5


@dataclass(frozen=True)
class FittedSweep:
    """Base and voltage of one state of the GPU, what was left out, and the errors on clocks unseen."""

    fit: SweepFit
    held_out: float  # mean absolute relative error of readings whose clock was left out; NaN: too few
    constant: float  # the same of each group's mean power at the other clocks
    left_out: pl.DataFrame  # rows of another state, with the reason


def fitted_sweep(
    read: Sequence[Measured], prior: PowerCalibration, curve: VoltageCurve, *, fit_voltage: bool
) -> FittedSweep | None:
    """Return the fit to all sweeps read, or None where there is none.

    Below some clock a GPU may run in another memory state, in which it draws much less. Readings of the
    lowest clocks that lie more than 10 % from what the upper half of the clocks says are left out, if that
    half explains itself.
    """
    sweeps = [m.sweep for m in read if m.sweep is not None]
    if not sweeps:
        return None
    rows = _over_clocks(_together(sweeps))
    clocks = np.unique(rows.clock_mhz)
    if not len(clocks):
        return None
    free = fit_voltage and len(clocks) >= _FEWEST_CLOCKS
    in_state = np.ones(len(rows.power_w), dtype=np.bool_)
    upper = rows.clock_mhz >= np.quantile(clocks, 1.0 - _UPPER_SHARE)
    if len(clocks) >= 4 * _FEWEST_CLOCKS:
        sure = _fit(take(rows, upper), prior, curve, free)
        off = unseen_residual(rows, upper, prior, sure.voltage, sure.leakage_per_v)
        # what does not explain its own readings predicts no others
        if np.nanmedian(np.abs(off[upper])) <= _OTHER_STATE / 2.0:
            in_state = upper | (rows.clock_mhz > _highest_of_another_state(rows.clock_mhz, off))
    fit = _fit(take(rows, in_state), prior, curve, free)
    held_out_error, constant = _unseen_clocks(take(rows, in_state), prior, fit)
    reason = f"of another state of the GPU: over {100 * _OTHER_STATE:.0f} % from the fit to higher clocks"
    left_out = pl.DataFrame(
        {
            "kernel": rows.group[~in_state].astype(str),
            "clock_mhz": rows.clock_mhz[~in_state],
            "power_w": rows.power_w[~in_state],
            "reason": [reason] * int((~in_state).sum()),
        }
    )
    return FittedSweep(fit, held_out_error, constant, left_out)


def _fit(rows: SweepRows, prior: PowerCalibration, curve: VoltageCurve, free: bool) -> SweepFit:
    clocks = np.unique(rows.clock_mhz)
    stride = max(1, min(-(-len(rows.power_w) // _MANY_ROWS), len(clocks) // _FEWEST_CLOCKS))
    sampled = np.isin(rows.clock_mhz, clocks[::stride])
    sampled |= ~np.isin(rows.group, rows.group[sampled])
    fit = fit_sweep(take(rows, sampled), prior, curve, fit_voltage=free)
    if sampled.all():
        return fit
    return replace(fit, residual=unseen_residual(rows, sampled, prior, fit.voltage, fit.leakage_per_v))


def _together(sweeps: Sequence[SweepRows]) -> SweepRows:
    share = [
        np.ones(len(sweep.power_w)) if sweep.memory_share is None else sweep.memory_share for sweep in sweeps
    ]
    return SweepRows(
        power_w=np.concatenate([sweep.power_w for sweep in sweeps]),
        clock_mhz=np.concatenate([sweep.clock_mhz for sweep in sweeps]),
        duration_s=np.concatenate([sweep.duration_s for sweep in sweeps]),
        group=np.concatenate([sweep.group for sweep in sweeps]),
        memory_share=np.concatenate(share),
    )


def _over_clocks(rows: SweepRows) -> SweepRows:
    """Return the rows of groups at two clocks or more, and idle rows: others do not constrain the base."""
    readings = pl.DataFrame({"group": rows.group.astype(str), "clock": rows.clock_mhz})
    clocks = readings.select(pl.col("clock").n_unique().over("group")).to_series().to_numpy()
    return take(rows, (clocks >= 2) | ~np.isfinite(rows.duration_s))


def _highest_of_another_state(clock_mhz: Floats, off: Floats) -> float:
    """Return the highest of the consecutive lowest clocks with readings far from the fit; 0 if none. [MHz]"""
    highest = 0.0
    for clock in np.unique(clock_mhz):
        misses = np.abs(off[clock_mhz == clock])
        misses = misses[np.isfinite(misses)]
        if not misses.size or np.median(misses) <= _OTHER_STATE:
            return highest
        highest = float(clock)
    return highest


def _unseen_clocks(rows: SweepRows, prior: PowerCalibration, fit: SweepFit) -> tuple[float, float]:
    """Return the mean error at clocks left out of base and work, and that of each group's mean power."""
    clocks, place = np.unique(rows.clock_mhz, return_inverse=True)
    if len(clocks) < _FEWEST_CLOCKS:
        return float("nan"), float("nan")
    off, plain = np.full(len(place), np.nan), np.full(len(place), np.nan)
    for turn in range(_FOLDS):
        out: Bools = place % _FOLDS == turn
        off[out] = unseen_residual(rows, ~out, prior, fit.voltage, fit.leakage_per_v)[out]
        power = pl.DataFrame({"group": rows.group.astype(str), "power": np.where(out, np.nan, rows.power_w)})
        mean = power.select(pl.col("power").fill_nan(None).mean().over("group")).to_series().to_numpy()
        plain[out] = (mean / rows.power_w - 1.0)[out]
    with_error = np.isfinite(off) & np.isfinite(plain)
    if not with_error.any():
        return float("nan"), float("nan")
    return float(np.abs(off[with_error]).mean()), float(np.abs(plain[with_error]).mean())
