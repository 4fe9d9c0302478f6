"""The best of several operating points: the fastest of those that no power sensor can separate."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.vocabulary.arrays import Floats

#: Energies this close are one: no power sensor separates them. [1]
TIE: Final = 0.005


def least(cost: Floats, time: Floats) -> int:
    """Return the fastest of the points whose cost no measurement separates from the least.

    Examples
    --------
    >>> least(np.array([5.02, 5.0, 5.2]), np.array([1.0, 2.0, 0.5]))
    0
    """
    equal = np.flatnonzero(cost <= cost.min() * (1.0 + TIE))
    return int(equal[np.argmin(time[equal])])
