"""Spread of figures between runs of the same code: the prior, and its update by the runs compared.

References
----------
.. [1] G. K. Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential Expression",
   Statistical Applications in Genetics and Molecular Biology 3(1), 2004: variances moderated by a prior
   that is learned from all figures together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import special

from tracetool.core.arrays import Bools, Floats


@dataclass(frozen=True)
class Spread:
    """Prior of the run-to-run spread, before looking at the runs compared.

    Parameters
    ----------
    relative : float
        Standard deviation of a run's figure between runs of the same code. [1]
    runs : float
        Degrees of freedom it is worth.
    source : str
        Where it comes from, for the reader.
    """

    relative: float
    runs: float
    source: str

    @property
    def variance(self) -> float:
        """Variance of the logarithm of a run's figure. [1]"""
        return math.log1p(self.relative) ** 2


#: Spread of GPU energies and times between runs of the same job on one GPU, worth sixteen runs. It only
#: steadies the estimate from the runs at hand and is dropped where these spread more than it allows.
PRIOR: Final = Spread(0.01, 16.0, "a prior of 1 % run-to-run spread")
#: Spreads assumed where no side was run three times, so that nothing can correct them: wide enough that, of
#: real repeats, at most one in twenty goes up by more than the interval they make. Those are 104 pairs of
#: whole programs on an A100 under power caps, the less steady ones (time: 90 % of pairs differ by less than
#: 5.3 %, energy: 11.7 %), and 1204 kernels run two to five times at each clock on a laptop's RTX 4050 (time
#: 0.3 %, energy 10 %); tests/compare/test_single_runs.py counts them. Worth eight runs: their tails are long.
_SINGLE_TIME, _SINGLE_JOULES, _SINGLE_WORTH = 0.025, 0.06, 8.0  # [1], [1], runs
#: A sample this much more spread than the prior would come up one time in twenty: then the prior is wrong.
_REJECTED: Final = 0.95
#: Changes below this are the rounding of sums of the same numbers, not changes. [1]
ROUNDING: Final = 1e-9
#: What moves a run moves most of its families alike: however many, they count as two independent ones. [1]
_APART: Final = 2.0


def single_run_prior(metric: str, basis: str) -> Spread:
    """Return the run-to-run spread assumed of a figure where no side was run three times.

    Parameters
    ----------
    metric : {"energy", "time", "power", "edp"}
        The figure.
    basis : {"measured", "anchored"}
        Where its joules come from: ``anchored`` joules follow the recorded times and spread as they do.

    Examples
    --------
    >>> single_run_prior("time", "measured").source
    'a prior of 2.5 % run-to-run spread (no repeated runs)'
    """
    if metric == "edp":
        components = [single_run_prior(m, basis).relative for m in ("energy", "time")]
        relative = math.hypot(*components) if basis == "measured" else sum(components)
    else:
        relative = _SINGLE_TIME if metric == "time" or basis != "measured" else _SINGLE_JOULES
    return Spread(
        relative, _SINGLE_WORTH, f"a prior of {100 * relative:.2g} % run-to-run spread (no repeated runs)"
    )


def repeated(base: int, head: int) -> bool:
    """Return whether the numbers of runs show their own spread: two on each side, or three on one."""
    return min(base, head) >= 2 or max(base, head) >= 3


@dataclass(frozen=True)
class Moderated:
    """Variances of k figures between runs, steadied by what is known. Shape (k,) each."""

    variance: Floats  # of the logarithm of a run's figure [1]
    freedom: Floats  # degrees of freedom it is worth
    fits: Bools  # whether what is known agrees with the runs


def usable(base: Floats, head: Floats) -> Bools:
    """Return which figures are positive in every run of both sides, shape (n, k) and (m, k). Shape (k,)."""
    return np.asarray((base > 0).all(axis=0) & (head > 0).all(axis=0))


def pooled(base: Floats, head: Floats) -> Floats:
    """Return the runs' own variance of the logarithms within the sides, zero with single runs. (k,)"""
    good = usable(base, head)
    freedom = len(base) + len(head) - 2
    logs = [np.log(np.where(good, side, 1.0)) for side in (base, head)]
    squares = sum(((x - x.mean(axis=0)) ** 2).sum(axis=0) for x in logs)
    return np.asarray(squares / freedom if freedom else np.zeros(base.shape[1]))


