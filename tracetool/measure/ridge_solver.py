"""Constrained ridge least squares with robust noise: power per class from readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tracetool.core.arrays import Floats
from tracetool.measure.normal_equations import NormalEquations, Prior, add_prior_precision, invert_in_place
from tracetool.measure.reading_noise import reading_noise, share_left, student_weight

#: Rounds of reweighting at most. [1] A prior: most logs converge in three.
_MAX_ROUNDS = 6
#: Rounds in which the noise and the degrees of freedom it is estimated with are made consistent. [1] A prior.
_MAX_NOISE_ROUNDS = 3
#: They are consistent where the share of degrees of freedom falls by less than to this. [1] A prior.
_CONSISTENT_SHARE = 0.9
#: Powers whose residuals are examined for correlation. [1] For speed.
_PROBES = 64
#: Factor on the prior's standard deviations under which the readings alone determine the powers. [1] A prior.
WIDE_PRIOR = 30.0


@dataclass(frozen=True)
class Solution:
    """Posterior of the powers, as the sensor shows them."""

    power_w: Floats  # (k,)
    covariance: Floats  # (k, k) [W^2]
    readings_covariance: Floats  # (k, k) from the readings alone: prior ``WIDE_PRIOR`` times wider [W^2]
    own_information: Floats  # (k,) share of each class's information that no combination of others holds [1]
    noise_w: float
    variance_inflation: float  # factor on variances for correlated residuals, at least 1
    fitted_w: Floats  # (n,)
    weight: Floats  # (n,) of each reading, 0 to about 1
    bound: Floats  # (k,) precision of the penalty on powers beyond their bounds [1/W^2]


def solve(
    matrix: sparse.csr_matrix,
    power_w: Floats,
    prior: Prior,
    *,
    floor_w: float = 0.3,
    unsteady: float = 0.0,
    totals: tuple[Floats, Floats, Floats] | None = None,
) -> Solution:
    r"""Return the powers that explain the readings.

    Parameters
    ----------
    matrix : sparse, shape (n, k)
        Share of each reading in each class.
    power_w : array, shape (n,)
        Readings. [W]
    prior : Prior
        Prior and bounds of the powers.
    floor_w : float
        Smallest noise a reading can have (its resolution). [W]
    unsteady : float
        Share by which the power of all work is known to have varied, e.g. with a throttled clock. [1]
    totals : (rows (c, k) [s], energy (c,) [J], deviation (c,) [J]), optional
        Energies known as a whole, e.g. from a counter.

    Notes
    -----
    Minimizes :math:`\sum_n w_n (A x - y)_n^2 / \sigma^2 + (x - s m)^T D (x - s m)` with one scale
    :math:`s` integrated out; the :math:`w_n` follow a Student likelihood. Powers beyond a bound are drawn
    to it by a penalty, which is left out of the covariance: a class at its bound is not known better for it.
    The covariance is widened for residuals that are correlated from reading to reading, and for the degrees
    of freedom that the powers use up.
    """
    n, k = matrix.shape
    weight = np.ones(n)
    busy = np.asarray(matrix @ prior.shared)
    target = prior.mean_w.copy()
    bound = np.zeros(k)
    noise = max(floor_w, 0.05 * (float(np.std(power_w)) or 1.0))
    x = target
    for turn in range(_MAX_ROUNDS):
        bound_pull = bound * np.clip(x, prior.low_w, prior.high_w)
        system = NormalEquations(matrix, weight / noise**2, prior, bound, totals)
        x = system.powers(power_w, bound_pull, target, x)
        outside = (x < prior.low_w) | (x > prior.high_w)
        bound = np.where(outside, 1.0 / (0.01 * (prior.high_w - prior.low_w)) ** 2, bound)
        miss = power_w - np.asarray(matrix @ x)
        before = noise
        noise, ratio = reading_noise(miss, busy, power_w, floor_w, unsteady, 1.0)
        weight = student_weight(miss, noise, ratio)
        if turn > 1 and abs(noise / before - 1) < 0.01 and not outside.any():
            break
    x, covariance, gram, noise, weight = _final_solution(
        matrix, power_w, prior, (x, noise, weight), busy, bound, floor_w, unsteady, totals
    )
    miss = power_w - np.asarray(matrix @ x)
    information = np.diag(gram).copy()
    readings_covariance = gram
    add_prior_precision(readings_covariance, prior, WIDE_PRIOR)
    invert_in_place(readings_covariance)
    own_information = 1.0 / np.maximum(information * np.diag(readings_covariance), 1.0)
    used = float(np.clip(1.0 - np.diag(covariance) / prior.sd_w**2, 0.0, 1.0).sum())
    return Solution(
        np.clip(x, prior.low_w, prior.high_w),
        covariance,
        readings_covariance,
        own_information,
        noise,
        _variance_inflation(matrix, covariance, weight * miss) * n / max(n - used, 0.25 * n),
        power_w - miss,
        weight,
        bound,
    )


def resolved(
    matrix: sparse.csr_matrix,
    power_w: Floats,
    prior: Prior,
    solution: Solution,
    *,
    totals: tuple[Floats, Floats, Floats] | None = None,
) -> Floats:
    """Return the powers of another design of the same readings, weighted as in a solution. Shape (k,). [W]"""
    system = NormalEquations(matrix, solution.weight / solution.noise_w**2, prior, solution.bound, totals)
    pull = solution.bound * np.clip(solution.power_w, prior.low_w, prior.high_w)
    powers = system.powers(power_w, pull, prior.mean_w, solution.power_w)
    return np.clip(powers, prior.low_w, prior.high_w)


def _final_solution(
    matrix: sparse.csr_matrix,
    power_w: Floats,
    prior: Prior,
    start: tuple[Floats, float, Floats],
    busy: Floats,
    bound: Floats,
    floor_w: float,
    unsteady: float,
    totals: tuple[Floats, Floats, Floats] | None,
) -> tuple[Floats, Floats, Floats, float, Floats]:
    """Return powers, their covariance without bounds, the readings' precision, noise and weights.

    Where powers are as many as readings, they absorb the residuals: the noise is estimated with the degrees
    of freedom that are left, which depend on the noise, until both are consistent.
    """
    k = matrix.shape[1]
    x, noise, weight = start
    target, share_before = prior.mean_w, 1.0
    turn = 0
    while True:
        final = NormalEquations(matrix, weight / noise**2, prior, bound, totals)
        gram = final.gram()
        covariance = gram.copy()
        add_prior_precision(covariance, prior)
        covariance.flat[:: k + 1] += bound
        invert_in_place(covariance)
        x = covariance @ final.right(power_w, bound * np.clip(x, prior.low_w, prior.high_w), target)
        share = share_left(float(np.vdot(covariance, gram)), busy)
        if share > _CONSISTENT_SHARE * share_before or turn == _MAX_NOISE_ROUNDS:
            break
        turn += 1
        miss, share_before = power_w - np.asarray(matrix @ x), share
        noise, ratio = reading_noise(miss, busy, power_w, floor_w, unsteady, share)
        weight = student_weight(miss, noise, ratio)
    if bound.any():
        covariance = gram.copy()
        add_prior_precision(covariance, prior)
        invert_in_place(covariance)
    return x, covariance, gram, noise, weight


def _variance_inflation(matrix: sparse.csr_matrix, covariance: Floats, pull: Floats, most: int = 30) -> float:
    r"""Variance inflation of the powers for residuals correlated from reading to reading, at least 1.

    Parameters
    ----------
    matrix : sparse, shape (n, k)
        Design.
    covariance : array, shape (k, k)
        Of the powers, residuals taken as independent.
    pull : array, shape (n,)
        Residuals times their weights.
    most : int
        Readings over which residuals may be correlated.

    Notes
    -----
    A residual moves a power by :math:`(V A^T)_{kn} w_n r_n`; the variance of their sum includes the products
    of neighbors, with Bartlett weights (Newey and West 1987). The autocorrelation of the residuals themselves
    would overstate it: a drift common to all classes moves none of the powers.
    """
    n, k = matrix.shape
    if n < 20 or not pull.any():
        return 1.0
    chosen = np.unique(np.linspace(0, k - 1, min(k, _PROBES)).astype(np.int64))
    moves = np.asarray(matrix @ covariance[:, chosen]) * pull[:, None]
    moves = moves[:, np.any(moves != 0.0, axis=0)]
    plain = (moves**2).sum(axis=0)
    with_lags = plain.copy()
    lags = min(most, n // 4)
    for lag in range(1, lags):
        with_lags += 2.0 * (1.0 - lag / lags) * (moves[lag:] * moves[:-lag]).sum(axis=0)
    return max(1.0, float(np.mean(np.maximum(with_lags, 0.0) / plain)))
