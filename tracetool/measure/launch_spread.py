"""Spread of power between launches of one class of work, from the readings."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.measure.design_matrix import Design
from tracetool.measure.ridge_solver import Solution

#: Relative standard deviation of power between launches of one class. [1] A prior: kernels on other data and
#: at other temperatures differ by one or two per cent.
_PRIOR_SPREAD: Final = 0.01
#: Readings that this prior counts as. [readings] A prior.
_PRIOR_READINGS: Final = 20.0
#: Residuals are clipped to this many standard deviations: outliers contain no information on launches. [1] A
#: prior.
_MOST_DEVIATIONS: Final = 4.0


def launch_spread(design_of_log: Design, solved: Solution, power_w: Floats, length_s: float) -> float:
    r"""Return the relative difference in power of launches of one class, from the readings' residuals. [1]

    Parameters
    ----------
    design_of_log : Design
        Share of each reading in each class.
    solved : Solution
        Powers of the classes.
    power_w : array, shape (n,)
        Readings. [W]
    length_s : float
        Length of the sensor's window. [s]

    Notes
    -----
    A share :math:`a` of a window of length W filled by launches of length :math:`l` holds :math:`aW/l` of
    them. Where the power of each deviates by :math:`\sigma` independently, the residual of the reading
    deviates by :math:`\sigma P\sqrt{a \min(a, l/W)}`; the variance of the residuals beyond the noise gives
    :math:`\sigma`.
    """
    k = design_of_log.classes
    matrix = design_of_log.matrix[:, :k].tocoo()
    launches = np.maximum(design_of_log.launches[:k], 1)
    launch_share = (design_of_log.seconds[:k] / launches / max(length_s, 1e-9))[matrix.col]
    each = matrix.data * np.minimum(matrix.data, launch_share) * solved.power_w[matrix.col] ** 2
    scale = np.bincount(matrix.row, each, minlength=len(power_w))
    well_covered = scale > 0.25 * float(np.median(scale[scale > 0])) if (scale > 0).any() else scale > 0
    if not well_covered.any():
        return _PRIOR_SPREAD
    residual = (power_w - solved.fitted_w)[well_covered]
    typical = 1.4826 * float(np.median(np.abs(residual)))
    square = np.minimum(np.abs(residual), _MOST_DEVIATIONS * typical) ** 2
    ratio = float(np.mean((square - solved.noise_w**2) / scale[well_covered]))
    count = float(well_covered.sum())
    variance = max(ratio, 0.0) * count + _PRIOR_READINGS * _PRIOR_SPREAD**2
    return float(np.sqrt(variance / (count + _PRIOR_READINGS)))
