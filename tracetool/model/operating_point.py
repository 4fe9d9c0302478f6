"""The power cap: the clock, the time and the power of a capped GPU are one fixed point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetool.vocabulary.arrays import Floats, Ints

#: Power of the chosen rows at clocks of shape (r, c): ``power(rows, clocks) -> (r, c)``. [W]
PowerAt = Callable[[Ints, Floats], Floats]


def clocks_under_cap(
    power_at: PowerAt, power_w: Floats, asked_mhz: Floats, supported_mhz: Floats, cap_w: float
) -> Floats:
    """Return the clock each row runs at when the board may not exceed a power.

    The governor settles at the highest supported clock whose power is at or under the cap. Power
    never falls with the clock, so that clock is found by bisection over the supported ones.

    Parameters
    ----------
    power_at : callable
        Power of some rows at some clocks; see ``PowerAt``.
    power_w : array, shape (n, c)
        Power at the asked clocks. [W]
    asked_mhz : array, shape (c,)
        Clocks asked for. [MHz]
    supported_mhz : array, shape (s,), rising
        Clocks the driver accepts. [MHz]
    cap_w : float
        Power limit. [W]

    Returns
    -------
    array, shape (n, c)
        The asked clock where its power is allowed, else a lower supported one; the lowest where
        none is allowed. [MHz]
    """
    clocks = np.broadcast_to(asked_mhz, power_w.shape).copy()
    over = power_w > cap_w
    rows = np.flatnonzero(over.any(axis=1))
    if not rows.size:
        return clocks
    # Invariant: supported[low] is allowed (or the lowest there is), supported[high] is not.
    high = np.broadcast_to(np.searchsorted(supported_mhz, asked_mhz - 1e-6), (rows.size, len(asked_mhz)))
    high = np.maximum(high, 1)
    low = np.zeros_like(high)
    for _ in range(int(np.ceil(np.log2(len(supported_mhz) + 1))) + 1):
        middle = np.maximum((low + high) // 2, 0)
        allowed = power_at(rows, supported_mhz[middle]) <= cap_w
        low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
        if (high - low <= 1).all():
            break
    settled = np.minimum(supported_mhz[low], clocks[rows])
    clocks[rows] = np.where(over[rows], settled, clocks[rows])
    return clocks
