"""Timing of measured kernels from their counters: what a monitor or an instruction mix says of them."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import BOUNDS, Timing
from tracetool.core.work import Work
from tracetool.hardware.gpu import Gpu
from tracetool.model.activity import has_activity, has_mix, with_unseen, work_of_activity
from tracetool.model.anchor import READING_SD, Anchor
from tracetool.model.anchor_groups import kernels
from tracetool.model.anchor_shares import shares_over_clocks
from tracetool.model.shares import OVERLAP, TimeShares, shares_of_activity


def from_counters(rows: OperatorColumns) -> Bools:
    """Return the rows whose activity or mix is known, so that their family need not be asked."""
    return has_activity(rows) | has_mix(rows)


def counted_shares(rows: OperatorColumns, gpu: Gpu, anchor: Anchor) -> TimeShares:
    """Return how the time of each row divides, by its activity and by its times at other clocks.

    Rows without a measurement or counters get shares nobody asks for.
    """
    active = has_activity(rows)
    seconds = np.where(anchor.measured, anchor.duration_s, 1.0)
    clock = np.where(anchor.measured, anchor.clock_mhz, gpu.clock_max_mhz)
    alone = shares_of_activity(rows, gpu, seconds, clock, active)
    usable = anchor.measured & from_counters(rows)
    kernel = np.where(usable, kernels(rows, anchor), -1 - np.arange(len(rows)))
    return shares_over_clocks(alone, gpu, seconds, clock, kernel, active)


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
    start = (anchor.duration_s * (1.0 - shares.fixed))[:, None]
    core = start * shares.core[:, None] * anchor.clock_mhz[:, None] / clock_mhz
    start_reach = shares.reach.at(anchor.clock_mhz)[:, None]
    slower = shares.reach.at(clock_mhz, (mem / anchor.mem_clock_mhz)[:, None]) / start_reach
    memory = start * shares.memory[:, None] * slower
    fixed = anchor.duration_s * shares.fixed
    duration = (core**OVERLAP + memory**OVERLAP) ** (1 / OVERLAP) + fixed[:, None]
    work = work_of_activity(rows, gpu, anchor.duration_s, anchor.clock_mhz)
    bound = np.where(memory > core, BOUNDS.index("dram"), BOUNDS.index("fp32"))
    bound = np.where(fixed[:, None] > np.maximum(core, memory), BOUNDS.index("launch"), bound)
    # One interval a row: for clocks as far away as those asked for are in the mean square.
    octaves = np.sqrt((np.log2(clock_mhz / anchor.clock_mhz[:, None]) ** 2).mean(axis=1))
    spread = np.exp(Z90 * np.hypot(shares.log_sd_per_octave * octaves, READING_SD))
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
