"""Regression of stitched samples with bands from resampled runs, of one run from its scatter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import LEVEL, Z90
from tracetool.measure.fingrav.basis import Basis

#: Copies of a curve from resampled data: ends of a band are the 10th from either end. [1] A prior.
_RESAMPLES = 200
#: Weights of the roughness that are tried, over the mean square of a column. [1] A prior.
_SMOOTHING = np.logspace(-6, 4, 21)
#: Misses in a row are taken to resemble each other by no more than this. [1] A prior.
_MOST_ALIKE = 0.95


@dataclass(frozen=True)
class Trend:
    """A fitted curve and its resampled copies."""

    basis: Basis
    coefficients: Floats  # (k,)
    resampled: Floats  # (b, k)
    smoothing: float
    other: Floats  # (q,) coefficients of the columns beside the curve
    resampled_other: Floats  # (b, q)
    miss_w: float  # root mean square of what the fit leaves [W]

    def at(self, phase: Floats) -> tuple[Floats, Floats, Floats]:
        """Return power and both ends of its 90 % band at phases. Each shape (n,). [W]"""
        rows = self.basis.at(phase)
        copies = self.resampled @ rows.T
        tail = 100.0 * (1.0 - LEVEL) / 2.0
        low, high = np.percentile(copies, [tail, 100.0 - tail], axis=0)
        return rows @ self.coefficients, low, high

    def mean(self) -> tuple[float, float, float]:
        """Return the mean over the profile and both ends of its 90 % interval. [W]"""
        full_integral = self.basis.integral(np.array([1.0]))[0]
        copies = self.resampled @ full_integral
        tail = 100.0 * (1.0 - LEVEL) / 2.0
        low, high = np.percentile(copies, [tail, 100.0 - tail])
        return float(full_integral @ self.coefficients), float(low), float(high)


def fit_trend(
    rows: Floats,
    power_w: Floats,
    run: Ints,
    basis: Basis,
    *,
    beside: Floats | None = None,
    seed: int = 0,
) -> Trend:
    """Return the curve through samples.

    Parameters
    ----------
    rows : array, shape (n, k)
        Mean of the basis over what each sample saw.
    power_w : array, shape (n,)
        Samples. [W]
    run : array of int, shape (n,)
        Run of each: runs, not samples, are resampled, since samples of one run are alike. Of a single run
        the band is that of its own samples' scatter: what another run would differ by it cannot show.
    basis : Basis
        Its roughness is penalized as its marginal likelihood says.
    beside : array, shape (n, q), optional
        Further columns (gaps, warming up), not penalized.
    seed : int
        Of the resampling.
    """
    k = basis.size
    full = rows if beside is None else np.hstack([rows, beside])
    size = full.shape[1]
    penalty = np.zeros((size, size))
    penalty[:k, :k] = basis.penalty
    _, owner = np.unique(run, return_inverse=True)
    runs = int(owner.max()) + 1 if len(owner) else 0
    grams = np.zeros((runs, size, size))
    sides = np.zeros((runs, size))
    np.add.at(grams, owner, full[:, :, None] * full[:, None, :])
    np.add.at(sides, owner, full * power_w[:, None])
    gram, side = grams.sum(axis=0), sides.sum(axis=0)
    ridge = 1e-9 * max(float(np.trace(gram)) / size, 1e-12) * np.eye(size)
    smoothing = _smoothing(gram, side, power_w, penalty, ridge) if penalty.any() else 0.0
    normal = gram + smoothing * penalty + ridge
    coefficients = np.linalg.solve(normal, side)
    miss = power_w - full @ coefficients
    random = np.random.default_rng(seed)
    if runs > 1:
        draw = random.multinomial(runs, np.full(runs, 1.0 / runs), _RESAMPLES)
        many = np.tensordot(draw, grams, axes=1) + smoothing * penalty + ridge
        moved = np.linalg.solve(many, (draw @ sides)[:, :, None])[:, :, 0] - coefficients
        moved *= np.sqrt(runs / (runs - 1.0)) * _student(runs - 1.0)  # resampled ones spread by less
    else:
        moved = _scattered(full, miss, normal, random)
    copies = coefficients + moved
    if smoothing:
        copies = copies + _smoothed_away(normal, smoothing * penalty, miss, random)
    miss_w = float(np.sqrt(np.mean(miss**2))) if len(power_w) else 0.0
    return Trend(basis, coefficients[:k], copies[:, :k], smoothing, coefficients[k:], copies[:, k:], miss_w)


def _student(freedom: float) -> float:
    """Return the end of Student's 90 % interval over that of the normal one. [1]"""
    from scipy.special import stdtrit  # takes a tenth of a second, and few commands need it

    return float(stdtrit(freedom, 0.5 * (1.0 + LEVEL))) / Z90


