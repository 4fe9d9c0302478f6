"""Error of a power fit on rows it has not seen, and the plain models it must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.calibrate.power_fit import fit_power, predicted_w
from tracetool.calibrate.power_rows import PowerRows
from tracetool.core.arrays import Bools, Floats, mean_size
from tracetool.core.interval import LEVEL, Z90
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import CORE_COUNTS, PowerCalibration

_PIPES = tuple(i for i, c in enumerate(CORE_COUNTS) if c.startswith("tensor") or c in {"fp32", "fp64"})


@dataclass(frozen=True)
class HeldOut:
    """Predictions of each row by a fit that never saw its group."""

    predicted_w: Floats
    residual: Floats  # relative
    groups: int

    @property
    def mape(self) -> float:
        """Mean absolute relative error over the rows."""
        return mean_size(self.residual)

    @property
    def relative_sd(self) -> float:
        """Spread such that a normal interval of 90 % contains 90 % of the rows."""
        return float(np.quantile(np.abs(np.log1p(np.maximum(self.residual, -0.95))), LEVEL) / Z90)


def held_out(
    rows: PowerRows,
    prior: PowerCalibration,
    voltage: VoltageCurve,
    *,
    known_base: bool = False,
    heating_per_w: float = 0.0,
    scattered: bool = False,
    as_read: PowerRows | None = None,
) -> HeldOut:
    """Return leave-one-group-out predictions at one voltage curve.

    Of rows whose counts were corrected by what is known of them, ``as_read`` are those before: what is
    left out is predicted from these, as a kernel of which nothing more is known would be.
    """
    test_rows = rows if as_read is None else as_read
    names = np.unique(rows.group.astype(str))
    predicted = np.zeros(len(rows))
    for name in names:
        out = rows.group == name
        fit = fit_power(
            rows.take(~out),
            prior,
            voltage,
            known_base=known_base,
            heating_per_w=heating_per_w,
            scattered=scattered,
        )
        predicted[out] = predicted_w(test_rows.take(out), fit.calibration, voltage, fit.values)
    return HeldOut(predicted, predicted / rows.power_w - 1.0, len(names))


@dataclass(frozen=True)
class Baseline:
    """A plain model: its name and its error on groups it has not seen."""

    name: str
    mape: float


def baselines(rows: PowerRows) -> tuple[Baseline, Baseline]:
    """Return the errors of constant power, and of constant + FLOP/s + bytes/s, both held out by group."""
    flops = rows.rates[:, _PIPES].sum(axis=1)
    ones = np.ones(len(rows))
    constant = _held_out_linear(rows, ones[:, None])
    moved = rows.rates[:, CORE_COUNTS.index("stream")]
    three = _held_out_linear(rows, np.column_stack([ones, flops, moved]))
    return Baseline("constant power", constant), Baseline("constant + FLOP/s + bytes/s", three)


def _held_out_linear(rows: PowerRows, columns: Floats) -> float:
    misses = np.zeros(len(rows))
    for name in np.unique(rows.group.astype(str)):
        out: Bools = rows.group == name
        if out.all():
            return float("nan")
        scale = np.maximum(np.abs(columns[~out]).max(axis=0), 1e-30)
        design = columns[~out] / scale / rows.power_w[~out][:, None]
        weights, *_ = np.linalg.lstsq(design, np.ones(int((~out).sum())), rcond=None)
        misses[out] = np.abs((columns[out] / scale) @ weights / rows.power_w[out] - 1.0)
    return float(misses.mean())
