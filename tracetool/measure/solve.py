"""Constrained ridge least squares with robust noise: power per class from readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from tracetool.vocabulary.arrays import Floats

#: Degrees of freedom of the readings' noise.
_FREEDOM = 5.0
_ROUNDS = 6
#: How much wider the ties are made to ask what the readings alone tell.
LOOSE = 30.0


@dataclass(frozen=True)
class Prior:
    """What is believed of k powers before any reading: ``scale * mean + own deviation``.

    One scale is shared by all classes of work, so that a prior wrong by a factor costs one unknown.
    """

    mean_w: Floats  # (k,)
    sd_w: Floats  # (k,) of each class about the scaled mean
    shared: Floats  # (k,) 1 where the common scale applies
    scale_sd: float  # of the common scale about 1
    low_w: float  # bounds of any class
    high_w: float


@dataclass(frozen=True)
class Solution:
    """Posterior of the powers, as the sensor shows them."""

    power_w: Floats  # (k,)
    covariance: Floats  # (k, k) [W^2]
    loose: Floats  # (k, k) covariance under ties ``LOOSE`` times wider: what the readings alone tell
    noise_w: float
    stretch: float  # factor on variances for noise that is not independent, at least 1
    fitted_w: Floats  # (n,)
    weight: Floats  # (n,) of each reading, 0 to about 1


def _gram(matrix: sparse.csr_matrix, weight: Floats) -> Floats:
    scaled = matrix.multiply(np.sqrt(weight)[:, None]).tocsr()
    return np.asarray((scaled.T @ scaled).todense())


def _prior_precision(prior: Prior, width: float = 1.0) -> Floats:
    """Precision of the powers with the common scale integrated out. Shape (k, k)."""
    own = 1.0 / (width * prior.sd_w) ** 2
    lead = prior.shared * prior.mean_w
    pull = own * lead
    total = float(lead @ pull) + 1.0 / (width * prior.scale_sd) ** 2
    return np.diag(own) - np.outer(pull, pull) / total


def solve(
    matrix: sparse.csr_matrix,
    power_w: Floats,
    prior: Prior,
    *,
    floor_w: float = 0.3,
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
        Ties and bounds.
    floor_w : float
        Smallest noise a reading can have (its resolution). [W]
    totals : (rows (c, k) [s], energy (c,) [J], deviation (c,) [J]), optional
        Energies known as a whole, e.g. from a counter.

    Notes
    -----
    Minimizes :math:`\sum_n w_n (A x - y)_n^2 / \sigma^2 + (x - s m)^T D (x - s m)` with one scale
    :math:`s` integrated out; the :math:`w_n` follow a Student likelihood. Powers beyond a bound are
    tied to it. Noise that is alike from reading to reading widens the covariance by
    :math:`1 + 2 \sum_l \rho_l`.
    """
    n, k = matrix.shape
    weight = np.ones(n)
    tie, target = _prior_precision(prior), prior.mean_w.copy()
    bound = np.zeros(k)
    spread = float(np.std(power_w)) or 1.0
    noise = max(floor_w, 0.05 * spread)
    x = target
    turn_factor = None
    gram = np.zeros((k, k))
    for turn in range(_ROUNDS):
        gram = _gram(matrix, weight) / noise**2
        right = np.asarray(matrix.T @ (weight * power_w)) / noise**2
        if totals is not None:
            rows, energy, deviation = totals
            scaled = rows / deviation[:, None]
            gram = gram + scaled.T @ scaled
            right = right + scaled.T @ (energy / deviation)
        precision = gram + tie + np.diag(bound)
        turn_factor = linalg.cho_factor(precision, lower=True, check_finite=False)
        x = linalg.cho_solve(
            turn_factor, right + tie @ target + bound * np.clip(x, prior.low_w, prior.high_w)
        )
        outside = (x < prior.low_w) | (x > prior.high_w)
        bound = np.where(outside, 1.0 / (0.01 * (prior.high_w - prior.low_w)) ** 2, bound)
        miss = power_w - np.asarray(matrix @ x)
        before = noise
        noise = max(floor_w, 1.4826 * float(np.median(np.abs(miss))))
        weight = (_FREEDOM + 1) / (_FREEDOM + (miss / noise) ** 2)
        if turn > 1 and abs(noise / before - 1) < 0.01 and not outside.any():
            break
    miss = power_w - np.asarray(matrix @ x)
    covariance = _inverse(gram + tie + np.diag(bound))
    loose = _inverse(gram + _prior_precision(prior, LOOSE))
    return Solution(
        np.clip(x, prior.low_w, prior.high_w),
        covariance,
        loose,
        noise,
        _stretch(miss * np.sqrt(weight)),
        power_w - miss,
        weight,
    )


def _inverse(precision: Floats) -> Floats:
    factor = linalg.cho_factor(precision, lower=True, check_finite=False)
    return np.asarray(linalg.cho_solve(factor, np.eye(len(precision)), check_finite=False))


def _stretch(miss: Floats, most: int = 30) -> float:
    """Variance inflation of means of readings whose misses are alike."""
    n = len(miss)
    if n < 20:
        return 1.0
    centred = miss - miss.mean()
    total = float(centred @ centred)
    if total <= 0:
        return 1.0
    out = 1.0
    for lag in range(1, min(most, n // 4)):
        rho = float(centred[lag:] @ centred[:-lag]) / total
        if rho < 2.0 / np.sqrt(n):
            break
        out += 2.0 * rho
    return out
