"""Fit one set of coefficients to rows of several GPUs at once, each coefficient held near a center.

What is fitted is the habit of an implementation: its tiles, its steps, its launches. The GPUs differ by the
numbers of their sheets; where those do not separate the kernels of two architectures, an architecture gets
factors of its own, drawn towards 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tracetool.calibrate.law_fit import ROBUST, LawRows, best_choices, misfits, residuals, sample
from tracetool.core.arrays import Floats
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu

#: Rows of each GPU that coefficients and choices are fitted to, drawn at random. [rows] Settings.
FIT_ROWS: Final = 500
CHOICE_ROWS: Final = 160
#: Rows each GPU counts for at most: rows of like shapes are not independent. [rows] A prior.
COUNTED_ROWS: Final = 300.0
#: Standard deviation of ln of a coefficient about its center: that of a law's prior, and that of an
#: architecture's about the implementation's. [1] Priors.
PRIOR_SD: Final = 0.6
ARCHITECTURE_SD: Final = 0.35
#: A coefficient within this of its center is the center's: ln of a factor, of an implementation and of an
#: architecture. [1] Settings of the method: what they cost is in the errors held back.
SAME: Final = 0.04
SAME_ARCHITECTURE: Final = 0.08
#: A residual of a row whose time no law can give. [1] By definition larger than any outlier that counts.
_IMPOSSIBLE: Final = 3.0
#: Step of ln of a coefficient for its derivative. [1] A setting of the method.
_STEP: Final = 3e-3


@dataclass(frozen=True)
class GpuRows:
    """Measured rows of one law and one implementation on one GPU."""

    gpu: Gpu
    law_rows: LawRows


@dataclass(frozen=True)
class JointFit:
    """Coefficients of an implementation, and what architectures change of them."""

    values: Mapping[str, float]
    by_architecture: Mapping[str, Mapping[str, float]]

    def on(self, gpu: Gpu) -> dict[str, float]:
        """Return the coefficients on a GPU."""
        return {**self.values, **self.by_architecture.get(gpu.architecture, {})}


def errors(law: Law, gpu_rows: GpuRows, values: Mapping[str, float]) -> Floats:
    """Return ln(predicted / measured) of each row. Shape (n,)."""
    return _finite(residuals(law, gpu_rows.law_rows, gpu_rows.gpu, values))


def _misfits(law: Law, gpu_rows: GpuRows, values: Mapping[str, float]) -> Floats:
    """Return the residual that a fit minimizes, for each row. Shape (n,)."""
    return _finite(misfits(law, gpu_rows.law_rows, gpu_rows.gpu, values))


def _finite(off: Floats) -> Floats:
    return np.where(np.isfinite(off), off, _IMPOSSIBLE)


def fit_joint(law: Law, rows_by_gpu: Sequence[GpuRows]) -> JointFit:
    """Fit an implementation's coefficients to all GPUs, then what each architecture changes of them.

    Parameters
    ----------
    law : Law
        The law that times the rows.
    rows_by_gpu : sequence of GpuRows
        Rows of each GPU; every GPU weighs the same.
    """
    shared = _near(law, rows_by_gpu, {k: c.value for k, c in law.priors.items()}, PRIOR_SD, SAME)
    names = sorted({gpu_rows.gpu.architecture for gpu_rows in rows_by_gpu})
    by_architecture: dict[str, Mapping[str, float]] = {}
    for name in names if len(names) > 1 else ():
        values = _near(
            law,
            [gpu_rows for gpu_rows in rows_by_gpu if gpu_rows.gpu.architecture == name],
            shared,
            ARCHITECTURE_SD,
            SAME_ARCHITECTURE,
        )
        by_architecture[name] = {k: v for k, v in values.items() if v != shared[k]}
    return JointFit(shared, by_architecture)


def _near(
    law: Law, rows_by_gpu: Sequence[GpuRows], center: Mapping[str, float], sd: float, same: float
) -> dict[str, float]:
    """Return the coefficients of some rows: the center's but for those that differ from it markedly."""
    values = _chosen(law, rows_by_gpu, {**center, **_floors(law, rows_by_gpu, center)}, center, sd)
    differing = {k: v for k, v in values.items() if _differs(law, k, v, center[k], same)}
    free = [k for k in differing if law.priors[k].fitted]
    return fit_near(law, rows_by_gpu, {**center, **differing}, center, sd, free=free)


