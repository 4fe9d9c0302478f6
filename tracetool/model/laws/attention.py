"""Attention: prefill bound by matrix units and exponentials, decode by the KV cache."""

from __future__ import annotations

import numpy as np

from tracetool.families.formats import dtype_of, product_rate
from tracetool.families.scores import attention_work
from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.law import Coefficient, Coefficients, Law
from tracetool.model.laws.simple import softened
from tracetool.model.pieces import Pieces
from tracetool.vocabulary.operators import OperatorColumns

_PRIORS = {
    "launch_us": Coefficient(5.0, 0.3, 20.0, "start and end of a kernel [us]"),
    "latency_clk": Coefficient(4000.0, 200.0, 20000.0, "first load to last store of one block [clk]"),
    "tensor_reach": Coefficient(0.60, 0.2, 1.0, "share of the matrix units' peak [1]"),
    "reach": Coefficient(0.75, 0.3, 1.0, "share of the memory's peak [1]"),
    "norm": Coefficient(3.0, 1.0, 8.0, "overlap of memory and pipes [1]"),
}


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = attention_work(rows, gpu)
    n = len(rows)
    rate = product_rate(dtype_of(rows, "bf16"), gpu)
    tensor = np.where(work.tensor_flops > 0, work.tensor_flops, work.fp32_flops) / (
        rate * gpu.sm_count * c["tensor_reach"]
    )
    special = work.sfu_ops / (gpu.sfu_per_clock_sm * gpu.sm_count)
    core = softened(tensor, special, 3.0)
    core = softened(core, work.l2_bytes / gpu.l2_bytes_per_clock, 3.0)
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.full(n, c["latency_clk"]),
        core_cycles=core,
        memory_s=work.dram_bytes / (c["reach"] * gpu.dram_bytes_per_s),
        norm=np.full(n, c["norm"]),
        active=np.full(n, 0.9),
        work=work,
    )


PREFILL = Law("prefill", _parts, _PRIORS)
DECODE = Law("decode", _parts, _PRIORS)
