"""A run under a power cap that its governor keeps with a time constant: bursts keep the requested clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats, Numbers
from tracetool.core.prediction import Prediction
from tracetool.replay.activities import Activities, rows_of_devices
from tracetool.replay.governor import Governor, held_share
from tracetool.replay.governor_windows import held_of_each, windows_of
from tracetool.replay.overlap import Rates
from tracetool.replay.totals import rates_at

#: Steps from the clock asked for to the clock under the cap; an activity's power takes the nearest.
LEVELS: Final = 5
#: Less than this of the work held, or left free, is none. [1]
_NONE: Final = 1e-6


@dataclass(frozen=True)
class HeldLaunches:
    """One clock of a run, between the requested clock and clocks under the cap.

    ``share`` is of each activity's work at the clock asked for; ``of_signature`` its mean over launches,
    ``fast`` and ``slow`` the same with the shortest and longest time constants.
    """

    share: Numbers  # (n,) held under the cap [1]
    longer: Floats  # (s,) time under the cap over time at the clock asked for [1]
    of_signature: Floats  # (s,)
    fast: Floats  # (s,)
    slow: Floats  # (s,)
    recorded: bool = False  # every activity takes its recorded time

    def stretch(self, signature: Numbers) -> Floats:
        """Return the factor on each activity's time at the requested clock. Shape (n,). [1]"""
        return np.asarray(1.0 + self.share * (self.longer[signature] - 1.0))

    def as_recorded(self, free_s: Floats, held_s: Floats, mean_s: Floats) -> HeldLaunches:
        """Return this with the shares that give the recorded mean times of the signatures. (s,) each. [s]"""
        room = held_s - free_s
        solved = np.divide(mean_s - free_s, room, out=self.of_signature.copy(), where=room > _NONE * mean_s)
        exact = np.where(room > _NONE * mean_s, np.clip(solved, 0.0, 1.0), self.of_signature)
        moved = exact - self.of_signature
        fast, slow = (np.clip(end + moved, 0.0, 1.0) for end in (self.fast, self.slow))
        return replace(self, of_signature=exact, fast=fast, slow=slow, recorded=True)


@dataclass(frozen=True)
class Governed:
    """A run under a governor with a time constant, where its cap binds."""

    free: Prediction  # at the clocks asked for, whatever is drawn
    capped: Prediction  # every kernel by itself under the cap
    at: Mapping[int, HeldLaunches]  # by clock; clocks without one are as in ``capped``
    burst_w: float  # what no moment passes
    governor: Governor
    speed: Floats | None = None  # (n,) at the recorded clock: how far ``burst_w`` had slowed each [1]

    def predicted(self) -> Prediction:
        """Return the means over the launches of every signature."""
        share = np.ones(self.capped.clock_mhz.shape)
        for j, held_launches in self.at.items():
            share[:, j] = held_launches.of_signature
        return mixed(self.free, self.capped, share)

    def levels(self, j: int, signature: Numbers) -> tuple[Rates, Numbers]:
        """Return each signature's rates at each share held under the cap, and each activity's row in them."""
        shape = (len(self.capped.requested_mhz),)
        steps = []
        for share in np.linspace(0.0, 1.0, LEVELS):
            level_share = np.full((self.capped.clock_mhz.shape[0], *shape), share)
            steps.append(rates_at(mixed(self.free, self.capped, level_share), j))
        columns = (
            np.stack([getattr(step, name) for step in steps], axis=1).ravel()
            for name in ("active", "base_w", "clock_w", "counts_j", "counts_w")
        )
        level = np.rint(self.at[j].share * (LEVELS - 1)).astype(np.int64)
        return Rates(*columns), signature.astype(np.int64) * LEVELS + level

    def spread(self, j: int, free_time_s: Floats, launches: Floats) -> tuple[Floats, Floats]:
        """Return the changes of kernel time and energy over the interval of the time constant, down and up.

        Parameters
        ----------
        j : int
            Clock.
        free_time_s : array, shape (s,)
            Time of all launches of each signature at the clock asked for. [s]
        launches : array, shape (s,)
            Their number.

        Returns
        -------
        time, energy : array, shape (2,)
            Half-widths below and above. [s], [J]
        """
        held_launches = self.at[j]
        apart_j = launches * (self.capped.energy_j[:, j] - self.free.energy_j[:, j])
        ends = [end - held_launches.of_signature for end in (held_launches.fast, held_launches.slow)]
        time = [float((free_time_s * (held_launches.longer - 1.0)) @ end) for end in ends]
        energy = [float(apart_j @ end) for end in ends]
        return tuple(np.array([-min(0.0, *moved), max(0.0, *moved)]) for moved in (time, energy))  # type: ignore[return-value]


