"""Programs under a power cap: busy phases reach it, waiting ones do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.prediction import Timing
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.anchor import Anchor
from tracetool.model.operating_point import LoopGroups, clocks_under_cap
from tracetool.model.power import PowerParts

#: Share of a program's time in which it is busy, one case each; a mean power does not say which, so each
#: counts the same.
_BUSY_SHARE = tuple(sorted(prior_table("phases.busy_share").values()))
#: Norm in which waiting and busy time overlap: 1 would be one after the other, large both at once.
_OVERLAP = prior_number("phases.overlap")
#: A row counts as throttled if at least this share of the cases is. [1] By definition: more likely than not.
_LIKELY = 1 / 2

#: Timing and energy of the chosen rows at clocks of shape (r, c).
At = Callable[[Ints, Floats], tuple[Timing, PowerParts]]


@dataclass(frozen=True)
class Governed:
    """Rows as the power governor lets them run.

    Parameters
    ----------
    clock_mhz : array, shape (n, c)
        Clock of the busy phases. [MHz]
    throttled : array of bool, shape (n, c)
        Where that is below the requested one.
    timing, parts
        Time and energy there.
    time_sd, power_sd : array, shape (n, c)
        Spread of ln time and ln power over what the busy share may be; 0 where no cap binds. [1]
    """

    clock_mhz: Floats
    throttled: Bools
    timing: Timing
    parts: PowerParts
    time_sd: Floats
    power_sd: Floats

    def timing_within(self, low: Floats, high: Floats) -> Timing:
        """Return the timing with other bounds, as factors of shape (n,)."""
        return replace(self.timing, low=low, high=high)


def busy_shares(anchor: Anchor | None, base_w: Floats, limit_w: float) -> Floats:
    r"""Return the shares of its time in which each row may be busy, one column a case. Shape (n, k).

    .. math:: b_k = \max\left(b, \frac{\bar P - P_w}{C_0 - P_w}\right)

    A program alternates busy and waiting phases; its busy power follows from its mean :math:`\bar P` and
    the waiting power :math:`P_w`, and was at most the limit :math:`C_0` of the GPU it was measured on. A
    kernel, and a row without a measured power, is busy throughout.

    Parameters
    ----------
    anchor : Anchor, optional
        The measurements of n rows.
    base_w : array, shape (n,)
        Power with nothing running at each row's measured clock. [W]
    limit_w : float
        Power that the governor held the measured GPU to. [W]
    """
    if anchor is None or not (programs := anchor.programs()).any():
        return np.ones((len(base_w), 1))
    measured = np.where(programs, anchor.power_w, 1.0)
    least = np.clip((measured - base_w) / np.maximum(limit_w - base_w, 1e-9), 0.0, 1.0)
    shares = np.maximum(np.asarray(_BUSY_SHARE)[None, :], least[:, None])
    return np.where(programs[:, None], shares, 1.0)


def govern(
    at: At,
    free: tuple[Timing, PowerParts],
    requested_mhz: Floats,
    supported_mhz: Floats,
    cap_w: float,
    *,
    groups: LoopGroups,
    busy: Floats,
) -> Governed:
    r"""Return rows under a power cap that acts on their busy phases.

    The clock :math:`f_b` of the busy phases is the highest whose busy power is allowed,

    .. math:: P_w(f_b) + \frac{P(f_b) - P_w(f_b)}{b} \le C

    and only they take longer: :math:`T = T_0 ((1 - b^p) + (b\, m(f_b) / m(f_0))^p)^{1/p}` with m the time
    that moves with a clock. Some waiting is hidden by work that takes longer (p = 2: host and GPU overlap
    in part). Counts cost what they cost at :math:`f_b`; the base is that of each phase's own clock.

    Parameters
    ----------
    at : callable
        Timing and energies of some rows at some clocks; see ``At``.
    free : (Timing, PowerParts)
        The same at the requested clocks.
    requested_mhz : array, shape (c,)
        Clocks asked for. [MHz]
    supported_mhz : array, rising
        Clocks the driver accepts. [MHz]
    cap_w : float
        Power the governor settles at. [W]
    groups : LoopGroups
        Rows that share a clock.
    busy : array, shape (n, k)
        What the busy share may be; see :func:`busy_shares`.
    """
    timing, parts = free
    cases = [_one_case(at, free, requested_mhz, supported_mhz, cap_w, groups, share) for share in busy.T]
    if len(cases) == 1:
        return cases[0]
    nothing = np.zeros_like(timing.duration_s)
    if not any(case.throttled.any() for case in cases):
        return cases[0]
    log_time = np.log([np.maximum(case.timing.duration_s, 1e-15) for case in cases])
    log_energy = np.log([np.maximum(case.parts.total(), 1e-15) for case in cases])
    changed = np.any([case.throttled for case in cases], axis=0)
    middle = cases[len(cases) // 2]
    duration = np.where(changed, np.exp(log_time.mean(0)), timing.duration_s)
    energy = np.where(changed, np.exp(log_energy.mean(0)), parts.total())
    factor = energy / np.maximum(middle.parts.total(), 1e-15)
    return Governed(
        clock_mhz=np.mean([case.clock_mhz for case in cases], axis=0),
        throttled=np.mean([case.throttled for case in cases], axis=0) >= _LIKELY,
        timing=replace(middle.timing, duration_s=duration),
        parts=replace(middle.parts, joules={k: v * factor for k, v in middle.parts.joules.items()}),
        time_sd=np.where(changed, log_time.std(0), nothing),
        power_sd=np.where(changed, (log_energy - log_time).std(0), nothing),
    )


def _one_case(
    at: At,
    free: tuple[Timing, PowerParts],
    requested_mhz: Floats,
    supported_mhz: Floats,
    cap_w: float,
    groups: LoopGroups,
    busy: Floats,
) -> Governed:
    """Return the rows under the cap if each is busy a given share of its time, shape (n,)."""
    timing, parts = free

    def busy_cost(rows: Ints, row_timing: Timing, row_parts: PowerParts) -> tuple[Floats, Floats]:
        waiting = row_parts.joules["base"]
        work = (row_parts.total() - waiting) / np.maximum(busy[rows], 1e-3)[:, None]
        return waiting + work, row_timing.duration_s

    everyone = np.arange(len(busy))
    settled = clocks_under_cap(
        lambda rows, clocks: busy_cost(rows, *at(rows, clocks)),
        busy_cost(everyone, timing, parts),
        requested_mhz,
        supported_mhz,
        cap_w,
        groups=groups,
    )
    nothing = np.zeros_like(timing.duration_s)
    throttled = settled < requested_mhz[None, :]
    if not throttled.any():
        return Governed(settled, throttled, timing, parts, nothing, nothing)
    slow, slow_parts = at(everyone, settled)
    if (busy >= 1.0).all():
        return Governed(settled, throttled, slow, slow_parts, nothing, nothing)
    fixed = timing.fixed_s[:, None]
    moving = np.maximum(timing.duration_s - fixed, 1e-15)
    share = np.minimum(busy[:, None], moving / np.maximum(timing.duration_s, 1e-15))
    longer = np.maximum(slow.duration_s - fixed, 1e-15) / moving
    duration = timing.duration_s * ((1.0 - share**_OVERLAP) + (share * longer) ** _OVERLAP) ** (
        1.0 / _OVERLAP
    )
    busy_s = np.minimum(timing.duration_s * share * longer, duration)
    waiting_w = parts.joules["base"] / np.maximum(timing.duration_s, 1e-15)
    slow_w = slow_parts.joules["base"] / np.maximum(slow.duration_s, 1e-15)
    phased = throttled & (busy < 1.0)[:, None]
    base = np.where(phased, slow_w * busy_s + waiting_w * (duration - busy_s), slow_parts.joules["base"])
    return Governed(
        settled,
        throttled,
        replace(slow, duration_s=np.where(phased, duration, slow.duration_s)),
        replace(slow_parts, joules={**slow_parts.joules, "base": base}),
        nothing,
        nothing,
    )
