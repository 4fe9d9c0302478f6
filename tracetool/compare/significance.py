r"""Is a change between two sets of runs real? The run is the unit of replication, not the iteration.

A verdict is read off the printed interval and the limit, and off nothing else: the two cannot disagree.

References
----------
.. [1] O. J. Dunn, "Multiple Comparisons Among Means", JASA 56(293), 1961: k intervals at the level
   :math:`1 - \alpha/k` hold together at :math:`1 - \alpha` (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from scipy import special

from tracetool.compare.spread import PRIOR, ROUNDING, Spread, moderate, usable
from tracetool.core.arrays import Bools, Floats
from tracetool.core.interval import LEVEL

Verdict = Literal["regressed", "improved", "unchanged", "inconclusive"]

#: One-sided level of a regression: the 90 % interval then excludes no change.
ALPHA: Final = (1.0 - LEVEL) / 2.0
#: Least ratio of head to base that a logarithm is taken of. [1] By definition: far below any figure printed.
_LEAST_RATIO: Final = 1e-12
#: Probability of finding a change as large as the minimum detectable one.
POWER: Final = 0.80


@dataclass(frozen=True)
class Criteria:
    """Criteria of a judgment: the basis of the figures, their prior spread, and the threshold."""

    basis: str  # measured, anchored or predicted
    spread: Spread = PRIOR
    limit: float = 0.02
    within: Floats | None = None  # (k,) relative variance the steps of a run leave in its mean
    comparable: bool = True  # whether both sides ran on the same GPU, clocks and cap: no verdict without


@dataclass(frozen=True)
class Effects:
    """Relative changes of k figures with their 90 % intervals, shape (k,) each.

    ``change`` is head over base minus one; ``p_worse`` is the one-sided p-value of a change as large upward
    between runs of the same code, ``p_better`` downward; ``error`` the standard error of the logarithm,
    ``freedom`` its degrees of freedom. The intervals hold together for ``tests`` figures each. Figures that
    cannot be stated are NaN.
    """

    change: Floats
    low: Floats
    high: Floats
    p_worse: Floats
    p_better: Floats
    error: Floats
    freedom: Floats
    tests: Floats
    basis: str

    def __len__(self) -> int:
        return self.change.size


def compare_means(
    base: Floats, head: Floats, spread: Spread = PRIOR, within: Floats | None = None
) -> Effects:
    r"""Return the changes from base runs to head runs.

    Parameters
    ----------
    base, head : array, shape (n, k) and (m, k)
        Per run, k figures, e.g. joules; what is not positive in every run of both sides has no change.
    spread : Spread
        Knowledge of the run-to-run spread.
    within : array, shape (k,), optional
        Relative variance that the steps of a run leave in its mean.

    Notes
    -----
    On logarithms, with the variance :math:`\tilde s^2` of :func:`tracetool.compare.spread.moderate`,

    .. math:: t = \frac{\overline{\ln y} - \overline{\ln x}}{\tilde s \sqrt{1/n + 1/m}}

    with the degrees of freedom of :math:`\tilde s^2`.

    Examples
    --------
    >>> base, head = np.array([[100.0], [101.0], [99.0]]), np.array([[105.0], [104.0], [106.0]])
    >>> made = compare_means(base, head)
    >>> float(made.change[0].round(3)), bool(made.low[0] > 0)
    (0.05, True)
    """
    base, head = np.atleast_2d(np.asarray(base, np.float64)), np.atleast_2d(np.asarray(head, np.float64))
    n, m = base.shape[0], head.shape[0]
    good = usable(base, head)
    x, y = np.log(np.where(good, base, 1.0)), np.log(np.where(good, head, 1.0))
    shift = np.where(good, y.mean(axis=0) - x.mean(axis=0), np.nan)
    moderated = moderate(base, head, spread, within)
    error = np.sqrt(moderated.variance * (1.0 / n + 1.0 / m))
    if n == m == 1:  # one run beside itself: nothing was run twice, and nothing changed but by rounding
        same = np.abs(shift) < ROUNDING
        shift, error = np.where(same, 0.0, shift), np.where(same, 0.0, error)
    basis = f"the runs and {spread.source}" if n + m > 2 else spread.source
    return _effects(shift, error, moderated.freedom, basis)


def _effects(shift: Floats, error: Floats, freedom: Floats, basis: str) -> Effects:
    """Return effects from shifts of logarithms, their errors and degrees of freedom."""
    uncertain = (error > 0) & (freedom > 0)
    d = np.where(uncertain, np.minimum(freedom, 1e6), 1.0)
    ratio = np.divide(shift, error, out=np.zeros_like(shift), where=uncertain)
    certain = np.where(shift == 0, 0.5, (shift < 0).astype(np.float64))
    nowhere = (freedom <= 0) | np.isnan(shift)
    low, high = _interval(shift, error, freedom, np.ones_like(shift))
    return Effects(
        np.expm1(shift),
        low,
        high,
        np.where(nowhere, np.nan, np.where(uncertain, special.stdtr(d, -ratio), certain)),
        np.where(nowhere, np.nan, np.where(uncertain, special.stdtr(d, ratio), 1.0 - certain)),
        error,
        freedom,
        np.ones_like(shift),
        basis,
    )


def _interval(shift: Floats, error: Floats, freedom: Floats, tests: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the intervals that are joint for ``tests`` figures each. [1]"""
    uncertain = (error > 0) & (freedom > 0)
    d = np.where(uncertain, np.minimum(freedom, 1e6), 1.0)
    reach = np.where(uncertain, special.stdtrit(d, 1.0 - ALPHA / tests) * error, 0.0)
    nowhere = (freedom <= 0) | np.isnan(shift)
    with np.errstate(over="ignore"):  # a model may leave the factor between all but nothing and more open
        low, high = (np.where(nowhere, np.nan, np.expm1(shift + side * reach)) for side in (-1.0, 1.0))
    return low, high


