"""Mixtures of experts: weights of the active experts, then grouped products."""

from __future__ import annotations

import numpy as np

from tracetool.families.experts import moe_work
from tracetool.families.formats import dtype_of, product_rate
from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.law import Coefficient, Coefficients, Law
from tracetool.model.laws.simple import softened
from tracetool.model.pieces import Pieces
from tracetool.vocabulary.operators import OperatorColumns

_PRIORS = {
    "launch_us": Coefficient(25.0, 2.0, 100.0, "launches of routing and products [us]"),
    "latency_clk": Coefficient(8000.0, 200.0, 60000.0, "fills and epilogues one after another [clk]"),
    "tensor_reach": Coefficient(0.50, 0.1, 1.0, "share of the matrix units' peak [1]"),
    "reach": Coefficient(0.65, 0.2, 1.0, "share of the memory's peak [1]"),
    "norm": Coefficient(2.0, 1.0, 8.0, "overlap of memory and pipes [1]"),
}


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = moe_work(rows, gpu)
    n = len(rows)
    rate = product_rate(dtype_of(rows, "bf16"), gpu)
    tensor = np.maximum(work.tensor_flops, work.useful_flops) / (rate * gpu.sm_count * c["tensor_reach"])
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.full(n, c["latency_clk"]),
        core_cycles=softened(tensor, work.l2_bytes / gpu.l2_bytes_per_clock, 3.0),
        memory_s=work.dram_bytes / (c["reach"] * gpu.dram_bytes_per_s),
        norm=np.full(n, c["norm"]),
        active=np.full(n, 0.9),
        work=work,
    )


MOE = Law("moe", _parts, _PRIORS, spread=(-0.8, 0.8))
