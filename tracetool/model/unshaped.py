"""Kernels of unknown shape: a measured duration split by what its family's time goes to.

What they do in that time is bounded by their launch; see :mod:`tracetool.model.launch_limits`.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, product_rate
from tracetool.families.pieces import Pieces
from tracetool.families.spec import Family
from tracetool.hardware.gpu import Gpu
from tracetool.model.launch_limits import launch_limits

#: Duration of a kernel nothing is known of. [s]
UNKNOWN_S = 5e-6
#: ln of the 95 % bound of its true duration over that guess, and of a measured one at another clock.
UNKNOWN_SPREAD, SPLIT_SPREAD = float(np.log(20.0)), float(np.log(1.35))
#: Share of its peak a unit reaches while it sets the time.
REACHED = 0.6
#: Share of the SMs that hold a block while a kernel of many blocks runs: the last of them leave some idle.
ACTIVE = 0.8


def unshaped_pieces(rows: OperatorColumns, gpu: Gpu, family: Family) -> tuple[Pieces, Floats]:
    """Return the parts of rows of unknown shape and ln of their 95 % bound.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of one family, with ``duration_us`` and ``recorded_clock_mhz`` where measured.
    gpu : Gpu
        The GPU they ran on.
    family : Family
        Says how time divides as a rule.
    """
    measured = rows.number("duration_us") * 1e-6
    has_time = np.isfinite(measured) & (measured > 0)
    duration = np.where(has_time, measured, UNKNOWN_S)
    clock = rows.number("recorded_clock_mhz", gpu.clock_boost_mhz)
    clock = np.where(clock > 0, clock, gpu.clock_boost_mhz)
    memory_clock = rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz)
    core, memory, fixed = family.shares
    cycles = core * duration * clock * 1e6
    memory_s = memory * duration * memory_clock / gpu.memory_clock_mhz
    limits = launch_limits(rows, gpu)
    chip = REACHED * gpu.sm_count * cycles * limits.lanes
    drawn = limits.bytes_per_clock * clock * 1e6 / gpu.dram_bytes_per_s
    streaming = np.minimum(1.0, drawn / REACHED)
    moved = REACHED * gpu.dram_bytes_per_s * memory_s * streaming
    counts: dict[str, Floats] = {"dram_bytes": moved, "l2_bytes": 1.3 * moved}
    if family.pipe == "tensor":
        counts["tensor_flops"] = chip * product_rate(dtype_of(rows, "bf16"), gpu)
        counts["shared_bytes"] = 0.3 * chip * gpu.shared_bytes_per_clock_sm
    elif family.pipe == "fp32":
        counts["fp32_flops"] = 0.5 * chip * gpu.rate("fp32")
        counts["int_ops"] = 0.25 * chip * gpu.rate("int")
    n = len(rows)
    pieces = Pieces(
        fixed_s=fixed * duration,
        # time in which no unit is near its rate is latency of its clock's domain
        serial_cycles=cycles * (1.0 - limits.lanes),
        stream_s=memory_s * (1.0 - streaming),
        floor_s=np.zeros(n),
        core_cycles=cycles * limits.lanes,
        memory_s=memory_s * streaming,
        norm=np.ones(n),
        active=np.minimum(ACTIVE, limits.sms),
        work=Work.of(n, **counts),
    )
    return pieces, np.where(has_time, SPLIT_SPREAD, UNKNOWN_SPREAD)
