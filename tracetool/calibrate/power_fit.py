"""Fit power coefficients: non-negative, ordered, held to priors, robust to outliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.optimize import minimize, nnls

from tracetool.calibrate.power_rows import COEFFICIENTS, PowerRows
from tracetool.core.arrays import Floats
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.power_calibration import BASE, CORE_COUNTS, PowerCalibration
from tracetool.model.thermal import leakage_growth, self_heating_w

#: Pairs (less, more): an energy that physics keeps under another's.
ORDER: Final = (
    ("tensor_fp4_pj", "tensor_fp8_pj"),
    ("tensor_fp8_pj", "tensor_fp16_pj"),
    ("tensor_fp16_pj", "tensor_tf32_pj"),
    ("tensor_tf32_pj", "tensor_fp64_pj"),
    ("fp32_pj", "fp64_pj"),
    ("shared_pj", "l2_pj"),
)
#: Relative standard deviation of the prior of a coefficient of base power. [1] Priors.
PRIOR_SD: Final[Mapping[str, float]] = MappingProxyType(
    {
        "board_w": 0.8,
        "memory_w": 0.8,
        "leakage_w_per_v": 0.6,
        "clock_w_per_v2_ghz": 0.8,
        "active_pj_per_clock_sm": 0.6,
    }
)
#: The same of an energy per operation or byte. [1] A prior.
_PRIOR_SD_COUNT = 0.5
#: Relative error added, in quadrature, to a fitted energy that is transferred to another GPU. [1] A prior.
_TRANSFERRED_SD = 0.2
_LEAKAGE: Final = BASE.index("leakage_w_per_v")
#: Growth of leakage with load: factors on its prior that are tried, and the prior's deviation of ln. [1]
#: Priors.
_HEATING: Final = np.exp(np.linspace(-1.2, 1.2, 17))
_HEATING_SD: Final = 0.5
#: Coefficients of base power that depend on the core clock little or not at all.
_STEADY = frozenset({"board_w", "memory_w", "leakage_w_per_v"})
#: Relative error beyond which a row loses weight (Huber). [1] A prior.
_ROW_SD = 0.06
#: Independent rows that a group of many counts as: rows of a group share its error. [rows] A prior.
_ROWS_PER_GROUP = 6.0
#: Relative scatter of a table of powers, at least. [1] A prior.
_LEAST_SD = 0.02
#: Standard deviation of the voltage curve's parameters about their prior: knee [MHz], slopes relative. [1]
#: Priors.
_KNEE_SD_MHZ, _SLOPE_SD = 120.0, 0.7


@dataclass(frozen=True)
class PowerFit:
    """Fitted coefficients, and how much of each the rows determine."""

    calibration: PowerCalibration
    values: Floats  # (k,) in the order of COEFFICIENTS
    sd: Floats  # (k,) posterior standard deviation
    data_share: Floats  # (k,) share of the prior's variance the rows removed, 0 to 1
    fitted_w: Floats  # (n,)


def coefficient_vector(calibration: PowerCalibration) -> Floats:
    """Return the coefficients in the order of ``COEFFICIENTS``."""
    core = {f"{name}_pj": calibration.core_pj[name] for name in CORE_COUNTS}
    return np.array([core[c] if c in core else getattr(calibration, c) for c in COEFFICIENTS])


def with_coefficients(start: PowerCalibration, values: Floats) -> PowerCalibration:
    """Return a calibration with its coefficients replaced."""
    named = dict(zip(COEFFICIENTS, (float(v) for v in values), strict=True))
    return replace(
        start,
        board_w=named["board_w"],
        memory_w=named["memory_w"],
        leakage_w_per_v=named["leakage_w_per_v"],
        clock_w_per_v2_ghz=named["clock_w_per_v2_ghz"],
        core_pj=MappingProxyType({name: named[f"{name}_pj"] for name in CORE_COUNTS}),
        active_pj_per_clock_sm=named["active_pj_per_clock_sm"],
        dram_pj_per_byte=named["dram_pj_per_byte"],
        link_pj_per_byte=named["link_pj_per_byte"],
    )


def prior_sd(
    values: Floats, base_w: float, *, known_base: bool = False, carried: Mapping[str, float] | None = None
) -> Floats:
    """Return the standard deviation of each prior.

    The base's is at least a tenth of the idle power, or hardly anything where an idle curve of the
    same GPU said it (``known_base``). An energy ``carried`` from a GPU it was fitted on is believed as
    firmly as that fit left it, widened by the carrying.
    """
    relative = np.array([PRIOR_SD.get(c, _PRIOR_SD_COUNT) for c in COEFFICIENTS])
    floor = np.array([0.1 * base_w if c in _STEADY else 1e-3 for c in COEFFICIENTS])
    spread = np.maximum(relative * values, floor)
    for i, name in enumerate(COEFFICIENTS):
        if name not in BASE and (carried or {}).get(name, 0.0) > 0:
            spread[i] = np.hypot((carried or {})[name], _TRANSFERRED_SD * values[i])
    if known_base:
        spread[: len(BASE)] = np.maximum(0.01 * values[: len(BASE)], 0.05)
    return np.asarray(spread)


def _ordering() -> Floats:
    """Return T with ``coefficients = T @ steps``: each ordered one is the one under it plus a step."""
    place = {name: i for i, name in enumerate(COEFFICIENTS)}
    steps = np.eye(len(COEFFICIENTS))
    for less, more in ORDER:
        steps[place[more]] += steps[place[less]]
    return steps


def row_weights(rows: PowerRows) -> Floats:
    """Return the weight of each row: one, less where its group has many."""
    _, place, count = np.unique(rows.group.astype(str), return_inverse=True, return_counts=True)
    return np.asarray(np.minimum(1.0, _ROWS_PER_GROUP / count[place]))


@dataclass(frozen=True)
class Scatter:
    """Relative spread of groups about the model, and of rows about their group."""

    groups: float
    rows: float

    def weights(self, rows: PowerRows) -> Floats:
        """Return the square root of each row's precision: the n rows of a group share its error."""
        _, place, count = np.unique(rows.group.astype(str), return_inverse=True, return_counts=True)
        return np.asarray(1.0 / np.sqrt(self.rows**2 + count[place] * self.groups**2))


