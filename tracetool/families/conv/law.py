"""Convolutions: products laid out in tiles, on tensor cores or on the FP32 pipe.

Equation and sources: docs/families/conv.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.families.conv.problem import conv_products
from tracetool.families.formats import dtype_of, on_tensor
from tracetool.families.gemm.law import GEMM, product_pieces
from tracetool.families.gemm.vector_law import GEMM_VECTOR, vector_pieces
from tracetool.families.instructions import older_kernels, rate_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu


def _on_tensor_cores(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    products = conv_products(rows, gpu)
    rate = products.rate * np.where(older_kernels(rows, gpu), rate_share(gpu), 1.0)
    return product_pieces(replace(products, rate=rate), gpu, c)


def _on_vector_pipes(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    products = conv_products(rows, gpu)
    # a library's kernels that its compiler made, which state no tile, reach less than those written by hand
    plain = (rows.text("library") != "") & ~np.isfinite(products.tile_m)
    products = replace(products, rate=products.rate * np.where(plain, c["plain_efficiency"], 1.0))
    # images lie along their pixels: nothing is turned, and no row is a page apart from the next
    near = {"strided_efficiency": c["dram_efficiency"], "transpose_cycles": 0.0, "page_clk": 0.0}
    return vector_pieces(products, gpu, {**c, **near})


#: Coefficients of the loops that products are measured in: a filter is small, and its image passes once.
_LOOPS = {"weight_sets", "weights_hit"}
#: Those of a matrix times a vector, which say of libraries that multiply one row in tiles that nothing else
#: is faster. A channel by itself has kernels of its own, bound by memory.
_OF_VECTORS = {"vector_efficiency": "", "vector_clk": ""}
_PRIORS = {name: prior for name, prior in GEMM.priors.items() if name not in _LOOPS}
CONV = Law("conv", _on_tensor_cores, _PRIORS, spread=(-0.6, 0.6), parent="gemm", lent_as=_OF_VECTORS)
CONV_VECTOR = Law(
    "conv_vector",
    _on_vector_pipes,
    {**GEMM_VECTOR.priors, **read_coefficients(__package__)["conv_vector"]},
    spread=(-0.6, 0.6),
    parent="gemm_vector",
)


LAWS = (CONV, CONV_VECTOR)


def conv_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place in :data:`LAWS` of each row's law, by its format. Shape (n,)."""
    return np.where(on_tensor(dtype_of(rows), gpu), 0, 1).astype(np.int64)