def held_at(
    work_signature: Numbers,
    device: Numbers,
    start_ns: Floats,
    end_ns: Floats,
    *,
    free: Rates,
    capped: Rates,
    longer: Floats,
    idle_w: float,
    limit_w: float,
    governor: Governor,
) -> HeldLaunches | None:
    """Return the share of each activity that is slowed by the cap; None where all or none is.

    Parameters
    ----------
    work_signature, device : array of int, shape (n,)
        Signature and GPU of each activity.
    start_ns, end_ns : array, shape (n,)
        The timeline at the clock asked for. [ns]
    free, capped : Rates
        Power of each signature at the clock asked for and under the cap.
    longer : array, shape (s,)
        Time under the cap over time at the clock asked for. [1]
    idle_w, limit_w : float
        Power with nothing running, and the cap. [W]
    governor : Governor
        Its time constant.

    Notes
    -----
    What ran before the timeline is taken to be like it: the governor's mean begins at the timeline's
    own, or at the cap where that is lower.
    """
    shares = np.zeros((3, len(start_ns)))
    duration = end_ns - start_ns
    lasting = (duration > 0) & (longer[work_signature] > 1.0 + _NONE)
    if not lasting.any():
        return None
    span_ns = float(start_ns.min()), float(end_ns.max())
    for _, members in rows_of_devices(device):
        cut = windows_of(
            start_ns,
            end_ns,
            work_signature,
            members,
            free=free,
            capped=capped,
            longer=longer,
            idle_w=idle_w,
            limit_w=limit_w,
            time_constant_s=governor.time_constant_s,
            span_ns=span_ns,
        )
        before_w = min(limit_w, float(cut.free_w.mean()))
        of_device = slice(None) if members is None else members
        for row, tau in enumerate((governor.time_constant_s, governor.low_s, governor.high_s)):
            share = held_share(cut, limit_w, tau, before_w)
            shares[row, of_device] = held_of_each(cut, share, start_ns[of_device], end_ns[of_device])
    if (shares[:, lasting] > 1.0 - _NONE).all():
        return None
    s = len(longer)
    signature_ns = np.bincount(work_signature, weights=duration, minlength=s)
    mean, fast, slow = (
        np.divide(
            np.bincount(work_signature, weights=row * duration, minlength=s),
            signature_ns,
            out=np.zeros(s),
            where=signature_ns > 0,
        )
        for row in shares
    )
    return HeldLaunches(shares[0].astype(np.float32), longer, mean, fast, slow)


def governed_speed(
    work: Activities, rates: Rates, limit_w: float, speed: Floats, governor: Governor
) -> Floats | None:
    """Return the slowdown of each activity by a cap during the recording, given the governor. (n,) [1]

    Parameters
    ----------
    work : Activities
        The recording.
    rates : Rates
        Power of each signature in it.
    limit_w : float
        The limit it was under. [W]
    speed : array, shape (n,)
        What keeping that limit at every moment would have done.
    governor : Governor
        What kept it.
    """
    s = len(rates.active)
    held_launches = held_at(
        work.signature,
        work.device,
        work.start_ns,
        work.end_ns,
        free=rates,
        capped=rates,
        longer=np.full(s, 1.0 + 1e-3),  # what was recorded took as long as it took
        idle_w=float(rates.base_w.min(initial=limit_w)),
        limit_w=limit_w,
        governor=governor,
    )
    if held_launches is None:
        return speed
    partly = 1.0 - held_launches.share * (1.0 - speed)
    return None if (partly > 1.0 - _NONE).all() else np.asarray(partly)


def mixed(free: Prediction, held: Prediction, share: Floats) -> Prediction:
    """Return the mean of two predictions of the same rows, launch by launch.

    Parameters
    ----------
    free, held : Prediction
        n rows at c clocks, as asked for and under a cap.
    share : array, shape (n, c)
        Share of the work that is done as ``held`` says. [1]
    """
    before, after = (1.0 - share) * free.timing.duration_s, share * held.timing.duration_s
    duration = before + after
    in_time = np.divide(after, duration, out=np.zeros_like(share), where=duration > 0)

    def summed(name: str) -> Floats:
        return np.asarray((1.0 - share) * getattr(free, name) + share * getattr(held, name))

    def averaged(uncapped: Floats, under_cap: Floats) -> Floats:
        return np.asarray((1.0 - in_time) * uncapped + in_time * under_cap)

    mostly = in_time > 0.5
    times = {
        name: (1.0 - share) * getattr(free.timing, name) + share * getattr(held.timing, name)
        for name in ("duration_s", "core_s", "memory_s")
    }
    timing = replace(
        held.timing,
        **times,
        busy_s={u: (1.0 - share) * v + share * held.timing.busy_s[u] for u, v in free.timing.busy_s.items()},
        sm_active=averaged(free.timing.sm_active, held.timing.sm_active),
        bound=np.where(mostly, held.timing.bound, free.timing.bound),
    )
    return replace(
        held,
        clock_mhz=averaged(free.clock_mhz, held.clock_mhz),
        timing=timing,
        energy_j=summed("energy_j"),
        energy_low_j=summed("energy_low_j"),
        energy_high_j=summed("energy_high_j"),
        power_w=averaged(free.power_w, held.power_w),
        power_low_w=averaged(free.power_low_w, held.power_low_w),
        power_high_w=averaged(free.power_high_w, held.power_high_w),
        parts_j={p: (1.0 - share) * v + share * held.parts_j[p] for p, v in free.parts_j.items()},
        throttled=held.throttled & mostly,
        throttled_time=np.where(held.throttled, in_time, 0.0),
    )
