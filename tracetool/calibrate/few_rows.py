"""Fit a law to a few rows of one's own: from the coefficients that suit them best, and near those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.calibrate.conformal import percent
from tracetool.calibrate.joint import ARCHITECTURE_SD, GpuRows, errors, fit_near, posterior
from tracetool.calibrate.law_fit import CLAIMED, ROBUST, ROWS, LawFit, LawRows, fit_law
from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90, Band
from tracetool.families.implementations import Implementation, implementations
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu
from tracetool.model.eligible_implementations import members
from tracetool.model.own_kernels import shrunk_variance

#: Parts the groups of shapes fall into, each held back once. [1] A setting of the method.
_FOLDS: Final = 5
#: Sets of coefficients that are fitted further, of all that are tried. [1] A setting of the method.
_TRIED: Final = 3
#: Standard deviation of ln of a coefficient about that of an implementation: both the architecture and the
#: implementation may be another, each as far away as architectures are. [1] A prior.
_SD: Final = ARCHITECTURE_SD * 2.0**0.5
#: The same about that of the kernel that rows name, whose architecture alone may be another, and the odds
#: that they ran it, against any other. [1] Both a prior.
_NAMED_SD: Final = ARCHITECTURE_SD
_NAMED_ODDS: Final = 100.0


def fit_few(
    law: Law,
    law_rows: LawRows,
    gpu: Gpu,
    start: Mapping[str, float],
    spread: Band,
    available: Sequence[Implementation] | None = None,
) -> LawFit:
    r"""Return coefficients near those of an implementation, as far from it as the rows ask.

    Every set of coefficients known for the law is tried: the GPU's own, each implementation's, and that of
    the kernel that rows name. Those that suit the rows best, and the one named, are fitted with
    :math:`\ln \theta` drawn to where it was, and the best is kept. Errors
    are of groups of shapes held back, the choice of the set among what is held back from.

    Parameters
    ----------
    law : Law
        The law that times the rows.
    law_rows : LawRows
        n rows, five at least.
    gpu : Gpu
        The GPU they ran on.
    start : mapping of str to float
        Coefficients in force on this GPU.
    spread : (float, float)
        Their 90 % band of ln(measured / predicted): what is known of the spread before the rows.
    available : sequence of Implementation, optional
        The implementations to try, by default those delivered for the law.
    """
    named, others = _of_implementations(law, law_rows, gpu, available)
    centers = _Centers(named, [_within_bounds(law, start), *others])
    values, shrunk = _best(law, GpuRows(gpu, law_rows), centers)
    error = _held_out(law, law_rows, gpu, centers)
    prior_sd = (spread[1] - spread[0]) / 2.0 / Z90
    squares = float((error**2).sum())
    band = Z90 * float(np.sqrt(shrunk_variance(prior_sd**2, squares, len(error))))
    # each row is judged by a band its own error did not go into
    left_out_band = Z90 * np.sqrt(shrunk_variance(prior_sd**2, squares - error**2, len(error) - 1.0))
    off = np.abs(np.expm1(-error)) * 100.0
    deviation = {k: sd for k, (sd, _) in shrunk.items()}
    bounds = {k: (law.priors[k].low, law.priors[k].high) for k in deviation}
    return LawFit(
        values=values,
        low={k: max(values[k] * np.exp(-Z90 * sd), bounds[k][0]) for k, sd in deviation.items()},
        high={k: min(values[k] * np.exp(Z90 * sd), bounds[k][1]) for k, sd in deviation.items()},
        spread={"": (-band, band)},
        rows=len(error),
        mape_percent=float(off.mean()),
        mdape_percent=float(np.median(off)),
        coverage_percent=percent((np.abs(error) <= left_out_band).astype(np.float64)),
        of_kind={},
        from_prior=frozenset(k for k, (sd, before) in shrunk.items() if 1.0 - (sd / before) ** 2 < CLAIMED),
    )


def fit_from_known(
    law: Law,
    law_rows: LawRows,
    gpu: Gpu,
    start: Mapping[str, float],
    available: Sequence[Implementation] | None = None,
) -> LawFit:
    """Return a fit begun from the coefficients in force, or from those of a known implementation.

    Of rows few enough that a fit looks at all, the implementation that suits them best is tried beside; of
    both fits the one is kept that errs less on groups of shapes held back. Parameters are those of
    :func:`fit_few`.
    """
    fits = [fit_law(law, law_rows, gpu, start)]
    if len(law_rows.measured_s) <= ROWS:
        named, others = _of_implementations(law, law_rows, gpu, available)
        by_error = _by_error(law, GpuRows(gpu, law_rows), [*named, *others])
        fits += [fit_law(law, law_rows, gpu, nearest) for nearest in by_error[:1]]
    return min(fits, key=lambda fit: fit.mdape_percent)


@dataclass(frozen=True)
class _Centers:
    """Sets of coefficients to fit about: those of the kernels that rows name, and others."""

    named: Sequence[Mapping[str, float]]
    others: Sequence[Mapping[str, float]]


def _of_implementations(
    law: Law, law_rows: LawRows, gpu: Gpu, available: Sequence[Implementation] | None
) -> tuple[list[Mapping[str, float]], list[Mapping[str, float]]]:
    """Return the coefficients on a GPU of the kernels that rows name, and of each implementation.

    Those named are as a prediction takes them: carried over to the GPU, with what source states of the
    library. Implementations are by default all in the package, as they were fitted and carried over.
    """
    every = tuple(implementations(law.name) if available is None else available)
    stacks, names = (law_rows.rows.text(column).astype(str) for column in ("stack", "implementation"))
    stated = {(stack, name) for stack, name in zip(stacks, names, strict=True) if stack and name}

    def carried(pairs: set[tuple[str, str]]) -> list[Mapping[str, float]]:
        return [
            _within_bounds(law, member.coefficients)
            for stack, name in sorted(pairs)
            for member in members(law, gpu, stack, name, every)
            if not member.bounds_only
        ]

    fitted = [_within_bounds(law, one.laws[law.name].on(gpu.architecture)) for one in every]
    own = {(one.stack, max(one.names, default="")) for one in every}
    return carried(stated), [*fitted, *carried(own - stated)]


def _within_bounds(law: Law, coefficients: Mapping[str, float]) -> dict[str, float]:
    """Return every coefficient, those a fit moves within their bounds: what source states as 0 has no ln."""
    values = law.every_value(coefficients)
    fitted = {name: prior for name, prior in law.priors.items() if prior.fitted}
    return values | {k: min(max(values[k], prior.low), prior.high) for k, prior in fitted.items()}


def _by_error(
    law: Law, gpu_rows: GpuRows, centers: Sequence[Mapping[str, float]]
) -> list[Mapping[str, float]]:
    """Return sets of coefficients in order of their mean error on some rows, as they are."""
    return sorted(centers, key=lambda center: float(np.abs(errors(law, gpu_rows, center)).mean()))


def _held_out(law: Law, law_rows: LawRows, gpu: Gpu, centers: _Centers) -> Floats:
    """Return ln(measured / predicted) of each row, predicted by fits to the other folds. Shape (n,)."""
    groups, place = np.unique(law_rows.group, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(groups)) % _FOLDS)[place.reshape(-1)]
    error = np.zeros(len(law_rows.measured_s))
    for test_fold in range(min(_FOLDS, len(groups))):
        fit_rows, test_rows = np.flatnonzero(fold != test_fold), np.flatnonzero(fold == test_fold)
        fitted = fit_rows if fit_rows.size else test_rows
        values, _ = _best(law, GpuRows(gpu, law_rows.take(fitted)), centers)
        error[test_rows] = -errors(law, GpuRows(gpu, law_rows.take(test_rows)), values)
    return error


def _best(
    law: Law, gpu_rows: GpuRows, centers: _Centers
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return the best of the fits about each center that suits the rows as it is.

    With it the standard deviations of ln of each coefficient after and before the rows. A few rows can be
    fitted from many centers: what they name is the likelier, and others have to fit better by as much as the
    odds are worth.
    """
    named, others = (_by_error(law, gpu_rows, some) for some in (centers.named, centers.others))
    # a cost is in squares of a residual, which those of the size of an outlier divide
    handicap = 2.0 * float(np.log(_NAMED_ODDS)) * ROBUST**2 if named else 0.0
    tried = [(one, 0.0, _NAMED_SD) for one in named[:1]]
    tried += [(one, handicap, _SD) for one in others[: _TRIED - len(tried)]]
    fits = []
    for center, less_likely, sd in tried:
        values = fit_near(law, [gpu_rows], center, center, sd, steps=8)
        cost, deviation = posterior(law, [gpu_rows], values, center, sd)
        fits.append((cost + less_likely, values, {k: (after, sd) for k, after in deviation.items()}))
    _, values, shrunk = min(fits, key=lambda one: one[0])
    return values, shrunk
