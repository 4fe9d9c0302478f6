"""Fit one set of coefficients to rows of several GPUs at once, each coefficient held near a center.

What is fitted is the habit of an implementation: its tiles, its steps, its launches. The GPUs differ by the
numbers of their sheets; where those do not tell the kernels of two architectures apart, an architecture gets
factors of its own, drawn towards 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tracetool.calibrate.time import LawRows, residuals, sample
from tracetool.core.arrays import Floats, Ints
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu

#: Rows of each GPU that coefficients and choices are fitted to, drawn at random. [rows]
FIT_ROWS: Final = 500
CHOICE_ROWS: Final = 160
#: Rows each GPU counts for at most: rows of like shapes are not independent. [rows]
COUNTED_ROWS: Final = 300.0
#: A residual beyond this counts as an outlier: ln of a factor. [1]
OUTLIER: Final = 0.06
#: Standard deviation of ln of a coefficient about its center: that of a law's prior, and that of an
#: architecture's about the implementation's. [1]
PRIOR_SD: Final = 0.6
ARCHITECTURE_SD: Final = 0.35
#: A coefficient within this of its center is the center's: ln of a factor, of an implementation and of an
#: architecture. [1]
SAME: Final = 0.08
SAME_ARCHITECTURE: Final = 0.15
#: A residual of a row whose time no law can give. [1]
_IMPOSSIBLE: Final = 3.0
_STEP: Final = 3e-3


@dataclass(frozen=True)
class GpuRows:
    """Measured rows of one law and one implementation on one GPU."""

    gpu: Gpu
    data: LawRows


@dataclass(frozen=True)
class JointFit:
    """Coefficients of an implementation, and what architectures change of them."""

    values: Mapping[str, float]
    by_architecture: Mapping[str, Mapping[str, float]]

    def on(self, gpu: Gpu) -> dict[str, float]:
        """Return the coefficients on a GPU."""
        return {**self.values, **self.by_architecture.get(gpu.architecture, {})}


def errors(law: Law, part: GpuRows, values: Mapping[str, float]) -> Floats:
    """Return ln(predicted / measured) of each row. Shape (n,)."""
    off = residuals(law, part.data, part.gpu, values)
    return np.where(np.isfinite(off), off, _IMPOSSIBLE)


def fit_joint(
    law: Law,
    parts: Sequence[GpuRows],
    center: Mapping[str, float] | None = None,
    *,
    architectures: bool = True,
) -> JointFit:
    """Fit an implementation's coefficients to all GPUs, then what each architecture changes of them.

    Parameters
    ----------
    law : Law
        The law that times the rows.
    parts : sequence of GpuRows
        Rows of each GPU; every GPU weighs the same.
    center : mapping of str to float, optional
        Coefficients to start from and stay near; by default the law's priors.
    architectures : bool
        Whether architectures get coefficients of their own.
    """
    start = {k: c.value for k, c in law.priors.items()} | dict(center or {})
    shared = _near(law, parts, start, PRIOR_SD, SAME)
    names = sorted({part.gpu.architecture for part in parts})
    own: dict[str, Mapping[str, float]] = {}
    for name in names if architectures and len(names) > 1 else ():
        values = _near(
            law,
            [part for part in parts if part.gpu.architecture == name],
            shared,
            ARCHITECTURE_SD,
            SAME_ARCHITECTURE,
        )
        own[name] = {k: v for k, v in values.items() if v != shared[k]}
    return JointFit(shared, own)


def _near(
    law: Law, parts: Sequence[GpuRows], center: Mapping[str, float], sd: float, same: float
) -> dict[str, float]:
    """Return the coefficients of some rows: the center's but for those that differ from it markedly."""
    values = _chosen(law, parts, {**center, **_floors(law, parts, center)}, center, sd)
    differing = {k: v for k, v in values.items() if _differs(law, k, v, center[k], same)}
    free = [k for k in differing if law.priors[k].fitted]
    return fit_near(law, parts, {**center, **differing}, center, sd, free=free)


