"""Anchored prediction: a measured kernel, scaled by the model's ratio between two clocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.model.activity import has_activity, has_mix, work_of_activity
from tracetool.model.shares import OVERLAP, shares_of_activity
from tracetool.vocabulary.arrays import Bools, Floats, Ints
from tracetool.vocabulary.interval import Z90
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.prediction import BOUNDS, Timing
from tracetool.vocabulary.work import Work


@dataclass(frozen=True)
class Anchor:
    """Where each row was measured: duration, clocks and, where known, power. Shape (n,) each."""

    duration_s: Floats
    clock_mhz: Floats
    mem_clock_mhz: Floats
    power_w: Floats
    known: Bools

    @classmethod
    def of(cls, rows: OperatorColumns, gpu: Gpu) -> Anchor:
        """Return the anchors of the rows; a row without duration or clock has none."""
        duration = rows.number("duration_us") * 1e-6
        clock = rows.number("recorded_clock_mhz")
        return cls(
            duration,
            clock,
            rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz),
            rows.number("power_w"),
            np.asarray((duration > 0) & (clock > 0)),
        )

    def take(self, chosen: Ints) -> Anchor:
        """Return the anchors of the chosen rows."""
        return Anchor(
            self.duration_s[chosen],
            self.clock_mhz[chosen],
            self.mem_clock_mhz[chosen],
            self.power_w[chosen],
            self.known[chosen],
        )

    def start_clock(self, clock_mhz: Floats) -> Floats:
        """Return each row's measured clock, else its first asked one. Shape (n, 1). [MHz]"""
        return np.where(self.known, self.clock_mhz, clock_mhz[:, 0])[:, None]


def scaled_timing(found: Timing, reference: Timing, anchor: Anchor) -> Timing:
    r"""Return the model's timing with every anchored row scaled to its measurement.

    .. math:: t(f) = t_{measured} \, T_{model}(f) / T_{model}(f_0)

    Parameters
    ----------
    found : Timing
        Model at the clocks asked for, (n, c).
    reference : Timing
        Model at each row's own measured clock, (n, 1).
    anchor : Anchor
        The measurements.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(anchor.known, anchor.duration_s / reference.duration_s[:, 0], 1.0)
    factor = np.where(np.isfinite(factor) & (factor > 0), factor, 1.0)
    wide = factor[:, None]
    duration = found.duration_s * wide
    # What is left of the model's error is in the ratio: none at the measured clock itself.
    kept = np.where(anchor.known, 0.25, 1.0)
    return replace(
        found,
        duration_s=duration,
        low=found.low**kept,
        high=found.high**kept,
        busy_s={u: np.minimum(b * wide, duration) for u, b in found.busy_s.items()},
        fixed_s=found.fixed_s * factor,
        core_s=found.core_s * wide,
        memory_s=found.memory_s * wide,
        basis=np.where(anchor.known, "anchored", found.basis).astype(object),
    )


def from_counters(rows: OperatorColumns) -> Bools:
    """Return the rows whose activity or mix is known, so that their family need not be asked."""
    return has_activity(rows) | has_mix(rows)


def counter_timing(
    rows: OperatorColumns, gpu: Gpu, anchor: Anchor, clock_mhz: Floats, mem_clock_mhz: float | None
) -> Timing:
    r"""Return the timing of rows from their measured activity or instruction mix alone.

    .. math:: t(f) / t_0 = s_f + ((s_c f_0 / f)^p + (s_m f_{m0} / f_m)^p)^{1/p}

    Parameters
    ----------
    rows : OperatorColumns
        n rows, all anchored.
    clock_mhz : array, shape (n, c)
        Core clocks. [MHz]
    mem_clock_mhz : float, optional
        Memory clock; by default each row's measured one. [MHz]
    """
    shares = shares_of_activity(rows, gpu, anchor.duration_s, anchor.clock_mhz, has_activity(rows))
    mem = anchor.mem_clock_mhz if mem_clock_mhz is None else np.full(len(rows), mem_clock_mhz)
    start = (anchor.duration_s * (1.0 - shares.fixed))[:, None]
    core = start * shares.core[:, None] * anchor.clock_mhz[:, None] / clock_mhz
    here = shares.reach.at(anchor.clock_mhz)[:, None]
    slower = shares.reach.at(clock_mhz, (mem / anchor.mem_clock_mhz)[:, None]) / here
    memory = start * shares.memory[:, None] * slower
    fixed = anchor.duration_s * shares.fixed
    duration = (core**OVERLAP + memory**OVERLAP) ** (1 / OVERLAP) + fixed[:, None]
    work = work_of_activity(rows, gpu, anchor.duration_s, anchor.clock_mhz)
    bound = np.where(memory > core, BOUNDS.index("dram"), BOUNDS.index("fp32"))
    bound = np.where(fixed[:, None] > np.maximum(core, memory), BOUNDS.index("launch"), bound)
    # One interval a row: for clocks as far away as those asked for are in the mean square.
    octaves = np.sqrt((np.log2(clock_mhz / anchor.clock_mhz[:, None]) ** 2).mean(axis=1))
    spread = np.exp(Z90 * np.hypot(shares.log_sd_per_octave * octaves, 0.01))
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
        work=work,
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
