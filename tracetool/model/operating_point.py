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
#: Rounds that guess the clock before the search halves what is left, and the exponent of the clock in the
#: first guess of power. [1] By definition of the search: without effect on where it ends.
_GUESSES, _STEEPNESS = 5, 2


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
    never falls with the clock, so that clock is found by a bracketed search over the supported ones.

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
    power_w = groups.mean_power_w(*cost)
    over = power_w > cap_w
    rows, columns = np.flatnonzero(over.any(axis=1)), np.flatnonzero(over.any(axis=0))
    if not rows.size:
        return clocks
    asked = np.ix_(rows, columns)
    places = _highest_allowed(
        cost_at, rows, groups, supported_mhz, cap_w, requested_mhz[columns], power_w[asked]
    )
    settled = np.minimum(supported_mhz[places], clocks[asked])
    clocks[asked] = np.where(over[asked], settled, clocks[asked])
    return clocks


def _highest_allowed(
    cost_at: CostAt,
    rows: Ints,
    groups: LoopGroups,
    supported_mhz: Floats,
    cap_w: float,
    requested_mhz: Floats,
    power_w: Floats,
) -> Ints:
    """Return the place of the highest supported clock below each requested one that the cap allows; (r, c).

    A bracketed search: a power law through the power at the requested clock, then a line through the ends
    of the bracket (in logarithms), then halves of what is left.
    """
    # Invariant: supported[low] is allowed (or the lowest there is), supported[high] is not.
    high = np.maximum(np.searchsorted(supported_mhz, requested_mhz - 1e-6), 1)
    high = np.broadcast_to(high, power_w.shape).copy()
    low = np.where(power_w > cap_w, 0, high - 1)  # nothing to find where the requested clock is allowed
    # a GPU measured above its highest supported clock may be asked for that one
    logs = np.log(np.append(supported_mhz, max(requested_mhz.max(), supported_mhz[-1])))
    at_high, at_low = np.log(np.maximum(power_w, 1e-12)), np.full(power_w.shape, np.nan)
    log_cap = float(np.log(max(cap_w, 1e-12)))
    most_rounds = _GUESSES + int(np.ceil(np.log2(len(supported_mhz) + 1))) + 1
    for guess in range(most_rounds):
        open_rows = np.flatnonzero((high - low > 1).any(axis=1))
        if not open_rows.size:
            break
        above, below = high[open_rows], low[open_rows]
        if guess < _GUESSES:
            excess = at_high[open_rows] - log_cap
            steep = (at_high[open_rows] - at_low[open_rows]) / np.maximum(logs[above] - logs[below], 1e-12)
            steep = np.where(np.isfinite(steep) & (steep > 0), steep, _STEEPNESS)
            middle = np.searchsorted(logs, logs[above] - excess / steep, side="right") - 1
        else:
            middle = (below + above) // 2
        middle = np.clip(middle, below + 1, np.maximum(above - 1, below + 1))
        middle = np.where(above - below > 1, middle, below)
        _, inside = np.unique(groups.group[rows[open_rows]], return_inverse=True)
        together = LoopGroups(inside, groups.launches[rows[open_rows]])
        drawn_w = together.mean_power_w(*cost_at(rows[open_rows], supported_mhz[middle]))
        allowed = drawn_w <= cap_w
        drawn = np.log(np.maximum(drawn_w, 1e-12))
        low[open_rows], high[open_rows] = np.where(allowed, middle, below), np.where(allowed, above, middle)
        # a bracket that is closed stays as it is
        closed = above - below <= 1
        high[open_rows] = np.where(closed, above, high[open_rows])
        at_low[open_rows] = np.where(allowed, drawn, at_low[open_rows])
        at_high[open_rows] = np.where(allowed | closed, at_high[open_rows], drawn)
    return low
