"""Constrained ridge least squares with robust noise: power per class from readings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as splinalg

from tracetool.core.arrays import Floats
from tracetool.measure.reading_noise import reading_noise, share_left, student_weight

_ROUNDS = 6
#: Rounds in which noise and the share of the readings it is estimated from are made to agree.
_AGAIN = 3
#: A share of the readings left that is at least this part of the one before agrees with it. [1]
_ENOUGH_LEFT = 0.9
#: From this many classes on, rounds are solved by conjugate gradients.
_LARGE = 800
#: Powers looked at for misses that are alike.
_PROBES = 64
#: Rows of a matrix worked on at once, and share of its cells filled from which it is written out.
_BLOCK, _FULL = 512, 0.05
#: How much wider the ties are made to ask what the readings alone determine.
LOOSE = 30.0


@dataclass(frozen=True)
class Prior:
    """Prior of k powers: ``scale * mean + own deviation``.

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
    loose: Floats  # (k, k) covariance under ties ``LOOSE`` times wider: what the readings alone determine
    apart: Floats  # (k,) share of each class's information no combination of others holds too
    noise_w: float
    stretch: float  # factor on variances for noise that is not independent, at least 1
    fitted_w: Floats  # (n,)
    weight: Floats  # (n,) of each reading, 0 to about 1
    bound: Floats  # (k,) precision by which powers are tied to their bounds [1/W^2]


def _tie(precision: Floats, prior: Prior, width: float = 1.0) -> None:
    """Add to a precision that of the powers before any reading, the common scale integrated out."""
    precisions = 1.0 / (width * prior.sd_w) ** 2
    lead = prior.shared * prior.mean_w
    pull = precisions * lead
    total = float(lead @ pull) + 1.0 / (width * prior.scale_sd) ** 2
    precision -= np.outer(pull / total, pull)
    precision.flat[:: len(precisions) + 1] += precisions


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
        Ties and bounds.
    floor_w : float
        Smallest noise a reading can have (its resolution). [W]
    unsteady : float
        By what share the power of all work is known to have moved, as with a clock that did. [1]
    totals : (rows (c, k) [s], energy (c,) [J], deviation (c,) [J]), optional
        Energies known as a whole, e.g. from a counter.

    Notes
    -----
    Minimizes :math:`\sum_n w_n (A x - y)_n^2 / \sigma^2 + (x - s m)^T D (x - s m)` with one scale
    :math:`s` integrated out; the :math:`w_n` follow a Student likelihood. Powers beyond a bound are
    tied to it, which moves them and narrows nothing: a class at its bound is not known better for it. Noise
    that is alike from reading to reading widens the covariance, and so do misses of work that as many powers
    as readings explain away.
    """
    n, k = matrix.shape
    weight = np.ones(n)
    busy = np.asarray(matrix @ prior.shared)
    target = prior.mean_w.copy()
    bound = np.zeros(k)
    noise = max(floor_w, 0.05 * (float(np.std(power_w)) or 1.0))
    x = target
    for turn in range(_ROUNDS):
        bound_pull = bound * np.clip(x, prior.low_w, prior.high_w)
        system = _System(matrix, weight / noise**2, prior, bound, totals)
        x = system.powers(power_w, bound_pull, target, x)
        outside = (x < prior.low_w) | (x > prior.high_w)
        bound = np.where(outside, 1.0 / (0.01 * (prior.high_w - prior.low_w)) ** 2, bound)
        miss = power_w - np.asarray(matrix @ x)
        before = noise
        noise, ratio = reading_noise(miss, busy, power_w, floor_w, unsteady, 1.0)
        weight = student_weight(miss, noise, ratio)
        if turn > 1 and abs(noise / before - 1) < 0.01 and not outside.any():
            break
    x, covariance, gram, noise, weight = _agreed(
        matrix, power_w, prior, (x, noise, weight), busy, bound, floor_w, unsteady, totals
    )
    miss = power_w - np.asarray(matrix @ x)
    information = np.diag(gram).copy()
    loose = gram
    _tie(loose, prior, LOOSE)
    _invert(loose)
    apart = 1.0 / np.maximum(information * np.diag(loose), 1.0)
    used = float(np.clip(1.0 - np.diag(covariance) / prior.sd_w**2, 0.0, 1.0).sum())
    return Solution(
        np.clip(x, prior.low_w, prior.high_w),
        covariance,
        loose,
        apart,
        noise,
        _stretch(matrix, covariance, weight * miss) * n / max(n - used, 0.25 * n),
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
    system = _System(matrix, solution.weight / solution.noise_w**2, prior, solution.bound, totals)
    pull = solution.bound * np.clip(solution.power_w, prior.low_w, prior.high_w)
    powers = system.powers(power_w, pull, prior.mean_w, solution.power_w)
    return np.clip(powers, prior.low_w, prior.high_w)


def _agreed(
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

    As many powers as readings absorb the residuals: noise is estimated from the share of the readings of
    work that is left, and that share by the noise, until both agree.
    """
    k = matrix.shape[1]
    x, noise, weight = start
    target, share_before = prior.mean_w, 1.0
    turn = 0
    while True:
        final = _System(matrix, weight / noise**2, prior, bound, totals)
        gram = final.gram()
        covariance = gram.copy()
        _tie(covariance, prior)
        covariance.flat[:: k + 1] += bound
        _invert(covariance)
        x = covariance @ final.right(power_w, bound * np.clip(x, prior.low_w, prior.high_w), target)
        share = share_left(float(np.vdot(covariance, gram)), busy)
        if share > _ENOUGH_LEFT * share_before or turn == _AGAIN:
            break
        turn += 1
        miss, share_before = power_w - np.asarray(matrix @ x), share
        noise, ratio = reading_noise(miss, busy, power_w, floor_w, unsteady, share)
        weight = student_weight(miss, noise, ratio)
    if bound.any():
        covariance = gram.copy()
        _tie(covariance, prior)
        _invert(covariance)
    return x, covariance, gram, noise, weight