def with_joint_intervals(effects: Effects, tests: Floats | float) -> Effects:
    """Return the effects with joint intervals for ``tests`` figures each. Shape (k,).

    Examples
    --------
    >>> alone = given_error(np.array([0.1]), np.array([0.02]), "the model's error")
    >>> wider = with_joint_intervals(alone, 10)
    >>> bool(wider.low[0] < alone.low[0]), bool(wider.change[0] == alone.change[0])
    (True, True)
    """
    many = np.broadcast_to(np.maximum(np.asarray(tests, np.float64), 1.0), effects.change.shape)
    with np.errstate(invalid="ignore"):
        low, high = _interval(np.log1p(effects.change), effects.error, effects.freedom, many)
    return replace(effects, low=low, high=high, tests=many)


def figures_together(heavy: Bools) -> Floats:
    """Return with how many figures each is judged: heavy ones among themselves, light ones among all. (n,)

    What a figure weighs is known before its change is tested, so choosing by it keeps the rate of false
    alarms among the heavy ones, and hundreds of light ones do not drown them.

    >>> figures_together(np.array([True, False, False, True]))
    array([2., 4., 4., 2.])
    """
    return np.where(heavy, float(heavy.sum()), float(heavy.size))


def given_error(change: Floats, error: Floats, basis: str) -> Effects:
    """Return the effects of changes of known standard error (a model's), relative to the base. Shape (k,)."""
    # What was removed has no logarithm, as what is new has none: neither is judged.
    shift = np.log1p(np.where(change > -1.0 + _LEAST_RATIO, change, np.nan))
    endless = np.full(shift.shape, 1e6)
    return _effects(shift, _of_logarithm(error, change), endless, basis)