def _floors(law: Law, parts: Sequence[GpuRows], center: Mapping[str, float]) -> dict[str, float]:
    """Return the host's floors where rows have them: one far below every row leaves no slope."""
    least_us = float(np.median([np.quantile(part.data.measured_s, 0.02) for part in parts])) * 1e6
    names = [name for name in law.priors if name.startswith("floor")]
    return {
        name: float(np.clip(least_us, max(center[name], law.priors[name].low), law.priors[name].high))
        for name in names
    }


def _differs(law: Law, name: str, value: float, other: float, same: float) -> bool:
    if not law.priors[name].fitted or min(value, other) <= 0.0:
        return value != other
    return abs(float(np.log(value / other))) > same


def fit_near(
    law: Law,
    parts: Sequence[GpuRows],
    start: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
    *,
    free: Sequence[str] | None = None,
    steps: int = 25,
    rows: int = FIT_ROWS,
) -> dict[str, float]:
    r"""Return the coefficients of greatest posterior: errors robustly small, each near its center.

    .. math:: \min_x \sum_g \frac{N}{n_g} \sum_i \rho(e_{gi}) + \sum_k \left(
       \frac{s \, (x_k - c_k)}{\sigma} \right)^2, \quad x = \ln \theta

    by damped Gauss-Newton steps, with :math:`\rho` the smooth L1 norm beyond ``OUTLIER``.

    Parameters
    ----------
    start, center : mapping of str to float
        Coefficients to start from, and those they are drawn to.
    sd : float
        Standard deviation of ln of a coefficient about its center.
    free : sequence of str, optional
        The coefficients that move; by default all a fit moves.
    steps, rows : int
        Most steps; rows of each GPU that are looked at.
    """
    return _fit(law, [GpuRows(p.gpu, sample(p.data, rows)) for p in parts], start, center, sd, free, steps)[0]


def _fit(
    law: Law,
    parts: Sequence[GpuRows],
    start: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
    free: Sequence[str] | None,
    steps: int,
) -> tuple[dict[str, float], float]:
    names = [k for k, c in law.priors.items() if c.fitted and (free is None or k in free)]
    low, high = (np.log([getattr(law.priors[k], side) for k in names]) for side in ("low", "high"))
    middle = np.log([center[k] for k in names])
    x = np.clip(np.log([start[k] for k in names]), low, high)
    # one residual of the size of an outlier weighs as much as one standard deviation
    pull = (OUTLIER / sd) ** 2

    def at(x: Floats) -> dict[str, float]:
        return {**start, **{k: float(v) for k, v in zip(names, np.exp(x), strict=True)}}

    def loss(x: Floats) -> tuple[float, list[Floats]]:
        off = [errors(law, part, at(x)) for part in parts]
        robust = sum(_smooth(e).mean() * _counted(len(e)) for e in off)
        return float(robust + pull * ((x - middle) ** 2).sum()), off

    best, off = loss(x)
    if not names:
        return dict(start), best
    damping = 1e-2
    acting = np.ones(len(names), dtype=np.bool_)  # those some row depends on
    for _ in range(steps):
        moving = np.zeros(len(names), dtype=np.bool_)
        matrix, slope = np.eye(len(names)) * pull, pull * (x - middle)
        for part, error in zip(parts, off, strict=True):
            jacobian = np.zeros((len(error), len(names)))
            step = np.where(x + _STEP <= high, _STEP, -_STEP)
            for place, moved in _moved(law, part, at(x), names, step, np.flatnonzero(acting)):
                jacobian[:, place] = (moved - error) / step[place]
            weight = _counted(len(error)) / len(error) / np.sqrt(1.0 + (error / OUTLIER) ** 2)
            matrix += jacobian.T @ (jacobian * weight[:, None])
            moving |= jacobian.any(axis=0)
            slope += jacobian.T @ (weight * error)
        acting = moving
        for _ in range(5):
            damped = matrix + damping * np.diag(np.diag(matrix)) + 1e-9 * np.eye(len(names))
            candidate = np.clip(x - np.clip(np.linalg.solve(damped, slope), -1.0, 1.0), low, high)
            cost, candidate_off = loss(candidate)
            if cost < best:
                break
            damping *= 5.0
        else:
            break
        gain, best, x, off, damping = best - cost, cost, candidate, candidate_off, max(damping / 3.0, 1e-4)
        if gain < 2e-3 * best:
            break
    return at(x), best


