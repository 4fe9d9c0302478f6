"""Programs under a power cap: busy phases reach it, waiting ones do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.prediction import Timing
from tracetool.core.records import with_rows
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.anchor import Anchor
from tracetool.model.operating_point import LoopGroups, clocks_under_cap
from tracetool.model.power import PowerParts

#: Share of a program's time in which it is busy, one case each; a mean power does not say which, so each
#: counts the same.
_BUSY_SHARE: Final = tuple(sorted(prior_table("phases.busy_share").values()))
#: Exponent of the norm that joins waiting and busy time: 1 adds them, a large one overlaps them. [1]
_OVERLAP: Final = prior_number("phases.overlap")
#: Power demand of busy phases at most, over the power limit of the measurement. [1]
_MOST_DEMAND: Final = prior_number("phases.most_demand")
#: Exponent of the clock by which the power of busy phases falls faster than the program's mean. [1]
_POWER_EXPONENT: Final = prior_number("phases.steeper")
#: Standard deviation of ln time, relative to the increase by the cap. [1]
_SLOWDOWN_SD: Final = prior_number("phases.slowdown_sd")
#: Standard deviation of ln power, relative to the decrease by the cap. [1]
_POWER_LOSS_SD: Final = prior_number("phases.weaker_sd")
#: Factors on time and power from which on a program counts as throttled: smaller changes cannot be determined
#: from two runs. [1]
_LEAST_SLOWDOWN: Final = 1.0 + prior_table("phases.apart")["time"]
_LEAST_POWER: Final = 1.0 - prior_table("phases.apart")["power"]
#: Clocks at which phases are computed at most. [1] By definition of that search: its grid.
_GRID: Final = 128

#: Timing and energy of the chosen rows at clocks of shape (r, c).
At = Callable[[Ints, Floats], tuple[Timing, PowerParts]]


@dataclass(frozen=True)
class Governed:
    """Rows under the power governor: their clocks, times and energies.

    Parameters
    ----------
    clock_mhz : array, shape (n, c)
        Clock of the busy phases. [MHz]
    throttled : array of bool, shape (n, c)
        Kernels: whether that clock is below the requested one. Programs: whether the cap changes time or
        power by more than the difference between two runs of one program.
    timing, parts
        Time and energy there.
    time_sd, power_sd : array, shape (n, c)
        Standard deviation of ln time and ln power over the possible phases; 0 where no cap binds. [1]
    """

    clock_mhz: Floats
    throttled: Bools
    timing: Timing
    parts: PowerParts
    time_sd: Floats
    power_sd: Floats

    def timing_within(self, low: Floats, high: Floats) -> Timing:
        """Return the timing with other bounds: factors of shape (n, c), or (n, 1) for every clock."""
        shape = self.timing.duration_s.shape
        return replace(self.timing, low=np.broadcast_to(low, shape), high=np.broadcast_to(high, shape))


def govern(
    at: At,
    free: tuple[Timing, PowerParts],
    requested_mhz: Floats,
    supported_mhz: Floats,
    cap_w: float,
    *,
    groups: LoopGroups,
    anchor: Anchor | None = None,
    measured_cap_w: float = np.inf,
) -> Governed:
    """Return rows under a power cap: kernels by their mean power, programs by their busy phases.

    Parameters
    ----------
    at : callable
        Timing and energies of some rows at some clocks; see ``At``.
    free : (Timing, PowerParts)
        The same at the requested clocks. Its arrays may be written over.
    requested_mhz : array, shape (c,)
        Clocks asked for. [MHz]
    supported_mhz : array, rising
        Clocks the driver accepts. [MHz]
    cap_w : float
        Power the governor settles at. [W]
    groups : LoopGroups
        Rows that share a clock.
    anchor : Anchor, optional
        The measurements; programs among them have phases, see :func:`programs_under_cap`.
    measured_cap_w : float
        Power that the governor held the measured GPU to. [W]
    """
    if anchor is None or not (programs := np.flatnonzero(anchor.programs())).size:
        return _steady(at, free, requested_mhz, supported_mhz, cap_w, groups, in_place=True)
    steady = _steady(at, free, requested_mhz, supported_mhz, cap_w, groups)
    grid_mhz = phase_clocks(supported_mhz, np.append(requested_mhz, anchor.clock_mhz[programs]))
    grid_timing, grid_parts = at(programs, np.broadcast_to(grid_mhz, (len(programs), len(grid_mhz))).copy())
    curves = PhaseCurves(
        grid_mhz,
        grid_timing.duration_s,
        grid_timing.fixed_s,
        grid_parts.total() / np.maximum(grid_timing.duration_s, 1e-15),
        grid_parts.joules["base"] / np.maximum(grid_timing.duration_s, 1e-15),
        np.searchsorted(grid_mhz, anchor.clock_mhz[programs] - 1e-6),
    )
    places = np.searchsorted(grid_mhz, requested_mhz - 1e-6)
    phases = programs_under_cap(curves, places, cap_w, measured_cap_w)
    return _with_phases(at, free, steady, programs, phases)


def phase_clocks(supported_mhz: Floats, wanted_mhz: Floats) -> Floats:
    """Return at most about ``_GRID`` supported clocks, with the wanted ones among them. [MHz]"""
    step = max(1, len(supported_mhz) // _GRID)
    return np.unique(np.concatenate([supported_mhz[::-1][::step], wanted_mhz]))


@dataclass(frozen=True)
class PhaseCurves:
    """Programs over clocks, as if each ran there from start to end: n programs, g clocks.

    Parameters
    ----------
    clock_mhz : array, shape (g,), rising
        The clocks. [MHz]
    duration_s, power_w, waiting_w : array, shape (n, g)
        Time, mean power, and the power with nothing running. [s], [W], [W]
    fixed_s : array, shape (n,)
        Part of the time that no clock moves. [s]
    measured : array of int, shape (n,)
        Place of each program's measured clock.
    """

    clock_mhz: Floats
    duration_s: Floats
    fixed_s: Floats
    power_w: Floats
    waiting_w: Floats
    measured: Ints


@dataclass(frozen=True)
class PhasesUnderCap:
    """Programs under a cap by case of the busy share; (k, n, c) each.

    ``longer`` and ``weaker`` are time and mean power over those at the same clock without the cap.
    """

    clock_mhz: Floats
    throttled: Bools
    longer: Floats
    weaker: Floats


def programs_under_cap(
    curves: PhaseCurves, requested: Ints, cap_w: float, measured_cap_w: float
) -> PhasesUnderCap:
    r"""Return the effect of a cap on programs that alternate busy and waiting phases.

    A program busy a share b of its time asks for a busy power of, at its measured clock,

    .. math:: D = \min\left(W + \frac{\bar P - W}{b}, d\, C_0\right)

    with :math:`\bar P` its mean power, W the waiting power, and :math:`C_0` the cap it was measured under.
    If D is above :math:`C_0`, its busy phases were clipped when it was measured: they ran at the highest
    clock :math:`f_0` with

    .. math:: P_b(f) = W(f) + (D - W) \frac{P(f) - W(f)}{\bar P - W} (f / f_m)^s \le C_0

    and the share of its time they then took is :math:`b_0 = (\bar P - W) / (P_b(f_0) - W(f_0))`. Under a cap
    C they run at the highest clock :math:`f_b` with :math:`P_b(f_b) \le C`, and the program takes

    .. math:: T = T_0 \left((1 - b_0^p) + (b_0\, m(f_b) / m(f_0))^p\right)^{1/p}

    with m the time that moves with a clock: waiting hides some of the longer work. Its energy is that of the
    work at :math:`f_b` and of each phase's own waiting power. A cap makes no program faster, nor its power
    higher.

    Parameters
    ----------
    curves : PhaseCurves
        n programs over g clocks.
    requested : array of int, shape (c,)
        Places of the clocks asked for.
    cap_w, measured_cap_w : float
        C and :math:`C_0`. [W]
    """
    cases = [_one_case(curves, requested, cap_w, measured_cap_w, share) for share in _BUSY_SHARE]
    return PhasesUnderCap(
        *(np.asarray([getattr(c, f) for c in cases]) for f in PhasesUnderCap.__annotations__)
    )


def _one_case(
    curves: PhaseCurves, requested: Ints, cap_w: float, measured_cap_w: float, share: float
) -> PhasesUnderCap:
    """Return the programs as if each were busy a given share of its time; (n, c) each."""
    rows = np.arange(len(curves.measured))
    mean_w, waiting_w = (a[rows, curves.measured] for a in (curves.power_w, curves.waiting_w))
    work_w = np.maximum(mean_w - waiting_w, 1e-9)
    most_w = np.maximum(_MOST_DEMAND * measured_cap_w, mean_w)
    demand_w = np.minimum(waiting_w + work_w / share, most_w) - waiting_w
    relative = np.maximum(curves.power_w - curves.waiting_w, 1e-9) / work_w[:, None]
    steeper = (curves.clock_mhz / curves.clock_mhz[curves.measured][:, None]) ** _POWER_EXPONENT
    busy_w = curves.waiting_w + demand_w[:, None] * relative * steeper
    start = np.minimum(_highest(busy_w <= max(measured_cap_w, 0.0)), curves.measured)
    start_w = busy_w[rows, start] - curves.waiting_w[rows, start]
    fixed = curves.fixed_s
    moving = np.maximum(curves.duration_s - fixed[:, None], 1e-15)
    measured_s = curves.duration_s[rows, curves.measured]
    busy = np.clip(np.minimum(work_w / np.maximum(start_w, 1e-9), 1.0 - fixed / measured_s), 0.0, 1.0)
    work_j = relative * steeper * curves.duration_s

    limit_w = min(cap_w, measured_cap_w)
    unclipped = np.minimum(requested[None, :], start[:, None])
    place = np.minimum(_highest(busy_w <= limit_w)[:, None], unclipped)
    at = rows[:, None]
    slower = moving[at, place] / moving[rows, start][:, None]
    longer = ((1.0 - busy**_OVERLAP)[:, None] + (busy[:, None] * slower) ** _OVERLAP) ** (1 / _OVERLAP)
    time = measured_s[:, None] * longer
    working = np.minimum((measured_s * busy)[:, None] * slower, time)
    work = (work_w * measured_s / work_j[rows, start])[:, None] * work_j[at, place]
    waiting = curves.waiting_w[at, requested[None, :]] * (time - working)
    power = (work + waiting + curves.waiting_w[at, place] * working) / time
    throttled = place < unclipped
    return PhasesUnderCap(
        curves.clock_mhz[np.where(throttled, place, requested[None, :])],
        throttled,
        np.where(throttled, np.maximum(time / curves.duration_s[:, requested], 1.0), 1.0),
        np.where(throttled, np.minimum(power / curves.power_w[:, requested], 1.0), 1.0),
    )


def _highest(allowed: Bools) -> Ints:
    """Return the place of the last allowed clock of each row, the first where none is. (n,)"""
    last = allowed.shape[1] - 1 - np.argmax(allowed[:, ::-1], axis=1)
    return np.asarray(np.where(allowed.any(axis=1), last, 0))


def _with_phases(
    at: At, free: tuple[Timing, PowerParts], steady: Governed, programs: Ints, phases: PhasesUnderCap
) -> Governed:
    """Return governed rows with the programs among them by their phases: the geometric mean of the cases."""
    timing, parts = free
    slowed = phases.throttled.any(axis=0)
    log_time, log_power = np.log(phases.longer), np.log(phases.weaker)
    duration_factor, power_factor = np.exp(log_time.mean(axis=0)), np.exp(log_power.mean(axis=0))
    clock = phases.clock_mhz.mean(axis=0)
    slow, slow_parts = at(programs, clock)
    duration = timing.duration_s[programs] * duration_factor
    energy = parts.total()[programs] * duration_factor * power_factor
    scale = energy / np.maximum(slow_parts.total(), 1e-15)
    of_programs = {
        "clock_mhz": clock,
        "throttled": slowed & ((duration_factor >= _LEAST_SLOWDOWN) | (power_factor <= _LEAST_POWER)),
        "time_sd": np.where(
            slowed, np.hypot(log_time.std(axis=0), _SLOWDOWN_SD * log_time.mean(axis=0)), 0.0
        ),
        "power_sd": np.where(
            slowed, np.hypot(log_power.std(axis=0), _POWER_LOSS_SD * log_power.mean(axis=0)), 0.0
        ),
    }
    columns = {name: getattr(steady, name).copy() for name in of_programs}
    for name, values in of_programs.items():
        columns[name][programs] = values
    times = {name: getattr(steady.timing, name).copy() for name in ("duration_s", "core_s", "memory_s")}
    for name, values in times.items():
        values[programs] = duration if name == "duration_s" else getattr(slow, name)
    joules = {name: values.copy() for name, values in steady.parts.joules.items()}
    for name, values in joules.items():
        values[programs] = np.where(slowed, slow_parts.joules[name] * scale, parts.joules[name][programs])
    return replace(
        steady,
        timing=replace(steady.timing, **times),
        parts=replace(steady.parts, joules=joules),
        **columns,
    )


def _steady(
    at: At,
    free: tuple[Timing, PowerParts],
    requested_mhz: Floats,
    supported_mhz: Floats,
    cap_w: float,
    groups: LoopGroups,
    *,
    in_place: bool = False,
) -> Governed:
    """Return the rows under the cap as if each drew its mean power throughout."""
    timing, parts = free

    def cost(row_timing: Timing, row_parts: PowerParts) -> tuple[Floats, Floats]:
        return row_parts.total(), row_timing.duration_s

    settled = clocks_under_cap(
        lambda rows, clocks: cost(*at(rows, clocks)),
        cost(timing, parts),
        requested_mhz,
        supported_mhz,
        cap_w,
        groups=groups,
    )
    nothing = np.broadcast_to(0.0, timing.duration_s.shape)
    throttled = settled < requested_mhz[None, :]
    slowed = np.flatnonzero(throttled.any(axis=1))
    if slowed.size:
        slow_timing, slow_parts = at(slowed, settled[slowed])
        timing = with_rows(timing, slowed, slow_timing, in_place=in_place)
        parts = with_rows(parts, slowed, slow_parts, in_place=in_place)
    return Governed(settled, throttled, timing, parts, nothing, nothing)
