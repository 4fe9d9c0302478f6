"""Timing of measured kernels from their counters, and from their times at several clocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import BOUNDS, Timing
from tracetool.core.work import Work
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.activity import has_activity, has_mix, with_unseen, work_of_activity
from tracetool.model.anchor import Anchor
from tracetool.model.anchor_groups import kernels
from tracetool.model.time_shares import PROGRAM_S, TimeShares, shares_of_activity


def from_counters(rows: OperatorColumns) -> Bools:
    """Return the rows whose activity or mix is known, so that their family is not needed. Shape (n,)."""
    return has_activity(rows) | has_mix(rows)


def counted_shares(rows: OperatorColumns, gpu: Gpu, anchor: Anchor, kernel: Ints | None = None) -> TimeShares:
    """Return the shares of each row's time, by its activity and by its times at other clocks.

    Rows of one number in ``kernel`` (n,) are one kernel; by default those with equal names and launches.
    Rows without a measurement get shares that are not used, as do rows without counters at one clock.
    """
    active = has_activity(rows)
    seconds = np.where(anchor.measured, anchor.duration_s, 1.0)
    clock = np.where(anchor.measured, anchor.clock_mhz, gpu.clock_max_mhz)
    alone = shares_of_activity(rows, gpu, seconds, clock, active)
    if kernel is None:
        kernel = kernels(rows, anchor)
    kernel = np.where(anchor.measured, kernel, -1 - np.arange(len(rows)))
    return shares_over_clocks(alone, gpu, seconds, clock, kernel, active)


def measured_at_several(rows: OperatorColumns, anchor: Anchor) -> Bools:
    """Return the rows whose kernel was measured at several clocks. Shape (n,)."""
    _, kernel = np.unique(kernels(rows, anchor), return_inverse=True)
    lowest, highest = np.full(len(rows), np.inf), np.zeros(len(rows))
    np.minimum.at(lowest, kernel, anchor.clock_mhz)
    np.maximum.at(highest, kernel, anchor.clock_mhz)
    return np.asarray((highest > lowest)[kernel] & anchor.measured)


def with_fitted_split(
    timing: Timing,
    anchor: Anchor,
    shares: TimeShares,
    clock_mhz: Floats,
    mem_clock_mhz: float | None,
    fitted: Bools,
) -> Timing:
    """Return the timing with the chosen rows split as fitted to their times at several clocks.

    Parameters
    ----------
    timing : Timing
        Of n rows at clocks of shape (n, c).
    fitted : array of bool, shape (n,)
        Rows measured at several clocks.
    """
    core, memory = _core_and_memory(anchor, shares, clock_mhz, mem_clock_mhz)
    fixed = anchor.duration_s * shares.fixed
    overlap = shares.overlap[:, None]
    duration = (core**overlap + memory**overlap) ** (1 / overlap) + fixed[:, None]
    chosen = fitted[:, None]
    return replace(
        timing,
        duration_s=np.where(chosen, duration, timing.duration_s),
        core_s=np.where(chosen, core, timing.core_s),
        memory_s=np.where(chosen, memory, timing.memory_s),
        fixed_s=np.where(fitted, fixed, timing.fixed_s),
    )


def counter_timing(
    rows: OperatorColumns,
    gpu: Gpu,
    anchor: Anchor,
    shares: TimeShares,
    clock_mhz: Floats,
    mem_clock_mhz: float | None,
) -> Timing:
    r"""Return the timing of rows from their measured activity or instruction mix alone.

    .. math:: t(f) / t_0 = s_f + ((s_c f_0 / f)^p + (s_m f_{m0} / f_m)^p)^{1/p}

    Parameters
    ----------
    rows : OperatorColumns
        n rows, all anchored.
    shares : TimeShares
        How their time divides; see :func:`counted_shares`.
    clock_mhz : array, shape (n, c)
        Core clocks. [MHz]
    mem_clock_mhz : float, optional
        Memory clock; by default each row's measured one. [MHz]
    """
    mem = anchor.mem_clock_mhz if mem_clock_mhz is None else np.full(len(rows), mem_clock_mhz)
    core, memory = _core_and_memory(anchor, shares, clock_mhz, mem_clock_mhz)
    fixed = anchor.duration_s * shares.fixed
    overlap = shares.overlap[:, None]
    duration = (core**overlap + memory**overlap) ** (1 / overlap) + fixed[:, None]
    work = work_of_activity(rows, gpu, anchor.duration_s, anchor.clock_mhz)
    bound = np.where(memory > core, BOUNDS.index("dram"), BOUNDS.index("fp32"))
    bound = np.where(fixed[:, None] > np.maximum(core, memory), BOUNDS.index("launch"), bound)
    octaves = np.abs(np.log2(clock_mhz / anchor.clock_mhz[:, None]))
    spread = np.exp(Z90 * anchor.time_sd(shares.log_sd_per_octave, octaves))
    return Timing(
        duration_s=duration,
        low=1 / spread,
        high=spread,
        busy_s={u: np.minimum(s, duration) for u, s in _busy(work, gpu, clock_mhz, mem).items()},
        sm_active=np.clip(rows.number("act_sm", 1.0), 0.0, 1.0)[:, None] * np.ones_like(clock_mhz),
        fixed_s=fixed,
        core_s=core,
        memory_s=memory,
        bound=bound.astype(np.int64),
        work=with_unseen(work, rows),
        basis=np.full(len(rows), "anchored", dtype=object),
    )


def _core_and_memory(
    anchor: Anchor, shares: TimeShares, clock_mhz: Floats, mem_clock_mhz: float | None
) -> tuple[Floats, Floats]:
    """Return the times that the core and the memory would take by themselves, (n, c) each. [s]"""
    share = np.ones(len(anchor.measured)) if mem_clock_mhz is None else mem_clock_mhz / anchor.mem_clock_mhz
    start = (anchor.duration_s * (1.0 - shares.fixed))[:, None]
    core = start * shares.core[:, None] * anchor.clock_mhz[:, None] / clock_mhz
    start_efficiency = shares.efficiency.at(anchor.clock_mhz)[:, None]
    slower = shares.efficiency.at(clock_mhz, share[:, None]) / start_efficiency
    return core, start * shares.memory[:, None] * slower


def _busy(work: Work, gpu: Gpu, clock_mhz: Floats, mem_mhz: Floats) -> dict[str, Floats]:
    per_s = gpu.sm_count * clock_mhz * 1e6
    dram = gpu.dram_bytes_per_s * mem_mhz / gpu.memory_clock_mhz
    return {
        "tensor": work.tensor_flops[:, None] / (per_s * gpu.rate("tensor_fp16")),
        "fp32": work.fp32_flops[:, None] / (per_s * gpu.rate("fp32")),
        "fp64": work.fp64_flops[:, None] / (per_s * gpu.rate("fp64")),
        "l2": work.l2_bytes[:, None] / (gpu.l2_bytes_per_clock * clock_mhz * 1e6),
        "dram": (work.dram_bytes / dram)[:, None] * np.ones_like(clock_mhz),
    }


#: Relative standard deviation of a measured time about the model of its kernel. [1]
_TIME_SD = prior_number("anchor.time")
#: Standard deviation of memory's share where activity was measured, and where only an instruction mix is
#: known. [1]
_SHARE_SD, _UNSEEN_SD = (prior_table("anchor.memory_share")[key] for key in ("seen", "unseen"))
#: Standard deviation of a program's host share, relative to the range by which it can rise or fall. [1]
_HOST_SD = prior_number("anchor.host")
#: Shares of memory that the search over both shares tries. [1] By definition of that search: its grid.
_SHARES: Floats = np.linspace(0.0, 1.0, 51)
#: Host shares it tries: from none (-1) over the prior's (0) to the largest possible (1). [1] By definition of
#: that search: its grid.
_STEPS: Floats = np.linspace(-1.0, 1.0, 21)
_MOST_HOST = prior_number("monitor.most_host")
#: Standard deviation of ln time per doubling of the clock from the nearest measurement, and its increase with
#: memory's share. [1]
_LOG_SD_PER_OCTAVE, _LOG_SD_OF_MEMORY = (
    prior_table("anchor.sd_per_octave")[key] for key in ("core", "memory")
)


@dataclass(frozen=True)
class _Split:
    """Shares at the highest clock: of memory in the norm of kernel time, of the host; exponent. (n,) each."""

    memory: Floats
    host: Floats
    overlap: Floats

    def time(self, slower_core: Floats, slower_memory: Floats) -> Floats:
        """Return the time relative to that at the highest clock."""
        core = (1.0 - self.memory) * slower_core**self.overlap
        moving = (core + self.memory * slower_memory**self.overlap) ** (1.0 / self.overlap)
        return np.asarray(self.host + (1.0 - self.host) * moving)


def shares_over_clocks(
    shares: TimeShares, gpu: Gpu, duration_s: Floats, clock_mhz: Floats, kernel: Ints, active: Bools
) -> TimeShares:
    """Return the shares with those of every kernel timed at several clocks fitted to its times.

    The shares from a kernel's activity are the prior; its times at several clocks, relative to one another,
    update them. Kernels timed at one clock keep their shares.

    Parameters
    ----------
    shares : TimeShares
        Of n rows, each at its own clock.
    duration_s, clock_mhz : array, shape (n,)
        Where they were measured.
    kernel : array of int, shape (n,)
        Rows of one number are one kernel.
    active : array of bool, shape (n,)
        Rows whose activity is known.
    """
    _, kernel = np.unique(kernel, return_inverse=True)
    count = int(kernel.max()) + 1 if len(kernel) else 0
    lowest, highest = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(lowest, kernel, clock_mhz)
    np.maximum.at(highest, kernel, clock_mhz)
    several = (highest > lowest)[kernel]
    if not several.any():
        return shares
    rows = np.flatnonzero(several)
    _, group = np.unique(kernel[rows], return_inverse=True)
    top = gpu.clock_max_mhz
    core = top / clock_mhz[rows]
    memory = shares.efficiency.at(clock_mhz[rows]) / shares.efficiency.at(top)
    at_top = _at_top(shares, rows, core, memory)
    prior = _Split(_mean(at_top.memory, group), _mean(at_top.host, group), _mean(at_top.overlap, group))
    spread = np.where(_mean(active[rows].astype(np.float64), group) > 0.5, _SHARE_SD, _UNSEEN_SD)
    log_time = np.log(duration_s[rows])
    program = _mean(log_time, group) >= np.log(PROGRAM_S)
    fitted = _fitted(log_time, core, memory, group, prior, spread, program)
    split = _Split(fitted.memory[group], fitted.host[group], fitted.overlap[group])
    moving = split.time(core, memory)
    free = np.maximum(moving - split.host, 1e-12) / (1.0 - split.host)
    columns = {
        "core": (1.0 - split.memory) ** (1 / split.overlap) * core / free,
        "memory": split.memory ** (1 / split.overlap) * memory / free,
        "overlap": split.overlap,
        "fixed": split.host / moving,
        "log_sd_per_octave": _LOG_SD_PER_OCTAVE
        + _LOG_SD_OF_MEMORY * _mean(shares.memory[rows], group)[group],
    }
    updated = {name: getattr(shares, name).copy() for name in columns}
    for name, values in columns.items():
        updated[name][rows] = values
    return replace(shares, **updated)


def _at_top(shares: TimeShares, rows: Ints, core: Floats, memory: Floats) -> _Split:
    """Return the shares at the highest clock, from those at each row's own clock."""
    overlap = shares.overlap[rows]
    of_core = (shares.core[rows] / core) ** overlap
    of_memory = (shares.memory[rows] / memory) ** overlap
    moving = (of_core + of_memory) ** (1.0 / overlap)
    host = shares.fixed[rows]
    return _Split(
        of_memory / np.maximum(of_core + of_memory, 1e-12),
        np.minimum(host / np.maximum(host + (1.0 - host) * moving, 1e-12), _MOST_HOST),
        overlap,
    )