def _scatter(rows: PowerRows, fitted_w: Floats, fitted_count: float) -> Scatter:
    """Return the scatter of rows about a fit that took ``fitted_count`` coefficients from their groups."""
    off = np.log(np.maximum(fitted_w, 1e-9) / rows.power_w)
    _, place, count = np.unique(rows.group.astype(str), return_inverse=True, return_counts=True)
    mean = np.bincount(place, off) / count
    within = float(np.sqrt(np.mean((off - mean[place]) ** 2)))
    free = max(len(count) - fitted_count, 1.0)
    return Scatter(max(float(np.sqrt((mean**2).sum() / free)), _LEAST_SD), max(within, _LEAST_SD))


def fit_power(
    rows: PowerRows,
    prior: PowerCalibration,
    voltage: VoltageCurve,
    *,
    fit_voltage: bool = False,
    known_base: bool = False,
    heating_per_w: float = 0.0,
    scattered: bool = False,
) -> PowerFit:
    r"""Fit coefficients to measured power.

    Minimizes the relative residuals (Huber) plus the squared distance to the prior in units of its
    spread, under non-negativity and the orders of ``ORDER``. With ``fit_voltage``, knee and rise of
    the voltage curve are fitted too; its floor is not identifiable from power and stays.

    Parameters
    ----------
    rows : PowerRows
        Measurements.
    prior : PowerCalibration
        Prior of the coefficients.
    voltage : VoltageCurve
        Curve of the GPU, or its prior.
    fit_voltage : bool
        Fit knee and rise of the curve.
    known_base : bool
        The prior's base was measured on this GPU with nothing running: keep it.
    heating_per_w : float
        With it, how leakage grows with the load is fitted too, from this prior: a base read from an idle
        GPU is that of a cold chip. See ``PowerCalibration.leakage_per_w``. [1/W]
    scattered : bool
        Groups lie about the model by more than their rows do about their group: how much is taken from the
        rows, and each group then counts by it.
    """
    curve = _best_curve(rows, prior, voltage, known_base) if fit_voltage else voltage
    if heating_per_w > 0:
        prior = _heated(rows, prior, curve, known_base, heating_per_w)
    values, _, sd, data_share = _solve(rows, prior, curve, known_base)
    if scattered:
        scatter = _scatter(rows, predicted_w(rows, prior, curve, values), float(data_share.sum()))
        values, _, sd, data_share = _solve(rows, prior, curve, known_base, scatter)
    fitted = predicted_w(rows, prior, curve, values)
    basis = replace(prior, voltage=curve if fit_voltage else None, basis="calibrated")
    names = MappingProxyType(dict(zip(COEFFICIENTS, (float(s) for s in sd), strict=True)))
    calibration = replace(with_coefficients(basis, values), sd=names)
    return PowerFit(calibration, values, sd, data_share, np.asarray(fitted))