def _scattered(full: Floats, miss: Floats, normal: Floats, random: np.random.Generator) -> Floats:
    r"""Return draws of what the scatter of one run's samples moves its fit by. Shape (b, k + q).

    Their covariance is :math:`\sigma^2 V G V`, :math:`G` the normal matrix without its penalty and :math:`V`
    the inverse of that with it, times :math:`(1 + \rho)/(1 - \rho)` where a miss resembles the one before by
    :math:`\rho`.
    """
    gram = full.T @ full
    fitted = np.linalg.solve(normal, full.T).T  # its product with ``full`` is what a fit takes of each sample
    freedom = max(len(miss) - float(np.sum(fitted * full)), 1.0)
    variance = float(miss @ miss) / freedom
    taken = float(np.sum(fitted[1:] * full[:-1]))  # by which the fit makes misses in a row unlike
    alike = (float(miss[1:] @ miss[:-1]) / max(variance, 1e-300) + taken) / max(len(miss), 1)
    alike = float(np.clip(alike, 0.0, _MOST_ALIKE))
    half = np.linalg.solve(normal, _root(gram)) * np.sqrt(variance * (1.0 + alike) / (1.0 - alike))
    return np.asarray(_student(freedom) * random.standard_normal((_RESAMPLES, half.shape[1])) @ half.T)


def _smoothed_away(normal: Floats, penalty: Floats, miss: Floats, random: np.random.Generator) -> Floats:
    r"""Return draws of what smoothing took from a curve, absent from resampled runs. Shape (b, k).

    The part :math:`\sigma^2 V \lambda P V` of the posterior covariance of a penalized fit (Wahba 1983),
    :math:`V` the inverse of the penalized normal matrix.
    """
    variance = float(miss @ miss) / max(len(miss) - len(normal), 1)
    half = np.linalg.solve(normal, _root(penalty)) * np.sqrt(variance)
    return np.asarray(random.standard_normal((_RESAMPLES, half.shape[1])) @ half.T)


def _root(matrix: Floats) -> Floats:
    """Columns whose outer products sum to a positive semidefinite matrix."""
    size, turn = np.linalg.eigh(matrix)
    return np.asarray(turn * np.sqrt(np.maximum(size, 0.0)))


def _smoothing(gram: Floats, side: Floats, power_w: Floats, penalty: Floats, ridge: Floats) -> float:
    """Weight of the roughness with the highest restricted likelihood."""
    n, size = len(power_w), len(gram)
    rank = int(np.linalg.matrix_rank(penalty))
    best, chosen = np.inf, float(_SMOOTHING[-1])
    scale = float(np.trace(gram)) / size
    for value in _SMOOTHING * scale:
        normal = gram + value * penalty + ridge
        coefficients = np.linalg.solve(normal, side)
        miss = float(power_w @ power_w - 2 * coefficients @ side + coefficients @ gram @ coefficients)
        rough = value * float(coefficients @ penalty @ coefficients)
        _, log_size = np.linalg.slogdet(normal)
        spare = max(n - size + rank, 1)
        score = spare * np.log(max(miss + rough, 1e-300)) + log_size - rank * np.log(value)
        if score < best:
            best, chosen = score, float(value)
    return chosen
