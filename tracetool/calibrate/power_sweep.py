"""Base power and voltage curve from sweeps: the same work at many clocks, its counts unknown.

A kernel repeated at many clocks costs the same counts each time. Whatever they are, one number a
kernel stands for them; the way power bends with the clock then shows the voltage, and what is left
at every clock is the base. One idle curve or one FMA sweep is enough for a GPU's base and knee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize, nnls

from tracetool.core.arrays import Bools, Floats, Ints, Texts, mean_size
from tracetool.core.number_text import counted
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import BASE, PowerCalibration

#: Relative error beyond which a reading loses weight. [1] A prior.
_ROW_SD = 0.03
#: Kernels that the prior of base power and voltage counts as: how power follows the clock differs by kernel,
#: and a few kernels separate base power from voltage badly. [kernels] A prior.
_PRIOR_KERNELS = 4.0
#: The same for a prior that was fitted on this GPU model, on tens of kernels. [kernels] A prior.
_FITTED_KERNELS = 40.0
#: Share of the way from the prior to the fit from which on a voltage counts as measured. [1] A prior.
_MEASURED_SHARE = 0.9
#: Independent readings a group counts as, at most. [readings] A prior.
_READINGS_PER_GROUP = 60.0
#: Standard deviation of the voltage curve's prior: knee relative [1], slope [V/GHz] and curvature [V/GHz^2]
#: above the floor. Priors.
_KNEE_SD, _SLOPE_SD, _CURVE_SD = 0.15, 0.25, 0.5
#: Parameters of the voltage curve: knee, slope, curvature, growth of leakage. [1] By definition.
_CURVE_PARAMETERS = 4
#: Standard deviation of the growth of leakage per volt above the floor, about zero. [1/V] A prior.
_GROWTH_SD = 3.0
#: Relative standard deviation of the coefficients of base power. [1] Priors.
_BASE_SD = np.array([0.8, 0.8, 0.6, 0.8])


@dataclass(frozen=True)
class SweepRows:
    """Power and time of groups of identical work; shape (n,) each.

    ``duration_s`` is NaN for idle rows; ``memory_share`` is the memory clock over the usual one.
    """

    power_w: Floats
    clock_mhz: Floats
    duration_s: Floats
    group: Texts
    memory_share: Floats | None = None


@dataclass(frozen=True)
class SweepFit:
    """Voltage curve, base and each group's work; relative residual of every row."""

    voltage: VoltageCurve
    base: Floats  # (4,) fixed, memory, leakage, clock tree
    leakage_per_v: float  # growth of leakage beyond proportion to the voltage [1/V]
    leakage_per_w: float  # growth of leakage as a load warms the chip, weighted by what the prior keeps [1/W]
    work_w: Floats  # (groups,) work at 1 V and the group's shortest time
    groups: Texts
    residual: Floats
    loaded: bool = True  # whether any row ran work, so that the base is that of a warm chip
    kernels: int = 0  # groups that ran work
    data_share: float = 1.0  # share of the way from the prior to the fit that curve and base moved [1]

    @property
    def error(self) -> float:
        """Mean absolute relative error."""
        return mean_size(self.residual)

    def notes(self, *, idle: bool) -> list[str]:
        """Return sentences on the data behind the fit; ``idle``: whether the idle GPU was read too."""
        mean = f"{100 * self.error:.2f} % in the mean"
        sentences = [f"base and voltage from {counted(len(self.residual), 'reading')}: {mean}"]
        if self.data_share < _MEASURED_SHARE and not idle:
            sentences.append(
                f"base and voltage rest on {counted(self.kernels, 'kernel')}, and how power follows the "
                f"clock differs by kernel: they move {self.data_share:.2f} of the way from the prior to the "
                "fit; give more kernels or an idle curve"
            )
        return sentences


def take(rows: SweepRows, chosen: Bools) -> SweepRows:
    """Return the chosen rows."""
    share = None if rows.memory_share is None else rows.memory_share[chosen]
    return SweepRows(
        rows.power_w[chosen], rows.clock_mhz[chosen], rows.duration_s[chosen], rows.group[chosen], share
    )


