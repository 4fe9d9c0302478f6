"""Convolutions on vector pipes: products laid out in tiles of those pipes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import dtype_of, on_tensor
from tracetool.families.gemm.problem import conv_products
from tracetool.families.gemm.vector_law import GEMM_VECTOR, vector_pieces
from tracetool.families.law import Coefficient, Coefficients, Law
from tracetool.families.law_keys import LawKey
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    made = conv_products(rows, gpu)
    # a library's kernels that its compiler made, which state no tile, reach less than those written by hand
    plain = (rows.text("library") != "") & ~np.isfinite(made.tile_m)
    made = replace(made, rate=made.rate * np.where(plain, c["plain_reach"], 1.0))
    # images lie along their pixels: nothing is turned, and no row is a page apart from the next
    near = {"strided_reach": c["dram_reach"], "turn_clk": 0.0, "page_clk": 0.0}
    return vector_pieces(made, gpu, {**c, **near})


CONV_VECTOR = Law(
    LawKey.CONV_VECTOR,
    _parts,
    {**GEMM_VECTOR.priors, "plain_reach": Coefficient(0.6, 0.3, 1.0, "1")},
    spread=(-0.6, 0.6),
    parent=LawKey.GEMM_VECTOR,
)


def pipes(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return 0 for rows on matrix units, 1 for those on vector pipes. Shape (n,)."""
    return np.where(on_tensor(dtype_of(rows), gpu), 0, 1).astype(np.int64)
