"""The common shape of a law: work over rates, one latency, one launch."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.work import Work
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu


def vector_cycles(work: Work, gpu: Gpu) -> Floats:
    """Cycles the FP32 and other pipes need at their peak, on all SMs. Shape (n,). [clk]"""
    per_sm = (
        work.fp32_flops / gpu.rate("fp32")
        + work.fp64_flops / gpu.rate("fp64")
        + work.int_ops / gpu.rate("int")
        + work.sfu_ops / gpu.sfu_per_clock_sm
        + work.instructions / gpu.lanes_per_clock_sm
    )
    return np.asarray(per_sm / gpu.sm_count)


def stream_pieces(
    work: Work, gpu: Gpu, *, launch_us: float, latency_clk: float, efficiency: float, norm: float
) -> Pieces:
    """Return the parts of a streaming kernel: memory, or the FP32 pipe, behind one latency."""
    n = len(work.dram_bytes)
    core = combined(vector_cycles(work, gpu), work.l2_bytes / gpu.l2_bytes_per_clock, 4.0)
    return Pieces(
        fixed_s=np.full(n, launch_us * 1e-6),
        serial_cycles=np.full(n, latency_clk),
        stream_s=np.zeros(n),
        core_cycles=core,
        memory_s=work.dram_bytes / (efficiency * gpu.dram_bytes_per_s),
        norm=np.full(n, norm),
        floor_s=np.zeros(n),
        active=np.full(n, 0.95),
        work=work,
    )