@dataclass(frozen=True)
class _System:
    """The normal equations for given weights; never written out where there are many classes."""

    matrix: sparse.csr_matrix
    weight: Floats  # (n,) over the variance
    prior: Prior
    bound: Floats  # (k,)
    totals: tuple[Floats, Floats, Floats] | None

    def gram(self) -> Floats:
        """Return the readings' part of the precision. Shape (k, k)."""
        scaled = self.matrix.multiply(np.sqrt(self.weight)[:, None]).tocsr()
        n, k = scaled.shape
        if scaled.nnz < _FULL * n * k:
            out = np.asarray((scaled.T @ scaled).todense())
        else:
            out = np.zeros((k, k))
            for first in range(0, n, _BLOCK):
                rows = scaled[first : first + _BLOCK].toarray()
                out += rows.T @ rows
        if self.totals is not None:
            rows = self.totals[0] / self.totals[2][:, None]
            out = out + rows.T @ rows
        return out

    def _tied(self, x: Floats) -> Floats:
        """Return the prior's precision times ``x``."""
        precisions = 1.0 / self.prior.sd_w**2
        lead = self.prior.shared * self.prior.mean_w
        pull = precisions * lead
        total = float(lead @ pull) + 1.0 / self.prior.scale_sd**2
        return np.asarray(precisions * x - pull * (float(pull @ x) / total))

    def right(self, power_w: Floats, bound_pull: Floats, target: Floats) -> Floats:
        """Return the right-hand side of the equations for the powers. Shape (k,)."""
        out = np.asarray(self.matrix.T @ (self.weight * power_w)) + self._tied(target) + bound_pull
        if self.totals is not None:
            rows, energy, deviation = self.totals
            out = out + rows.T @ (energy / deviation**2)
        return out

    def powers(self, power_w: Floats, bound_pull: Floats, target: Floats, start: Floats) -> Floats:
        """Return the powers: by factor where classes are few, else by conjugate gradients."""
        right = self.right(power_w, bound_pull, target)
        if len(target) < _LARGE:
            precision = self.gram()
            _tie(precision, self.prior)
            precision.flat[:: len(target) + 1] += self.bound
            return np.asarray(linalg.solve(precision, right, assume_a="pos", check_finite=False))
        rows = None if self.totals is None else self.totals[0] / self.totals[2][:, None]

        def times(x: Floats) -> Floats:
            out = np.asarray(self.matrix.T @ (self.weight * (self.matrix @ x))) + self._tied(x)
            out += self.bound * x
            return out if rows is None else np.asarray(out + rows.T @ (rows @ x))

        squares = self.matrix.multiply(self.matrix).T @ self.weight
        scale = np.asarray(squares).ravel() + 1.0 / self.prior.sd_w**2 + self.bound
        size = len(target)
        normal_operator = splinalg.LinearOperator((size, size), matvec=times, dtype=np.float64)
        ready = splinalg.LinearOperator((size, size), matvec=lambda v: v / scale, dtype=np.float64)
        x, _ = splinalg.cg(normal_operator, right, x0=start, M=ready, rtol=1e-5, maxiter=300)
        return np.asarray(x)


def _invert(precision: Floats) -> None:
    """Invert a positive definite matrix in place: of thousands of classes, copies cost as much."""
    below = precision.T  # the same matrix, laid out as LAPACK wants it
    factor, singular = linalg.lapack.dpotrf(below, lower=1, clean=0, overwrite_a=1)
    if singular:
        raise np.linalg.LinAlgError("the precision of the powers is singular")
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    size = len(precision)
    for first in range(0, size, _BLOCK):
        last = min(first + _BLOCK, size)
        corner = np.tril(inverse[first:last, first:last])
        precision[first:last, first:last] = corner + np.tril(corner, -1).T
        precision[last:, first:last] = inverse[last:, first:last]
        precision[first:last, last:] = inverse[last:, first:last].T


def _stretch(matrix: sparse.csr_matrix, covariance: Floats, pull: Floats, most: int = 30) -> float:
    r"""Variance inflation of the powers for residuals correlated from reading to reading, at least 1.

    Parameters
    ----------
    matrix : sparse, shape (n, k)
        Design.
    covariance : array, shape (k, k)
        Of the powers, misses taken as independent.
    pull : array, shape (n,)
        Misses times their weights.
    most : int
        Readings over which misses may be alike.

    Notes
    -----
    A miss moves a power by :math:`(V A^T)_{kn} w_n r_n`; the sum's variance is computed with the products of
    neighbors too (Newey and West 1987). A drift that all classes share moves none of them, so that the
    misses' own likeness would say too much.
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
