"""Matrix products: tiles in waves, fed from L2 and memory."""

from __future__ import annotations

import numpy as np

from tracetool.families.products import Products, conv_products, gemm_products, plan_of, work_of
from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.law import Coefficient, Coefficients, Law
from tracetool.model.laws.simple import softened
from tracetool.model.pieces import Pieces
from tracetool.vocabulary.operators import OperatorColumns

_PRIORS = {
    "launch_us": Coefficient(1.5, 0.3, 6.0, "start and end of a kernel [us]"),
    "latency_clk": Coefficient(2000.0, 200.0, 8000.0, "pipeline fill and epilogue of a block [clk]"),
    "tensor_reach": Coefficient(0.80, 0.3, 1.0, "share of the matrix units' peak in steady state [1]"),
    "l2_reach": Coefficient(0.70, 0.3, 1.5, "share of the L2 rate tiles are filled at [1]"),
    "reach": Coefficient(0.80, 0.4, 1.0, "share of the memory's peak [1]"),
    "norm": Coefficient(3.0, 1.0, 8.0, "overlap of memory and pipes [1]"),
}


def _parts(products: Products, gpu: Gpu, c: Coefficients) -> Pieces:
    plan = plan_of(products, gpu)
    work = work_of(products, plan)
    n = len(products.m)
    tensor = plan.core_cycles / c["tensor_reach"]
    filling = (plan.fill_bytes + plan.partial_bytes) / (gpu.l2_bytes_per_clock * c["l2_reach"])
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.asarray(c["latency_clk"] * np.where(plan.split > 1, 1.5, 1.0)),
        core_cycles=softened(tensor, filling, 3.0),
        memory_s=work.dram_bytes / (c["reach"] * gpu.dram_bytes_per_s),
        norm=np.full(n, c["norm"]),
        active=np.clip(plan.blocks / (plan.waves * gpu.sm_count), 0.0, 1.0),
        work=work,
    )


def _gemm(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return _parts(gemm_products(rows, gpu), gpu, c)


def _conv(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return _parts(conv_products(rows, gpu), gpu, c)


GEMM = Law("gemm", _gemm, _PRIORS)
CONV = Law("conv", _conv, _PRIORS)
