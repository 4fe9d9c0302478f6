"""Array types used by the physics packages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Texts: TypeAlias = NDArray[np.object_]
Numbers: TypeAlias = NDArray[Any]


def by_row(values: Floats) -> Floats:
    """Return the one column that an array (n, c) shows at every clock, shape (n, 1), else the array itself.

    What no clock changes is kept once a row and seen c times (a view of ``numpy.broadcast_to``): what is
    computed from it alone need not be computed c times.
    """
    return values[:, :1] if values.ndim == 2 and values.strides[1] == 0 else values


def by_clock(values: Floats) -> Floats:
    """Return the one row that an array (n, c) shows in every row, shape (1, c), else the array itself."""
    return values[:1] if values.ndim == 2 and values.strides[0] == 0 else values


def per(numerator: Floats, denominator: Floats) -> Floats:
    """Return part over whole, 0 where the whole is zero. Equal shapes."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def mean_size(values: Floats) -> float:
    """Return the mean of absolute values, as of relative errors."""
    return float(np.mean(np.abs(values)))


def root_sum(a: Floats, b: Floats) -> Floats:
    """Return the root of the sum of squares of numbers near 1, in a tenth of the time of ``numpy.hypot``."""
    return np.sqrt(a * a + b * b)
