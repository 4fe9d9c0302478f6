"""Normal equations of weighted ridge least squares: their matrix, their solution and its covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as splinalg

from tracetool.core.arrays import Floats

#: Classes from which on the equations are solved by conjugate gradients. [1] For speed.
_MANY_CLASSES = 800
#: Rows of a matrix processed at once. [1] For memory.
_BLOCK = 512
#: Share of non-zero cells from which on a matrix is processed densely. [1] For speed.
_DENSE_SHARE = 0.05


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


def add_prior_precision(precision: Floats, prior: Prior, width: float = 1.0) -> None:
    """Add the prior's precision, its common scale integrated out, to a matrix of precisions in place."""
    precisions = 1.0 / (width * prior.sd_w) ** 2
    lead = prior.shared * prior.mean_w
    pull = precisions * lead
    total = float(lead @ pull) + 1.0 / (width * prior.scale_sd) ** 2
    precision -= np.outer(pull / total, pull)
    precision.flat[:: len(precisions) + 1] += precisions


@dataclass(frozen=True)
class NormalEquations:
    """The normal equations for given weights; their matrix is never built where there are many classes."""

    matrix: sparse.csr_matrix
    weight: Floats  # (n,) over the variance
    prior: Prior
    bound: Floats  # (k,)
    totals: tuple[Floats, Floats, Floats] | None

    def gram(self) -> Floats:
        """Return the readings' part of the precision. Shape (k, k)."""
        scaled = self.matrix.multiply(np.sqrt(self.weight)[:, None]).tocsr()
        n, k = scaled.shape
        if scaled.nnz < _DENSE_SHARE * n * k:
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

    def _prior_times(self, x: Floats) -> Floats:
        """Return the prior's precision times ``x``."""
        precisions = 1.0 / self.prior.sd_w**2
        lead = self.prior.shared * self.prior.mean_w
        pull = precisions * lead
        total = float(lead @ pull) + 1.0 / self.prior.scale_sd**2
        return np.asarray(precisions * x - pull * (float(pull @ x) / total))

    def right(self, power_w: Floats, bound_pull: Floats, target: Floats) -> Floats:
        """Return the right-hand side of the equations for the powers. Shape (k,)."""
        out = np.asarray(self.matrix.T @ (self.weight * power_w)) + self._prior_times(target) + bound_pull
        if self.totals is not None:
            rows, energy, deviation = self.totals
            out = out + rows.T @ (energy / deviation**2)
        return out

    def powers(self, power_w: Floats, bound_pull: Floats, target: Floats, start: Floats) -> Floats:
        """Return the powers: by factor where classes are few, else by conjugate gradients."""
        right = self.right(power_w, bound_pull, target)
        if len(target) < _MANY_CLASSES:
            precision = self.gram()
            add_prior_precision(precision, self.prior)
            precision.flat[:: len(target) + 1] += self.bound
            return np.asarray(linalg.solve(precision, right, assume_a="pos", check_finite=False))
        rows = None if self.totals is None else self.totals[0] / self.totals[2][:, None]

        def times(x: Floats) -> Floats:
            out = np.asarray(self.matrix.T @ (self.weight * (self.matrix @ x))) + self._prior_times(x)
            out += self.bound * x
            return out if rows is None else np.asarray(out + rows.T @ (rows @ x))

        squares = self.matrix.multiply(self.matrix).T @ self.weight
        scale = np.asarray(squares).ravel() + 1.0 / self.prior.sd_w**2 + self.bound
        size = len(target)
        normal_operator = splinalg.LinearOperator((size, size), matvec=times, dtype=np.float64)
        ready = splinalg.LinearOperator((size, size), matvec=lambda v: v / scale, dtype=np.float64)
        x, _ = splinalg.cg(normal_operator, right, x0=start, M=ready, rtol=1e-5, maxiter=300)
        return np.asarray(x)


def invert_in_place(precision: Floats) -> None:
    """Replace a positive definite matrix, shape (k, k), by its inverse without a copy of it.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is singular.
    """
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
