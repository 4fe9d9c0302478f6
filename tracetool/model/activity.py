"""What measured module activity or an instruction mix says of a kernel: its counts and its time shares.

Data-centre monitors report, per module, the share of cycles it was busy over an interval. With the
clock and the duration that is a count: busy share x rate x clock x time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Bools, Floats
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.work import Work

#: Shares the monitor reports, by column.
ACTIVITY = ("act_sm", "act_dram", "act_tensor", "act_fp16", "act_fp32", "act_fp64")
#: Instruction classes of a static mix, by column.
MIX = (
    "mix_mem_gl", "mix_mem_loc", "mix_int_add", "mix_int_mul", "mix_int_div", "mix_int_bw",
    "mix_flt_add", "mix_flt_mul", "mix_flt_div", "mix_sp_fun",
)  # fmt: skip


@dataclass(frozen=True)
class TimeShares:
    """How the time of each row divides at the clock it was measured at; each array of shape (n,).

    ``core`` and ``memory`` overlap: ``(core^p + memory^p)^(1/p) + fixed = 1``.
    """

    core: Floats
    memory: Floats
    fixed: Floats
    norm: float
    sd: Floats  # of the share that does not follow the core clock


def has_activity(rows: OperatorColumns) -> Bools:
    """Return which rows carry measured activity of the SMs or of memory. Shape (n,)."""
    seen = np.zeros(len(rows), dtype=np.bool_)
    for column in ACTIVITY:
        seen |= np.isfinite(rows.number(column))
    return seen


def has_mix(rows: OperatorColumns) -> Bools:
    """Return which rows carry an instruction mix. Shape (n,)."""
    seen = np.zeros(len(rows), dtype=np.bool_)
    for column in MIX:
        seen |= np.isfinite(rows.number(column))
    return seen


def work_of_activity(rows: OperatorColumns, gpu: Gpu, duration_s: Floats, clock_mhz: Floats) -> Work:
    """Return the counts behind the activity of each row over its duration.

    The memory's share is of its peak rate, the others of their pipe's at ``clock_mhz``. Traffic between
    L2 and the SMs is not reported: at least what memory delivers passes through it.
    """
    cycles = clock_mhz * 1e6 * duration_s
    share = {c: np.clip(rows.number(c, 0.0), 0.0, 1.0) for c in ACTIVITY}
    dram = share["act_dram"] * gpu.dram_bytes_per_s * duration_s

    def count(column: str, pipe: str) -> Floats:
        return np.asarray(share[column] * gpu.rate(pipe) * gpu.sm_count * cycles)

    return Work.of(
        len(rows),
        useful_flops=0.0,
        tensor_flops=count("act_tensor", "tensor_fp16"),
        fp32_flops=count("act_fp32", "fp32") + count("act_fp16", "fp16"),
        fp64_flops=count("act_fp64", "fp64"),
        l2_bytes=dram,
        dram_bytes=dram,
    )


def time_shares(rows: OperatorColumns, gpu: Gpu) -> TimeShares:
    """Return the shares of each row's time from its activity, else from its instruction mix.

    A kernel is bound by memory as far as memory is busy against what a stream reaches; the time in which
    SMs hold no block follows no clock. A mix says which instructions are issued, not what they wait for:
    without activity the core clock is taken to set the time, less a small share.
    """
    n = len(rows)
    active = has_activity(rows)
    norm = 4.0
    memory = np.clip(rows.number("act_dram", 0.0) / gpu.dram_efficiency, 0.0, 1.0)
    core = (1.0 - memory**norm) ** (1.0 / norm)
    fixed = np.where(active, np.clip(1.0 - rows.number("act_sm", 1.0), 0.0, 1.0), 0.0)
    moving = 1.0 - fixed
    return TimeShares(core * moving, memory * moving, fixed, norm, np.full(n, 0.08))
