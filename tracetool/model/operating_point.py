"""The power cap: the clock, the time and the power of a capped GPU are one fixed point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.hardware.priors import prior_number

#: Energy and duration of the chosen rows at clocks of shape (r, c): ``cost(rows, clocks)``. [J], [s]
CostAt = Callable[[Ints, Floats], tuple[Floats, Floats]]
#: A power governor acts on the mean over about this long: kernels shorter than it share a clock. [s]
LOOP_S = prior_number("governor.loop")
#: Rounds that guess the clock before the search halves what is left, and the exponent of the clock in the
#: first guess of power. [1] By definition of the search: without effect on where it ends.
_GUESSES, _STEEPNESS = 5, 2
#: Clocks tried at once: the one guessed and those above it. [places] By definition of the search.
_NEIGHBORS = np.arange(3)


@dataclass(frozen=True)
class LoopGroups:
    """Rows that share one operating point, and how often each runs.

    ``group`` numbers the rows' groups from 0, ``launches`` weights them within it; both (n,). Rows ``alone``
    are each a group of their own.
    """

    group: Ints
    launches: Floats
    alone: bool = False

    def take(self, rows: Ints) -> LoopGroups:
        """Return the groups of the chosen rows, renumbered."""
        if self.alone:
            return LoopGroups(np.arange(len(rows)), self.launches[rows], alone=True)
        _, inside = np.unique(self.group[rows], return_inverse=True)
        return LoopGroups(inside, self.launches[rows])

    def mean_power_w(self, energy_j: Floats, duration_s: Floats) -> Floats:
        """Return the mean power of each row's group; 0 where it takes no time. (n, c) [W]"""
        if self.alone:
            return np.divide(energy_j, duration_s, out=np.zeros(energy_j.shape), where=duration_s > 0)
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
        return LoopGroups(np.arange(n), np.ones(n), alone=True)
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
    never falls with the clock, so that clock is the same for all that are asked for above it: it is found by
    one bracketed search over the supported ones.

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
    clocks = np.broadcast_to(requested_mhz, cost[0].shape)
    power_w = groups.mean_power_w(*cost)
    over = power_w > cap_w
    rows = np.flatnonzero(over.any(axis=1))
    if not rows.size:
        return clocks
    low, high = _bracket(requested_mhz, power_w[rows], over[rows], supported_mhz)
    settled_mhz = supported_mhz[_highest_allowed(cost_at, rows, groups, supported_mhz, cap_w, low, high)]
    clocks = clocks.copy()
    clocks[rows] = np.where(over[rows], np.minimum(settled_mhz[:, None], requested_mhz), clocks[rows])
    return clocks


@dataclass
class _End:
    """One end of a bracket of each row: its place among supported clocks, ln of its clock and power; (r,)."""

    place: Ints
    log_mhz: Floats
    log_w: Floats

    def move(self, rows: Ints, place: Ints, log_mhz: Floats, log_w: Floats) -> None:
        """Move the end of the chosen rows, in place."""
        self.place[rows], self.log_mhz[rows], self.log_w[rows] = place, log_mhz, log_w


def _bracket(requested_mhz: Floats, power_w: Floats, over: Bools, supported_mhz: Floats) -> tuple[_End, _End]:
    """Return the highest requested clock that the cap allows and the lowest that it does not.

    Where it allows none, the lower end is the lowest supported clock, at a clock of 0 and unknown power.
    """
    row = np.arange(len(over))
    top = np.argmin(np.where(over, requested_mhz, np.inf), axis=1)
    top_mhz = requested_mhz[top]
    below = np.where(requested_mhz < top_mhz[:, None], requested_mhz, 0.0)
    bottom = np.argmax(below, axis=1)
    bottom_mhz = below[row, bottom]
    high = np.maximum(np.searchsorted(supported_mhz, top_mhz - 1e-6), 1)
    low = np.clip(np.searchsorted(supported_mhz, bottom_mhz + 1e-6, side="right") - 1, 0, high - 1)
    log_w = np.log(np.maximum(power_w, 1e-12))
    with np.errstate(divide="ignore"):
        log_mhz = np.log(bottom_mhz)
    bottom_log_w = np.where(bottom_mhz > 0.0, log_w[row, bottom], np.nan)
    return _End(low, log_mhz, bottom_log_w), _End(high, np.log(top_mhz), log_w[row, top])


def _highest_allowed(
    cost_at: CostAt,
    rows: Ints,
    groups: LoopGroups,
    supported_mhz: Floats,
    cap_w: float,
    low: _End,
    high: _End,
) -> Ints:
    """Return the place of the highest supported clock that the cap allows each row; (r,).

    A bracketed search: a line through the ends of the bracket (in logarithms), or a power law through the
    upper one where nothing is known of a lower, then halves of what is left.
    """
    # Invariant: supported[low] is allowed (or the lowest there is), supported[high] is not.
    supported = np.log(supported_mhz)
    log_cap = float(np.log(max(cap_w, 1e-12)))
    most_rounds = _GUESSES + int(np.ceil(np.log2(len(supported_mhz) + 1))) + 1
    for guess in range(most_rounds):
        open_rows = np.flatnonzero(high.place - low.place > 1)
        if not open_rows.size:
            break
        below, above = low.place[open_rows], high.place[open_rows]
        if guess < _GUESSES:
            rise = high.log_w[open_rows] - low.log_w[open_rows]
            steep = rise / np.maximum(high.log_mhz[open_rows] - low.log_mhz[open_rows], 1e-12)
            steep = np.where(np.isfinite(steep) & (steep > 0), steep, _STEEPNESS)
            guess_log_mhz = high.log_mhz[open_rows] - (high.log_w[open_rows] - log_cap) / steep
            middle = np.searchsorted(supported, guess_log_mhz, side="right") - 1
        else:
            middle = (below + above) // 2
        tried = np.clip(middle[:, None] + _NEIGHBORS, (below + 1)[:, None], (above - 1)[:, None])
        drawn_w = groups.take(rows[open_rows]).mean_power_w(*cost_at(rows[open_rows], supported_mhz[tried]))
        drawn = np.log(np.maximum(drawn_w, 1e-12))
        allowed = np.logical_and.accumulate(drawn_w <= cap_w, axis=1).sum(axis=1)
        for end, column, moves in (
            (low, allowed - 1, allowed > 0),
            (high, allowed, allowed < len(_NEIGHBORS)),
        ):
            at = np.flatnonzero(moves), column[moves]
            end.move(open_rows[moves], tried[at], supported[tried[at]], drawn[at])
    return low.place
