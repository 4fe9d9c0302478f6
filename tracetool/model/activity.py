"""Counts of work behind a kernel's measured module activity.

Data-center monitors report, per module, the share of cycles it was busy over an interval. With the
clock and the duration that is a count: busy share x rate x clock x time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.dynamic import tensor_key

#: Shares the monitor reports, by column.
ACTIVITY = ("act_sm", "act_dram", "act_tensor", "act_fp16", "act_fp32", "act_fp64")
#: Shares of units that a profiler sees and a monitor does not.
MORE_ACTIVITY = ("act_l2", "act_shared", "act_int", "act_sfu")
#: Warps resident on the SMs, as a share of the most they hold; stands beside the shares where it is known.
OCCUPANCY = "act_occupancy"
#: Powers that a pipe's share of cycles and the warps of an active SM cost.
_UNSEEN, _FED = prior_number("monitor.unseen"), prior_number("monitor.fed")
_USUALLY_FED = prior_number("monitor.usually_fed")
#: Energy of an FP16 operation on CUDA cores over that of an FP32 one: half of the operands' bits.
_HALF_ENERGY = prior_number("power.half_of_single")
#: Instruction classes of a static mix, by column.
MIX = (
    "mix_mem_gl", "mix_mem_loc", "mix_int_add", "mix_int_mul", "mix_int_div", "mix_int_bw",
    "mix_flt_add", "mix_flt_mul", "mix_flt_div", "mix_sp_fun",
)  # fmt: skip


def has_activity(rows: OperatorColumns) -> Bools:
    """Return which rows carry measured activity of the SMs or of memory. Shape (n,)."""
    measured = np.zeros(len(rows), dtype=np.bool_)
    for column in rows.columns.keys() & ACTIVITY:
        measured |= np.isfinite(rows.number(column))
    return measured


def has_mix(rows: OperatorColumns) -> Bools:
    """Return which rows carry an instruction mix. Shape (n,)."""
    stated = np.zeros(len(rows), dtype=np.bool_)
    for column in MIX:
        stated |= np.isfinite(rows.number(column))
    return stated


def work_of_activity(rows: OperatorColumns, gpu: Gpu, duration_s: Floats, clock_mhz: Floats) -> Work:
    """Return the counts behind the activity of each row over its duration.

    The memory's share is of its peak rate, the others of their pipe's at ``clock_mhz``. Traffic between
    L2 and the SMs is reported by profilers only: at least what memory delivers passes through it. FP16
    operations of CUDA cores count as the FP32 ones that cost as much.
    """
    cycles = clock_mhz * 1e6 * duration_s
    share = {c: np.clip(rows.number(c, 0.0), 0.0, 1.0) for c in ACTIVITY}
    dram = share["act_dram"] * gpu.dram_bytes_per_s * duration_s

    def count(column: str, pipe: str) -> Floats:
        return np.asarray(share[column] * gpu.rate(pipe) * gpu.sm_count * cycles)

    more = {c: np.clip(rows.number(c, 0.0), 0.0, 1.0) for c in MORE_ACTIVITY}
    through_l2 = more["act_l2"] * np.nan_to_num(gpu.l2_bytes_per_clock) * cycles

    return Work.of(
        len(rows),
        useful_flops=0.0,
        tensor_flops=share["act_tensor"] * _tensor_rate(rows, gpu) * gpu.sm_count * cycles,
        fp32_flops=count("act_fp32", "fp32") + _HALF_ENERGY * count("act_fp16", "fp16"),
        fp64_flops=count("act_fp64", "fp64"),
        int_ops=more["act_int"] * gpu.rate("int") * gpu.sm_count * cycles,
        sfu_ops=more["act_sfu"] * gpu.sfu_per_clock_sm * gpu.sm_count * cycles,
        shared_bytes=more["act_shared"] * gpu.shared_bytes_per_clock_sm * gpu.sm_count * cycles,
        l2_bytes=np.maximum(dram, through_l2),
        dram_bytes=dram,
    )


def with_unseen(work: Work, rows: OperatorColumns) -> Work:
    r"""Return the counts that a kernel's energy follows: those of its pipes and what runs unseen beside them.

    .. math:: N_i a_i^{\gamma - 1}

    with :math:`a_i` the busy share of pipe i. A pipe busy all the time leaves no capacity for anything else.
    """

    def grown(*columns: str) -> Floats:
        share = np.sum([np.clip(rows.number(c, 0.0), 0.0, 1.0) for c in columns], axis=0)
        return np.asarray(np.where(share > 0, np.clip(share, 1e-6, 1.0), 1.0) ** (_UNSEEN - 1.0))

    return replace(
        work,
        tensor_flops=work.tensor_flops * grown("act_tensor"),
        tensor_fp8_flops=work.tensor_fp8_flops * grown("act_tensor"),
        fp32_flops=work.fp32_flops * grown("act_fp32", "act_fp16"),
        fp64_flops=work.fp64_flops * grown("act_fp64"),
    )


def fed_share(rows: OperatorColumns) -> Floats:
    r"""Return the share of an active SM's energy per clock in each row: 1 where no activity is known. (n,)

    .. math:: (o / a_{SM})^{\beta}

    with occupancy o over all SMs and the share :math:`a_{SM}` of them that are active. Shape (n,).
    """
    measured = has_activity(rows)
    if not measured.any():
        return np.ones(len(rows))
    active = np.clip(rows.number("act_sm", 1.0), 1e-4, 1.0)
    warps = np.clip(rows.number(OCCUPANCY) / active, 1e-3, 1.0)
    fed = np.where(np.isfinite(warps), warps**_FED, _USUALLY_FED)
    return np.asarray(np.where(measured, fed, 1.0))


def _tensor_rate(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """FLOP per clock and SM of the tensor cores in each row's format; FP16 where none is stated."""
    formats, place = np.unique(rows.text("dtype").astype(str), return_inverse=True)
    rates = np.array([gpu.rate(tensor_key(f)) for f in formats], dtype=np.float64)
    return np.asarray(rates[place])
