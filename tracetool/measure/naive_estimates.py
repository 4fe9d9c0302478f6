"""Naive estimates without a model of the sensor, which every attribution is compared with."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats


def by_time(seconds: Floats, total_j: float) -> Floats:
    """Return the total divided by time. Shape (k,). [J]

    Parameters
    ----------
    seconds : array, shape (k,)
        Time of each class. [s]
    total_j : float
        Energy of all classes together. [J]
    """
    return np.asarray(total_j * seconds / max(float(seconds.sum()), 1e-300))


def by_model(seconds: Floats, power_w: Floats, total_j: float) -> Floats:
    """Return the total divided in proportion to a model's energies. Shape (k,). [J]

    Parameters
    ----------
    seconds : array, shape (k,)
        Time of each class. [s]
    power_w : array, shape (k,)
        Modeled power of each class. [W]
    total_j : float
        Energy of all classes together. [J]
    """
    share = seconds * power_w
    return np.asarray(total_j * share / max(float(share.sum()), 1e-300))
