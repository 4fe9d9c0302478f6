"""Matrix products on the FP32 pipe, where a GPU has no tensor core for their format.

Equation and sources: docs/families/vectors.md.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.families.gemm.layout import Products
from tracetool.families.gemm.problem import gemm_products, work_of
from tracetool.families.gemm.vector_tiling import VectorRates, plan_vectors
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu

_DATA = read_coefficients(__package__, "vector_law")


def _vector_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return vector_pieces(gemm_products(rows, gpu), gpu, c)


def vector_pieces(p: Products, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of products on the FP32 pipe, with every coefficient of :data:`GEMM_VECTOR` given."""
    plan = plan_vectors(p, gpu, VectorRates.of(c), gpu.clock_boost_mhz * 1e6)
    n = len(p.m)
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=plan.serial_cycles,
        stream_s=np.zeros(n),
        core_cycles=plan.core_cycles,
        memory_s=plan.memory_s,
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.clip(plan.blocks / (np.ceil(plan.blocks / gpu.sm_count) * gpu.sm_count), 0.0, 1.0),
        work=work_of(p, plan),
    )


#: One product or a batch, its tile stated by its kernel's name or left to the library's choice.
KINDS = ("single", "batch", "single_untold", "batch_untold")


def _kind(rows: OperatorColumns) -> Ints:
    batched = rows.number("batch", 1.0) > 1.0
    untold = ~np.isfinite(rows.number("tile_m") * rows.number("tile_n"))
    return batched.astype(np.int64) + 2 * untold.astype(np.int64)


GEMM_VECTOR = Law("gemm_vector", _vector_pieces, _DATA["gemm_vector"], kinds=KINDS, kind_of=_kind)
LAWS = (GEMM_VECTOR,)
