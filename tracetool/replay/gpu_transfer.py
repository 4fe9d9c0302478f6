"""A run's kernels as another GPU would have run them: durations carried over by the model's ratio."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.hardware.gpu import Gpu
from tracetool.model.timing import time_rows

#: How a kernel was built for its own GPU; another GPU's library would choose anew.
_BUILD: Final = (
    *("tile_m", "tile_n", "tile_k", "stages", "split_k", "warps", "cluster", "cluster_m", "cluster_n"),
    *("blocks", "threads", "registers", "shared_bytes", "arch", "layout", "library"),
)


def on_gpu(rows: OperatorColumns, recorded: Gpu, target: Gpu) -> OperatorColumns:
    r"""Return the rows with the durations they would have had on another GPU at its boost clock.

    Parameters
    ----------
    rows : OperatorColumns
        Rows with a measured ``duration_us`` at ``recorded_clock_mhz``.
    recorded : Gpu
        The GPU they were measured on.
    target : Gpu
        The other GPU.

    Notes
    -----
    Rows whose shapes are known: :math:`t_2 = t_1\, m_2 / m_1`, the model's times on both GPUs, the
    build of the kernel (tiles, launch geometry) forgotten on the second. Rows whose work is not known:
    their core-bound part scales with vector FLOP/s, their memory-bound part with bandwidth, their fixed
    part not at all. Collectives that waited for ranks the run does not hold (``keeps_waits``): the model's
    time is carried over as far as its interval explains what was measured, the wait beyond is kept.
    """
    boost = np.array([target.clock_boost_mhz])
    clock = rows.number("recorded_clock_mhz", recorded.clock_boost_mhz)
    measured = rows.number("duration_us", 0.0)
    recorded_times = time_rows(rows, recorded, clock[:, None])
    has_shape = rows.text("shape_source", "none") != "none"
    free = without_build(rows, has_shape)
    target_times = time_rows(free, target, boost)
    ratio = np.divide(
        target_times.duration_s[:, 0],
        recorded_times.duration_s[:, 0],
        out=np.ones(len(rows)),
        where=recorded_times.duration_s[:, 0] > 0,
    )
    compute = recorded.peak_flops("fp32", clock) / target.peak_flops("fp32", target.clock_boost_mhz)
    memory = recorded.dram_bytes_per_s / target.dram_bytes_per_s
    split = (
        recorded_times.core_s[:, 0] * compute
        + recorded_times.memory_s[:, 0] * memory
        + recorded_times.fixed_s
    )
    recorded_total = recorded_times.core_s[:, 0] + recorded_times.memory_s[:, 0] + recorded_times.fixed_s
    rate: Floats = np.divide(split, recorded_total, out=np.ones(len(rows)), where=recorded_total > 0)
    scale = np.where(has_shape, ratio, rate)
    kept = has_shape & (rows.number("keeps_waits", 0.0) > 0) & (measured > 0)
    scale = np.where(kept, _with_wait(measured * 1e-6, recorded_times, ratio), scale)
    columns = {
        **free.columns,
        "duration_us": measured * scale,
        "duration_sd_us": rows.number("duration_sd_us", 0.0) * scale,
        "recorded_clock_mhz": np.full(len(rows), target.clock_boost_mhz),
        # as far below the clock it was taken for as on the GPU it was recorded on
        "recorded_clock_low_mhz": rows.number("recorded_clock_low_mhz") * target.clock_boost_mhz / clock,
    }
    columns.pop("power_w", None)
    return replace(free, columns=columns)


def _with_wait(measured_s: Floats, recorded: Timing, ratio: Floats) -> Floats:
    """Return the ratio of times whose part beyond the model's interval is a wait, which stays. Shape (n,)."""
    explained = np.minimum(measured_s, recorded.duration_s[:, 0] * recorded.high[:, 0])
    share = np.divide(explained, measured_s, out=np.ones(len(ratio)), where=measured_s > 0)
    return np.asarray(share * ratio + (1.0 - share))


def without_build(rows: OperatorColumns, which: Bools) -> OperatorColumns:
    """Forget how the chosen rows were built and launched on their own GPU."""
    columns = dict(rows.columns)
    for name in _BUILD:
        if name in columns:
            values = np.array(columns[name], copy=True)
            values[which] = "" if values.dtype == object else np.nan
            columns[name] = values
    return replace(rows, columns=columns)
