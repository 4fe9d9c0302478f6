"""Curves over a kernel's power profile: polynomial and spline, with their integrals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import legendre

from tracetool.core.arrays import Floats


@dataclass(frozen=True)
class Basis:
    """Functions of the phase, 0 at a kernel's start and 1 at its end."""

    curves: Any  # all splines in one of vectors, and its antiderivative; None for a polynomial
    integrals: Any
    degree: int  # of the polynomial, -1 for splines
    penalty: Floats  # (k, k) roughness

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.penalty)

    def at(self, phase: Floats) -> Floats:
        """Return the functions at phases. Shape (n, k)."""
        u = np.clip(phase, 0.0, 1.0)
        if self.degree >= 0:
            return np.asarray(legendre.legvander(2.0 * u - 1.0, self.degree))
        return np.asarray(self.curves(u))

    def integral(self, phase: Floats) -> Floats:
        """Return the functions' integrals from 0 to each phase. Shape (n, k)."""
        u = np.clip(phase, 0.0, 1.0)
        if self.degree >= 0:
            columns = []
            for i in range(self.degree + 1):
                antiderivative = np.zeros(self.degree + 1)
                antiderivative[i] = 1.0
                series = legendre.legint(antiderivative, lbnd=-1)
                columns.append(0.5 * legendre.legval(2.0 * u - 1.0, series))
            return np.stack(columns, axis=1)
        return np.asarray(self.integrals(u))


def polynomial(degree: int = 4) -> Basis:
    """Return the polynomial basis; degree 4 is the paper's trend."""
    return Basis(None, None, degree, np.zeros((degree + 1, degree + 1)))


def _cubic(knots: Floats, penalty: Floats) -> Basis:
    """Return the basis of all cubic splines over knots."""
    from scipy.interpolate import BSpline  # takes a quarter of a second, and few commands need it

    curves = BSpline(knots, np.eye(len(penalty)), 3)
    return Basis(curves, curves.antiderivative(), -1, penalty)


def spline(pieces: int = 10) -> Basis:
    """Return a cubic spline basis whose roughness is its second difference."""
    knots = np.concatenate([np.zeros(3), np.linspace(0.0, 1.0, pieces + 1), np.ones(3)])
    size = pieces + 3
    second = np.diff(np.eye(size), n=2, axis=0)
    return _cubic(knots, second.T @ second)


def end_spline(pieces: int = 16) -> tuple[Basis, Floats]:
    r"""Return a cubic spline basis with knots close at both ends, and the places of its functions, 0 to 1.

    Knots are even in :math:`w` with phase :math:`\sin^2(\pi w/2)`: a kernel's power changes fastest
    where it fills and drains the machine. The places, shape (k,), are in :math:`w`.
    """
    even = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, pieces + 1)) ** 2
    knots = np.concatenate([np.zeros(3), even, np.ones(3)])
    size = pieces + 3
    middle = np.array([knots[i + 1 : i + 4].mean() for i in range(size)])
    return _cubic(knots, np.zeros((size, size))), 2.0 / np.pi * np.arcsin(np.sqrt(middle))