def _of_logarithm(error: Floats, change: Floats) -> Floats:
    """Return the error of the logarithm of head over base, of one relative to the base. (k,)"""
    return error / np.maximum(1.0 + change, _LEAST_RATIO)


def widened(effects: Effects, error: Floats, basis: str) -> Effects:
    """Return effects with another independent error (a model's) too, relative to the base. Shape (k,)."""
    combined_error = np.hypot(effects.error, _of_logarithm(error, effects.change))
    return _effects(np.log1p(effects.change), combined_error, effects.freedom, f"{effects.basis} and {basis}")


def effects_of(base: Floats, head: Floats, criteria: Criteria, model_error: Floats | None = None) -> Effects:
    """Return the effects on k figures: from runs, from the error of the model or of readings, or both.

    Parameters
    ----------
    base, head : array, shape (runs, k)
        Figures per run.
    criteria : Criteria
        ``predicted`` figures have no run-to-run spread: their error is the model's alone.
    model_error : array, shape (k,), optional
        Standard error that the model, or readings of measured figures, add, relative to the base.
    """
    error = np.zeros(base.shape[1]) if model_error is None else model_error
    if criteria.basis == "predicted":
        x, y = base.mean(axis=0), head.mean(axis=0)
        change = np.divide(y, x, out=np.full_like(x, np.nan), where=x > 0) - 1.0
        return given_error(change, error, "the model's error")
    effects = compare_means(base, head, criteria.spread, criteria.within)
    if criteria.basis == "measured":  # one recording beside itself: readings leave nothing open of no change
        error = np.where(effects.error > 0.0, error, 0.0)
    source = "what the readings leave open" if criteria.basis == "measured" else "the model's error"
    return effects if model_error is None or not error.any() else widened(effects, error, source)


def chances(effects: Effects) -> Floats:
    """Return one-sided p-values of such changes in any figure judged, between runs of the same code. (k,)"""
    with np.errstate(invalid="ignore"):
        either = np.where(effects.change > 0, effects.p_worse, effects.p_better)
    return np.minimum(either * effects.tests, 1.0)


def detectable(effects: Effects, limit: Floats | float) -> Floats:
    """Return the smallest true changes that would be called regressions four times in five. Shape (k,).

    Parameters
    ----------
    effects : Effects
        Of the comparison made.
    limit : float or array, shape (k,)
        The threshold that the whole interval of a regression lies above. [1]
    """
    d = np.where(effects.freedom > 0, np.minimum(effects.freedom, 1e6), np.nan)
    reach = (special.stdtrit(d, 1.0 - ALPHA / effects.tests) + float(special.ndtri(POWER))) * effects.error
    with np.errstate(over="ignore"):  # of next to no work any change may be random
        return np.where(np.isnan(effects.low), np.nan, np.expm1(np.log1p(limit) + reach))


def judge(effects: Effects, limit: Floats | float) -> list[Verdict]:
    """Return the verdicts on figures where more is worse, by their intervals alone.

    Parameters
    ----------
    effects : Effects
        The changes, their intervals widened where several are judged together
        (:func:`with_joint_intervals`).
    limit : float or array, shape (k,)
        Thresholds, zero or more. [1]

    Returns
    -------
    list of str
        ``regressed`` where the whole interval lies above the limit, ``improved`` where it lies below minus
        the limit, else ``unchanged`` where no part of it lies above the limit, and ``inconclusive``
        where the limit lies inside.

    Examples
    --------
    >>> judge(given_error(np.array([0.1, 0.1, 0.0]), np.array([0.01, 0.1, 0.001]), ""), 0.02)
    ['regressed', 'inconclusive', 'unchanged']
    """
    above = np.asarray(limit) + ROUNDING
    with np.errstate(invalid="ignore"):
        outside = [effects.low > above, effects.high < -above, effects.high <= above]
    named = np.select(outside, ["regressed", "improved", "unchanged"], "inconclusive")
    return [str(v) for v in named]  # type: ignore[misc]