def moderate(base: Floats, head: Floats, spread: Spread, within: Floats | None = None) -> Moderated:
    r"""Return the variance of figures between runs.

    Parameters
    ----------
    base, head : array, shape (n, k) and (m, k)
        Per run, k figures.
    spread : Spread
        What is known of the spread between runs.
    within : array, shape (k,), optional
        Relative variance that the steps of a run leave in its mean, by
        :func:`tracetool.compare.steps.mean_variance`: it adds to the spread between runs.

    Notes
    -----
    With :math:`d = n + m - 2` degrees of freedom in the runs' pooled variance :math:`s^2` and an
    expected variance :math:`s_0^2 + w` worth :math:`d_0`,

    .. math:: \tilde s^2 = \frac{d_0 (s_0^2 + w) + d s^2}{d_0 + d}

    with :math:`d_0 + d` degrees of freedom [1]_. Where :math:`s^2` lies above the 95 % point of its F
    distribution around :math:`s_0^2 + w`, the prior does not fit and is dropped (:math:`d_0 = 0`).
    """
    run_freedom = len(base) + len(head) - 2
    run_variance = pooled(base, head)
    expected = spread.variance + (np.zeros_like(run_variance) if within is None else within)
    bar = (
        expected * float(special.fdtri(run_freedom, max(spread.runs, 1.0), _REJECTED))
        if run_freedom
        else np.inf
    )
    fits = np.asarray((spread.runs > 0) & (run_variance <= bar))
    worth = np.where(fits, spread.runs, 0.0)
    freedom = worth + run_freedom
    sums = worth * expected + run_freedom * run_variance
    return Moderated(
        np.divide(sums, freedom, out=np.zeros_like(run_variance), where=freedom > 0),
        np.asarray(freedom),
        fits,
    )


def learned(base: Floats, head: Floats, spread: Spread, within: Floats | None = None) -> Spread:
    r"""Return the spread updated by all families of the runs compared.

    Parameters
    ----------
    base, head : array, shape (n, k) and (m, k)
        Per run, the k families' figures.
    spread, within
        As in :func:`moderate`.

    Notes
    -----
    Whatever the code does, runs of all families spread about alike: so each family's ratio
    :math:`s_k^2 / (s_0^2 + w_k)` estimates the same :math:`s_0^2`. Their mean :math:`r`, steady families
    counting most, moves the prior to :math:`s_0^2 (d_0 + d_e r) / (d_0 + d_e)`, worth :math:`d_0 + d_e`.
    Runs share their offsets (clock, temperature), so :math:`d_e` is twice the degrees of freedom of one
    family, not k times.
    """
    freedom = len(base) + len(head) - 2
    good = usable(base, head) if base.shape[1] else np.zeros(0, np.bool_)
    if not freedom or not good.any() or spread.relative <= 0:
        return spread
    expected = spread.variance + (np.zeros(len(good)) if within is None else within)
    weight = np.where(good, spread.variance / expected, 0.0)
    ratio = float((pooled(base, head) / expected) @ weight / weight.sum())
    if ratio * spread.variance < ROUNDING**2:  # copies of one run: nothing was run twice
        return spread
    worth = freedom * min(_APART, float(good.sum()))
    prior_runs = spread.runs
    if prior_runs and ratio > float(special.fdtri(worth, prior_runs, _REJECTED)):
        prior_runs = 0.0
    relative = math.sqrt(spread.variance * (prior_runs + worth * ratio) / (prior_runs + worth))
    source = spread.source if prior_runs else "the spread of all families"
    return replace(spread, relative=math.expm1(relative), runs=prior_runs + worth, source=source)


def observed_spread(*sides: Floats) -> float:
    """Return the run-to-run spread within sides of runs, each shape (n,); NaN with single runs. [1]"""
    logs = [np.log(s) for s in sides if s.size > 1 and (s > 0).all()]
    freedom = sum(x.size - 1 for x in logs)
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in logs)
    return math.expm1(math.sqrt(squares / freedom)) if freedom else math.nan
