"""What a launch can keep busy at most: blocks that cover few SMs, threads that cover few lanes of an SM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number

#: Bytes a thread keeps on their way from memory, and that way. [B] [clk]
IN_FLIGHT: Final = prior_number("launch.in_flight")
MEMORY_LATENCY: Final = prior_number("launch.memory_latency")


@dataclass(frozen=True)
class LaunchLimits:
    """Most of the GPU that each row's launch can use; each of shape (n,), 1 where the launch is not known.

    Parameters
    ----------
    sms : array
        Share of the SMs that hold a block.
    lanes : array
        Share of the lanes of all SMs that have a thread to work for.
    bytes_per_clock : array
        Bytes that these SMs can draw from L2 and memory together; infinite where not known. [B/clk]
    """

    sms: Floats
    lanes: Floats
    bytes_per_clock: Floats


def launch_limits(rows: OperatorColumns, gpu: Gpu) -> LaunchLimits:
    r"""Return what the launches of rows bound, by blocks B of T threads on S SMs.

    .. math:: s = \min(1, B/S), \qquad l = s \min\left(1, \frac{\max(1, B/S) T}{n W}\right), \qquad
       b = s S \min\left(p, \frac{16 \min(\max(1, B/S) T, T_{max})}{L}\right)

    with W the warp size, n the schedulers of an SM, p the bytes its path to L2 carries in a clock and L the
    latency of memory (Little's law). None of them falls when blocks are added.

    Parameters
    ----------
    rows : OperatorColumns
        n rows with ``blocks``, or ``grid_x`` to ``grid_z``, and ``threads``, or ``block_x`` to ``block_z``.
    gpu : Gpu
        The GPU they run on.
    """
    blocks = _count(rows, "blocks", "grid")
    threads = _count(rows, "threads", "block")
    per_sm = blocks / gpu.sm_count
    sms = np.where(np.isfinite(per_sm), np.minimum(1.0, per_sm), 1.0)
    resident = np.minimum(np.maximum(1.0, per_sm) * threads, gpu.max_threads_per_sm)
    filled = np.minimum(1.0, resident / (gpu.schedulers_per_sm * gpu.warp_size))
    drawn = np.minimum(gpu.l2_port_bytes_per_clock_sm, resident * IN_FLIGHT / MEMORY_LATENCY)
    return LaunchLimits(
        sms=sms,
        lanes=sms * np.where(np.isfinite(filled), filled, 1.0),
        bytes_per_clock=np.where(np.isfinite(drawn), sms * gpu.sm_count * drawn, np.inf),
    )


def _count(rows: OperatorColumns, column: str, stem: str) -> Floats:
    """Return a launch's count of blocks or threads, NaN where the rows do not state it. (n,)"""
    sides = [rows.number(f"{stem}_{axis}") for axis in "xyz"]
    product = sides[0] * np.nan_to_num(sides[1], nan=1.0) * np.nan_to_num(sides[2], nan=1.0)
    stated = rows.number(column)
    count = np.where(np.isfinite(product), product, stated)
    return np.asarray(np.where(count > 0, count, np.nan))