def unseen_residual(
    rows: SweepRows, fit_rows: Bools, prior: PowerCalibration, curve: VoltageCurve, growth: float
) -> Floats:
    """Return the relative residual of every row about base and work fitted to the rows ``seen`` alone.

    The voltage curve and the growth of leakage with it are given. NaN for rows of a group of which nothing
    was seen.
    """
    names, place = np.unique(rows.group.astype(str), return_inverse=True)
    fitted_groups = np.isin(np.arange(len(names)), place[fit_rows])
    _, order = np.unique(place[fit_rows], return_inverse=True)
    fitted = take(rows, fit_rows)
    _, base, work, _ = _linear(fitted, prior, curve, order, growth)
    work_of_groups = np.zeros(len(names))
    work_of_groups[fitted_groups] = work
    # Work is stated at a group's shortest time, of the rows it was fitted to.
    shortest = np.full(len(names), np.inf)
    np.fmin.at(shortest, place[fit_rows], fitted.duration_s)
    matrix = _design(rows, curve, place, growth, shortest)
    predicted_w = matrix @ np.concatenate([base, work_of_groups])
    return np.where(fitted_groups[place], predicted_w / rows.power_w - 1.0, np.nan)


def fit_sweep(
    rows: SweepRows, prior: PowerCalibration, voltage: VoltageCurve, *, fit_voltage: bool = True
) -> SweepFit:
    r"""Fit the voltage curve and the base from sweeps.

    .. math:: P = c_0 + c_m f_m / f_{m0} + c_1 V + c_2 V^2 f + k_g V^2 / t

    With n kernels and no readings of the idle GPU, curve and base move n / (n + 4 a) of the way from the
    prior to the fit, at any number of clocks: how power follows the clock differs by kernel, so that n
    kernels are n draws of it. One kernel does not show how much kernels differ (a = 1). With more, a is the
    variance that their common curve leaves over that of a reading, with the curve's parameters subtracted
    from the degrees of freedom. Where the prior was fitted on this GPU model, 40 a replaces 4 a. As far as
    base power stays that of the prior, which is of a cool chip, a load still warms the chip.

    Parameters
    ----------
    rows : SweepRows
        Readings; only groups of at least two clocks contain information.
    prior : PowerCalibration
        Prior of base power.
    voltage : VoltageCurve
        Prior of the voltage curve; its floor is kept, because power does not determine it.
    fit_voltage : bool
        Fit knee and rise; otherwise the curve is taken as known.
    """
    names, place = np.unique(rows.group.astype(str), return_inverse=True)
    running = np.isfinite(rows.duration_s)
    loaded, kernels = bool(running.any()), len(np.unique(place[running]))

    def curve(x: Floats) -> VoltageCurve:
        if not fit_voltage:
            return voltage
        floor = voltage.floor_v
        return replace(
            voltage,
            knee_mhz=voltage.knee_mhz * float(np.exp(_KNEE_SD * x[0])),
            slope_v_per_ghz=max(0.0, voltage.slope_v_per_ghz + _SLOPE_SD * floor * float(x[1])),
            curve_v_per_ghz2=max(0.0, voltage.curve_v_per_ghz2 + _CURVE_SD * floor * float(x[2])),
            max_v=voltage.floor_v * 1.7,
        )

    def growth(x: Floats) -> float:
        return _GROWTH_SD * abs(float(x[3]))

    def loss(x: Floats) -> float:
        return _linear(rows, prior, curve(x), place, growth(x))[0] + float((x**2).sum())

    fitted = _curve(loss) if fit_voltage else np.zeros(_CURVE_PARAMETERS)
    _, base, work, residual = _linear(rows, prior, curve(fitted), place, growth(fitted))
    share = 1.0
    if kernels > 0 and running.all():
        degrees_of_freedom = len(residual) - len(BASE) - kernels - (_CURVE_PARAMETERS if fit_voltage else 0)
        variance_ratio = 1.0
        if kernels > 1 and degrees_of_freedom > 0:
            variance_ratio = float((residual**2).sum()) / degrees_of_freedom / _ROW_SD**2
        prior_kernels = _FITTED_KERNELS if prior.basis == "calibrated" else _PRIOR_KERNELS
        share = kernels / (kernels + prior_kernels * variance_ratio)
    best, grown = curve(share * fitted), growth(share * fitted)
    best = replace(best, measured=voltage.measured or (fit_voltage and share >= _MEASURED_SHARE))
    shrunk_base = _prior_base(prior) + share * (base - _prior_base(prior))
    work, residual = _work_beside(rows, best, place, grown, shrunk_base)
    # Rows under load have the base power of a warm chip; the prior is that of a cool one, which warms.
    heating = prior.leakage_per_w * (1.0 - share if loaded else 1.0)
    return SweepFit(
        best, shrunk_base, grown, heating, work, names.astype(object), residual, loaded, kernels, share
    )


