"""The power cap: the clock, the time and the power of a capped GPU are one fixed point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.hardware.priors import prior_number

#: Energy and duration of the chosen rows at clocks of shape (r, c): ``cost(rows, clocks)``. [J], [s]
CostAt = Callable[[Ints, Floats], tuple[Floats, Floats]]
#: A power governor acts on the mean over about this long: kernels shorter than it share a clock. [s]
LOOP_S = prior_number("governor.loop")


@dataclass(frozen=True)
class LoopGroups:
    """Rows that share one operating point, and how often each runs.

    ``group`` numbers the rows' groups from 0, ``launches`` weights them within it; both (n,).
    """

    group: Ints
    launches: Floats

    def mean_power_w(self, energy_j: Floats, duration_s: Floats) -> Floats:
        """Return the mean power of each row's group; 0 where it takes no time. (n, c) [W]"""
        shape = (int(self.group.max(initial=-1)) + 1, energy_j.shape[1])
        joules, seconds = np.zeros(shape), np.zeros(shape)
        np.add.at(joules, self.group, self.launches[:, None] * energy_j)
        np.add.at(seconds, self.group, self.launches[:, None] * duration_s)
        mean = np.divide(joules, seconds, out=np.zeros(shape), where=seconds > 0)
        return np.asarray(mean[self.group])


def loop_groups(duration_s: Floats, launches: Floats | None) -> LoopGroups:
    """Return which rows a governor sees together: the short ones of a sequence, else each row alone.

    Parameters
    ----------
    duration_s : array, shape (n, c)
        Time of one launch. [s]
    launches : array, shape (n,), optional
        How often each row runs in the sequence; None if the rows are no sequence.
    """
    n = len(duration_s)
    if launches is None:
        return LoopGroups(np.arange(n), np.ones(n))
    short = duration_s.max(axis=1, initial=0.0) < LOOP_S
    alone = np.cumsum(~short)
    return LoopGroups(np.where(short, 0, alone).astype(np.int64), np.asarray(launches, np.float64))


def clocks_under_cap(
    cost_at: CostAt,
    cost: tuple[Floats, Floats],
    requested_mhz: Floats,
    supported_mhz: Floats,
    cap_w: float,
    *,
    groups: LoopGroups,
) -> Floats:
    """Return the clock each row runs at when the GPU may not exceed a power.

    The governor settles at the highest supported clock whose power is at or under the cap. Power
    never falls with the clock, so that clock is found by bisection over the supported ones.

    Parameters
    ----------
    cost_at : callable
        Energy and duration of some rows at some clocks; see ``CostAt``.
    cost : (array, array), shape (n, c) each
        The same at the asked clocks. [J], [s]
    requested_mhz : array, shape (c,)
        Clocks asked for. [MHz]
    supported_mhz : array, shape (s,), rising
        Clocks the driver accepts. [MHz]
    cap_w : float
        Power limit. [W]
    groups : LoopGroups
        Rows that share a clock; see :func:`loop_groups`.

    Returns
    -------
    array, shape (n, c)
        The asked clock where its power is allowed, else a lower supported one; the lowest where
        none is allowed. [MHz]
    """
    clocks = np.broadcast_to(requested_mhz, cost[0].shape).copy()
    over = groups.mean_power_w(*cost) > cap_w
    rows = np.flatnonzero(over.any(axis=1))
    if not rows.size:
        return clocks
    _, inside = np.unique(groups.group[rows], return_inverse=True)
    capped = LoopGroups(inside, groups.launches[rows])
    # Invariant: supported[low] is allowed (or the lowest there is), supported[high] is not.
    high = np.broadcast_to(
        np.searchsorted(supported_mhz, requested_mhz - 1e-6), (rows.size, len(requested_mhz))
    )
    high = np.maximum(high, 1)
    low = np.zeros_like(high)
    for _ in range(int(np.ceil(np.log2(len(supported_mhz) + 1))) + 1):
        middle = (low + high) // 2
        allowed = capped.mean_power_w(*cost_at(rows, supported_mhz[middle])) <= cap_w
        low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
        if (high - low <= 1).all():
            break
    settled = np.minimum(supported_mhz[low], clocks[rows])
    clocks[rows] = np.where(over[rows], settled, clocks[rows])
    return clocks