def _fitted(
    log_time: Floats,
    core: Floats,
    memory: Floats,
    group: Ints,
    prior: _Split,
    spread: Floats,
    program: Bools,
) -> _Split:
    """Return the split of each kernel of highest posterior probability, by a search over both shares.

    The time of a kernel contains no host time, so the host share is searched for programs only.
    """
    best = _Split(prior.memory.copy(), prior.host.copy(), prior.overlap)
    least = np.full(len(program), np.inf)
    for step in _STEPS if program.any() else (0.0,):
        room = np.where(step > 0, _MOST_HOST - prior.host, prior.host)
        host = prior.host + step * room * program
        for share in _SHARES:
            overlap = prior.overlap[group]
            model = _Split(np.full(len(group), share), host[group], overlap).time(core, memory)
            level = log_time - np.log(model)
            off = (level - _mean(level, group)[group]) / _TIME_SD
            cost = np.bincount(group, off**2, len(program)) + (step / _HOST_SD) ** 2
            cost += ((share - prior.memory) / spread) ** 2
            better = cost < least
            least = np.where(better, cost, least)
            best = _Split(
                np.where(better, share, best.memory), np.where(better, host, best.host), best.overlap
            )
    return best


def _mean(values: Floats, group: Ints) -> Floats:
    """Return the mean of each group's values."""
    return np.asarray(np.bincount(group, values) / np.bincount(group))