def predicted_w(rows: PowerRows, prior: PowerCalibration, curve: VoltageCurve, values: Floats) -> Floats:
    """Return the power that the coefficients predict, without the measured one. Shape (n,). [W]"""
    design = rows.design(curve, prior.leakage_per_v)
    cold, base = design @ values, len(BASE)
    idle, leaks = design[:, :base] @ values[:base], design[:, _LEAKAGE] * values[_LEAKAGE]
    return np.asarray(cold + self_heating_w(cold, idle, leaks, prior.leakage_per_w))


def _heated(
    rows: PowerRows, prior: PowerCalibration, curve: VoltageCurve, known_base: bool, per_w: float
) -> PowerCalibration:
    """Return the prior with the growth of leakage of highest posterior probability."""
    tried = [replace(prior, leakage_per_w=per_w * factor) for factor in _HEATING]
    off = (np.log(_HEATING) / _HEATING_SD) ** 2
    losses = [_solve(rows, p, curve, known_base)[1] for p in tried]
    return tried[int(np.argmin(np.asarray(losses) + off))]


def _solve(
    rows: PowerRows,
    prior: PowerCalibration,
    curve: VoltageCurve,
    known_base: bool,
    scatter: Scatter | None = None,
) -> tuple[Floats, float, Floats, Floats]:
    """Return coefficients, loss, posterior spread and the share of each that rows determine. (k,) each."""
    expected = coefficient_vector(prior)
    idle = expected[0] + expected[1] + expected[2] * float(curve.floor_v)
    # An idle reading of a sleeping GPU says little of its base under load.
    base = max(idle, 0.5 * float(np.median(rows.power_w)))
    carried = prior.sd if prior.basis == "transferred" else {}
    spread = prior_sd(expected, base, known_base=known_base, carried=carried)
    cold = rows.design(curve, prior.leakage_per_v) / rows.power_w[:, None]
    design = cold
    group = np.sqrt(row_weights(rows)) / _ROW_SD if scatter is None else scatter.weights(rows)
    good = _ROW_SD if scatter is None else float(np.hypot(scatter.groups, scatter.rows))
    order = _ordering()
    robust = np.ones(len(rows))
    values = expected
    for _ in range(8):
        weight = group * np.sqrt(robust)
        matrix = np.vstack([design * weight[:, None], np.diag(1.0 / spread)]) @ order
        target = np.concatenate([weight, expected / spread])
        norm = np.sqrt((matrix**2).sum(axis=0))
        steps, _ = nnls(matrix / norm, target, maxiter=50 * len(norm))
        values = order @ (steps / norm)
        if prior.leakage_per_w > 0:
            # By the power the model says: by the measured one, a row's own error would explain itself.
            power = predicted_w(rows, prior, curve, values)
            idle = rows.power_w * (cold[:, : len(BASE)] @ values[: len(BASE)])
            design = cold.copy()
            design[:, _LEAKAGE] *= leakage_growth(power, idle, prior.leakage_per_w)
        miss = np.abs(design @ values - 1.0) / good
        robust = 1.0 / np.maximum(miss / 1.5, 1.0)
    weight = group * np.sqrt(robust)
    precision = (design * weight[:, None]).T @ (design * weight[:, None]) + np.diag(spread**-2.0)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    miss = np.abs(design @ values - 1.0) / _ROW_SD
    huber = np.where(miss < 1.5, miss**2, 3.0 * miss - 2.25)
    loss = float((row_weights(rows) * huber).sum() + (((values - expected) / spread) ** 2).sum())
    return values, loss, sd, 1.0 - np.minimum(sd / spread, 1.0) ** 2


def _best_curve(
    rows: PowerRows, prior: PowerCalibration, start: VoltageCurve, known_base: bool
) -> VoltageCurve:
    def curve(x: Floats) -> VoltageCurve:
        return replace(
            start,
            knee_mhz=start.knee_mhz + _KNEE_SD_MHZ * float(x[0]),
            slope_v_per_ghz=max(0.0, start.slope_v_per_ghz + _SLOPE_SD * _rise(start) * float(x[1])),
            curve_v_per_ghz2=max(0.0, start.curve_v_per_ghz2 * (1 + _SLOPE_SD * float(x[2]))),
            max_v=start.max_v * 1.15,
            measured=True,
        )

    def loss(x: Floats) -> float:
        return _solve(rows, prior, curve(x), known_base)[1] + float((x**2).sum())

    simplex = np.vstack([np.zeros(3), np.eye(3)])
    optimum = minimize(
        loss, np.zeros(3), method="Nelder-Mead",
        options={"maxiter": 150, "xatol": 0.01, "fatol": 0.01, "initial_simplex": simplex},
    )  # fmt: skip
    return curve(optimum.x)


def _rise(curve: VoltageCurve) -> float:
    return max(curve.slope_v_per_ghz, 0.15)