def _floors(law: Law, rows_by_gpu: Sequence[GpuRows], center: Mapping[str, float]) -> dict[str, float]:
    """Return the host's floors where rows have them: one far below every row leaves no slope."""
    least_us = (
        float(np.median([np.quantile(gpu_rows.law_rows.measured_s, 0.02) for gpu_rows in rows_by_gpu])) * 1e6
    )
    names = [name for name in law.priors if name.startswith("floor")]
    return {
        name: float(np.clip(least_us, max(center[name], law.priors[name].low), law.priors[name].high))
        for name in names
    }


def _differs(law: Law, name: str, value: float, center: float, same: float) -> bool:
    if not law.priors[name].fitted or min(value, center) <= 0.0:
        return value != center
    return abs(float(np.log(value / center))) > same


def fit_near(
    law: Law,
    rows_by_gpu: Sequence[GpuRows],
    start: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
    *,
    free: Sequence[str] | None = None,
    steps: int = 25,
) -> dict[str, float]:
    r"""Return the coefficients of greatest posterior: errors robustly small, each near its center.

    .. math:: \min_x \sum_g \frac{N}{n_g} \sum_i \rho(e_{gi}) + \sum_k \left(
       \frac{s \, (x_k - c_k)}{\sigma} \right)^2, \quad x = \ln \theta

    by damped Gauss-Newton steps, with :math:`\rho` the smooth L1 norm beyond ``ROBUST``.

    Parameters
    ----------
    start, center : mapping of str to float
        Coefficients to start from, and those they are drawn to.
    sd : float
        Standard deviation of ln of a coefficient about its center.
    free : sequence of str, optional
        The coefficients that move; by default all a fit moves.
    steps : int
        Most steps.
    """
    sampled = [GpuRows(gpu_rows.gpu, sample(gpu_rows.law_rows, FIT_ROWS)) for gpu_rows in rows_by_gpu]
    return _fit(law, sampled, start, center, sd, free, steps)[0]