def _curve(loss: Callable[[Floats], float]) -> Floats:
    """Return the voltage curve's parameters of least loss, in prior standard deviations. Shape (4,)."""
    start = np.zeros(_CURVE_PARAMETERS)
    simplex = np.vstack([start, 0.7 * np.eye(_CURVE_PARAMETERS)])
    options = {"maxiter": 240, "xatol": 0.01, "fatol": 0.01, "initial_simplex": simplex}
    return np.asarray(minimize(loss, start, method="Nelder-Mead", options=options).x)


def _prior_base(prior: PowerCalibration) -> Floats:
    """Return the prior of base power. Shape (4,). [W] and derived units"""
    return np.array([getattr(prior, name) for name in BASE])


def _work_beside(
    rows: SweepRows, curve: VoltageCurve, place: Ints, growth: float, base: Floats
) -> tuple[Floats, Floats]:
    """Return the power of each group's work, not negative, above a base, and each row's relative residual."""
    shortest = np.full(int(place.max()) + 1, np.inf)
    np.fmin.at(shortest, place, rows.duration_s)
    matrix = _design(rows, curve, place, growth, shortest) / rows.power_w[:, None]
    of_work = matrix[:, len(base) :].sum(axis=1)
    missing = 1.0 - matrix[:, : len(base)] @ base
    work = np.bincount(place, of_work * missing) / np.maximum(np.bincount(place, of_work**2), 1e-300)
    work = np.maximum(work, 0.0)
    return work, of_work * work[place] - missing


def _design(rows: SweepRows, curve: VoltageCurve, place: Ints, growth: float, shortest: Floats) -> Floats:
    """Return the power of each row per unit of base and of each group's work."""
    volt, base = curve.at(rows.clock_mhz), len(BASE)
    running = np.isfinite(rows.duration_s) & np.isfinite(shortest[place])
    with np.errstate(invalid="ignore"):
        rate = np.where(running, shortest[place] / rows.duration_s, 0.0)
    matrix = np.zeros((len(volt), base + len(shortest)))
    leaking = volt * np.exp(growth * (volt - curve.floor_v))
    matrix[:, 0], matrix[:, 2], matrix[:, 3] = 1.0, leaking, volt**2 * rows.clock_mhz / 1e3
    matrix[:, 1] = 1.0 if rows.memory_share is None else rows.memory_share
    matrix[np.arange(len(volt)), base + place] = np.nan_to_num(volt**2 * rate)
    return matrix


def _linear(
    rows: SweepRows, prior: PowerCalibration, curve: VoltageCurve, place: Ints, growth: float
) -> tuple[float, Floats, Floats, Floats]:
    """Return loss, base, work and residuals at one curve: a non-negative least squares."""
    groups, base = int(place.max()) + 1, len(BASE)
    shortest = np.full(groups, np.inf)
    np.fmin.at(shortest, place, rows.duration_s)
    matrix = _design(rows, curve, place, growth, shortest)
    count = len(matrix)
    matrix /= rows.power_w[:, None]
    prior_base = _prior_base(prior)
    spread = np.maximum(_BASE_SD * prior_base, 1.0)
    prior_rows = np.zeros((base, base + groups))
    prior_rows[np.arange(base), np.arange(base)] = 1.0 / spread
    # readings of one kernel share its error: many clocks count as some tens of independent readings
    weight = min(1.0, np.sqrt(_READINGS_PER_GROUP * groups / count)) / _ROW_SD
    robust = np.ones(count)
    values = np.zeros(base + groups)
    for _ in range(3):
        w = weight * np.sqrt(robust)
        target = np.concatenate([w, prior_base / spread])
        values, _ = nnls(np.vstack([matrix * w[:, None], prior_rows]), target)
        miss = np.abs(matrix @ values - 1.0) / _ROW_SD
        robust = 1.0 / np.maximum(miss / 1.5, 1.0)
    residual = matrix @ values - 1.0
    miss = np.abs(residual) / _ROW_SD
    huber = np.where(miss < 1.5, miss**2, 3.0 * miss - 2.25)
    distance = ((values[:base] - prior_base) / spread) ** 2
    loss = float((weight * _ROW_SD) ** 2 * huber.sum() + distance.sum())
    return loss, values[:base], values[base:], residual


def with_base(start: PowerCalibration, sweep: SweepFit) -> PowerCalibration:
    """Return a calibration with the base of a sweep."""
    board_w, memory, leakage, tree = (float(v) for v in sweep.base)
    return replace(
        start,
        board_w=board_w,
        memory_w=memory,
        leakage_w_per_v=leakage,
        clock_w_per_v2_ghz=tree,
        leakage_per_v=sweep.leakage_per_v,
        leakage_per_w=sweep.leakage_per_w if sweep.loaded else start.leakage_per_w,
    )