def _moved(
    law: Law, part: GpuRows, values: Mapping[str, float], names: Sequence[str], step: Floats, places: Ints
) -> Iterator[tuple[int, Floats]]:
    """Yield the errors with one coefficient after another moved by a step of its logarithm.

    A law whose equations take a coefficient a row is given all of them at once: the rows again and again,
    each time with another coefficient moved. One that chooses by a coefficient takes them one at a time.
    """
    count, data = len(part.data.measured_s), part.data
    if law.pin is not None:
        data = replace(data, rows=law.pin(data.rows, part.gpu, values))
        part = GpuRows(part.gpu, data)
    if law.name not in _ONE_AT_A_TIME:
        at = np.tile(np.arange(count), len(places))
        columns: dict[str, Any] = dict(values)
        for turn, place in enumerate(places):
            column = np.full(len(at), values[names[place]])
            column[turn * count : (turn + 1) * count] *= np.exp(step[place])
            columns[names[place]] = column
        try:
            off = errors(law, GpuRows(part.gpu, data.take(at)), columns)
        except (TypeError, ValueError, IndexError):
            _ONE_AT_A_TIME.add(law.name)
        else:
            yield from zip(places.tolist(), off.reshape(len(places), count), strict=True)
            return
    for place in places:
        name = names[place]
        yield int(place), errors(law, part, {**values, name: values[name] * float(np.exp(step[place]))})


#: Laws found to choose by a coefficient.
_ONE_AT_A_TIME: set[str] = set()


def posterior_cost(
    law: Law, parts: Sequence[GpuRows], values: Mapping[str, float], center: Mapping[str, float], sd: float
) -> float:
    """Return what :func:`fit_near` minimizes."""
    return _fit(law, parts, values, center, sd, free=None, steps=0)[1]


def _counted(rows: int) -> float:
    return min(COUNTED_ROWS, float(rows))


def _smooth(error: Floats) -> Floats:
    return np.asarray(2.0 * OUTLIER**2 * (np.sqrt(1.0 + (error / OUTLIER) ** 2) - 1.0))


def _chosen(
    law: Law, parts: Sequence[GpuRows], start: Mapping[str, float], center: Mapping[str, float], sd: float
) -> dict[str, float]:
    """Return the coefficients with the best sizes and habits, tried one after another from several starts."""
    choices = [k for k, c in law.priors.items() if c.choices]
    few = [GpuRows(p.gpu, sample(p.data, CHOICE_ROWS)) for p in parts]
    if choices:
        tried = [
            _chosen_from(law, few, {**start, **habits}, center, sd, choices) for habits in ({}, *law.habits)
        ]
        start = min(tried, key=lambda one: one[1])[0]
    return fit_near(law, parts, start, center, sd)


def _chosen_from(
    law: Law,
    parts: Sequence[GpuRows],
    start: Mapping[str, float],
    center: Mapping[str, float],
    sd: float,
    choices: Sequence[str],
) -> tuple[dict[str, float], float]:
    best, cost = _fit(law, parts, start, center, sd, None, 5)
    for _ in range(2):
        before = cost
        for name in choices:
            for value in law.priors[name].choices:
                if value == best[name]:
                    continue
                other, other_cost = _fit(law, parts, {**best, name: value}, center, sd, None, 2)
                if other_cost < 0.995 * cost:
                    best, cost = other, other_cost
        if cost == before:
            break
    return _fit(law, parts, best, center, sd, None, 4)