@dataclass(frozen=True)
class _Problem:
    """A fit to minimize: rows, the coefficients that move, their center and how strongly it draws."""

    law: Law
    parts: Sequence[GpuRows]
    fixed: Mapping[str, float]  # every coefficient, those that move among them
    names: Sequence[str]  # those that move
    center: Floats  # ln
    pull: float  # a residual of the size of an outlier weighs as much as one standard deviation

    @classmethod
    def of(
        cls,
        law: Law,
        rows_by_gpu: Sequence[GpuRows],
        values: Mapping[str, float],
        center: Mapping[str, float],
        sd: float,
        free: Sequence[str] | None = None,
    ) -> _Problem:
        names = [k for k, c in law.priors.items() if c.fitted and (free is None or k in free)]
        return cls(law, rows_by_gpu, values, names, np.log([center[k] for k in names]), (ROBUST / sd) ** 2)

    def at(self, x: Floats) -> dict[str, float]:
        """Return all coefficients, those that move at the exponential of ``x``."""
        return {**self.fixed, **{k: float(v) for k, v in zip(self.names, np.exp(x), strict=True)}}

    def loss(self, x: Floats) -> tuple[float, list[Floats]]:
        """Return the loss, and the errors of each part's rows."""
        off = [_misfits(self.law, gpu_rows, self.at(x)) for gpu_rows in self.parts]
        robust = sum(_smooth(e).mean() * _counted(len(e)) for e in off)
        return float(robust + self.pull * ((x - self.center) ** 2).sum()), off

    def normal(self, x: Floats, off: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return the matrix and the slope of the normal equations."""
        count = len(self.names)
        matrix, slope = np.eye(count) * self.pull, self.pull * (x - self.center)
        high = np.log([self.law.priors[k].high for k in self.names])
        step = np.where(x + _STEP <= high, _STEP, -_STEP)
        for gpu_rows, error in zip(self.parts, off, strict=True):
            moved = _moved(self.law, gpu_rows, self.at(x), self.names, step)
            jacobian = np.stack([(m - error) / h for m, h in zip(moved, step, strict=True)], axis=1)
            weight = _counted(len(error)) / len(error) / np.sqrt(1.0 + (error / ROBUST) ** 2)
            matrix += jacobian.T @ (jacobian * weight[:, None])
            slope += jacobian.T @ (weight * error)
        return matrix, slope


def _fit(
    law: Law,
    rows_by_gpu: Sequence[GpuRows],
    start: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
    free: Sequence[str] | None,
    steps: int,
) -> tuple[dict[str, float], float]:
    problem = _Problem.of(law, rows_by_gpu, start, center, sd, free)
    names = problem.names
    low, high = (np.log([getattr(law.priors[k], side) for k in names]) for side in ("low", "high"))
    x = np.clip(np.log([start[k] for k in names]), low, high)
    best, off = problem.loss(x)
    if not names:
        return dict(start), best
    damping = 1e-2
    for _ in range(steps):
        matrix, slope = problem.normal(x, off)
        for _ in range(5):
            damped = matrix + damping * np.diag(np.diag(matrix)) + 1e-9 * np.eye(len(names))
            candidate = np.clip(x - np.clip(np.linalg.solve(damped, slope), -1.0, 1.0), low, high)
            cost, candidate_off = problem.loss(candidate)
            if cost < best:
                break
            damping *= 5.0
        else:
            break
        gain, best, x, off, damping = best - cost, cost, candidate, candidate_off, max(damping / 3.0, 1e-4)
        if gain < 2e-3 * best:
            break
    return problem.at(x), best


def _moved(
    law: Law, gpu_rows: GpuRows, values: Mapping[str, float], names: Sequence[str], step: Floats
) -> Sequence[Floats]:
    """Return the errors with one coefficient after another moved by a step of its logarithm, sizes pinned.

    A law whose equations take a coefficient a row gets all of them at once: the rows again and again, each
    time with another coefficient moved.
    """
    count, law_rows = len(gpu_rows.law_rows.measured_s), gpu_rows.law_rows
    if law.pin is not None:
        law_rows = replace(law_rows, rows=law.pin(law_rows.rows, gpu_rows.gpu, values))
    moved = {name: values[name] * float(np.exp(h)) for name, h in zip(names, step, strict=True)}
    if not law.by_row:
        pinned = GpuRows(gpu_rows.gpu, law_rows)
        return [_misfits(law, pinned, {**values, name: value}) for name, value in moved.items()]
    columns: dict[str, Any] = dict(values)
    for place, (name, value) in enumerate(moved.items()):
        columns[name] = np.repeat(np.where(np.arange(len(names)) == place, value, values[name]), count)
    repeated = GpuRows(gpu_rows.gpu, law_rows.take(np.tile(np.arange(count), len(names))))
    return list(_misfits(law, repeated, columns).reshape(len(names), count))


def posterior(
    law: Law,
    rows_by_gpu: Sequence[GpuRows],
    values: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
) -> tuple[float, dict[str, float]]:
    """Return the loss of :func:`fit_near`, and the standard deviation of ln of each coefficient.

    Without rows that is ``sd``; the rows reduce it (the Laplace approximation).
    """
    problem = _Problem.of(law, rows_by_gpu, values, center, sd)
    x = np.log([values[k] for k in problem.names])
    cost, off = problem.loss(x)
    matrix, _ = problem.normal(x, off)
    deviation = ROBUST * np.sqrt(np.diag(np.linalg.inv(matrix)))
    return cost, {k: float(s) for k, s in zip(problem.names, deviation, strict=True)}


def _counted(rows: int) -> float:
    return min(COUNTED_ROWS, float(rows))


def _smooth(error: Floats) -> Floats:
    return np.asarray(2.0 * ROBUST**2 * (np.sqrt(1.0 + (error / ROBUST) ** 2) - 1.0))


def _chosen(
    law: Law,
    rows_by_gpu: Sequence[GpuRows],
    start: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
) -> dict[str, float]:
    """Return the coefficients with the best sizes and habits, tried one after another from several starts."""
    sampled = [GpuRows(gpu_rows.gpu, sample(gpu_rows.law_rows, CHOICE_ROWS)) for gpu_rows in rows_by_gpu]

    def fit(values: Mapping[str, float], steps: int) -> tuple[dict[str, float], float]:
        return _fit(law, sampled, values, center, sd, None, steps)

    if any(c.choices for c in law.priors.values()):
        tried = [
            fit(best_choices(law, {**start, **habits}, fit, trial_steps=2)[0], 4)
            for habits in ({}, *law.habits)
        ]
        start = min(tried, key=lambda one: one[1])[0]
    return fit_near(law, rows_by_gpu, start, center, sd)
