"""Convolutions: products laid out in tiles, on tensor cores or on the FP32 pipe.

Equation and sources: docs/families/conv.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.families.conv.problem import conv_products, single_channels
from tracetool.families.formats import dtype_of, on_tensor
from tracetool.families.gemm.law import GEMM, product_pieces
from tracetool.families.gemm.layout import Products
from tracetool.families.gemm.vector_law import GEMM_VECTOR, vector_pieces
from tracetool.families.instructions import older_kernels, rate_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu


def _on_tensor_cores(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    products = conv_products(rows, gpu)
    rate = products.rate * np.where(older_kernels(rows, gpu), rate_share(gpu), 1.0)
    return _indexed(product_pieces(replace(products, rate=rate), gpu, c), rows, products, gpu, c)


def _on_vector_pipes(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    products = conv_products(rows, gpu)
    # a library's kernels that its compiler made, which state no tile, reach less than those written by hand
    plain = (rows.text("library") != "") & ~np.isfinite(products.tile_m)
    products = replace(products, rate=products.rate * np.where(plain, c["plain_efficiency"], 1.0))
    # images lie along their pixels: nothing is turned, and no row is a page apart from the next
    near = {"strided_efficiency": c["dram_efficiency"], "transpose_cycles": 0.0, "page_clk": 0.0}
    return _indexed(vector_pieces(products, gpu, {**c, **near}), rows, products, gpu, c)


#: Formats that PyTorch's own depthwise kernel takes; integers and FP8 have none in it. By definition of
#: pytorch/pytorch, ``DepthwiseConv2d.cu``.
_IN_PYTORCH = ("fp64", "fp32", "tf32", "bf16")


def _indexed(pieces: Pieces, rows: OperatorColumns, products: Products, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of convolutions with what depthwise ones compute to find their elements.

    PyTorch's own kernel divides each result's place by three sizes and compares each element's with the edges
    of the image; a thread has one result. FP16 goes to cuDNN, BF16 does not [1]_; all of AMD's go to MIOpen.

    References
    ----------
    .. [1] pytorch/pytorch, ``aten/src/ATen/native/cuda/DepthwiseConv2d.cu``, and ``use_cudnn_depthwise`` of
       ``aten/src/ATen/native/Convolution.cpp``.
    """
    if gpu.vendor == "amd":
        return pieces
    own = single_channels(rows) & (rows.text("library") == "") & np.isin(dtype_of(rows), _IN_PYTORCH)
    results = products.batch * products.m * products.n
    ops = np.where(own, results * (c["place_ops"] + products.k * c["element_ops"]), 0.0)
    work = replace(pieces.work, int_ops=pieces.work.int_ops + ops)
    cycles = np.maximum(pieces.core_cycles, ops / (gpu.rate("int") * gpu.sm_count))
    return replace(pieces, core_cycles=cycles, work=work)


#: Coefficients of the loops that products are measured in: a filter is small, and its image passes once.
_LOOPS = {"weight_sets", "weights_hit"}
#: Those of a matrix times a vector, which say of libraries that multiply one row in tiles that nothing else
#: is faster. A channel by itself has kernels of its own.
_OF_VECTORS = {"vector_efficiency": "", "vector_clk": ""}
_DATA = read_coefficients(__package__)
_PRIORS = {**{name: c for name, c in GEMM.priors.items() if name not in _LOOPS}, **_DATA["depthwise"]}
CONV = Law("conv", _on_tensor_cores, _PRIORS, spread=(-0.6, 0.6), parent="gemm", lent_as=_OF_VECTORS)
CONV_VECTOR = Law(
    "conv_vector",
    _on_vector_pipes,
    {**GEMM_VECTOR.priors, **_DATA["conv_vector"], **_DATA["depthwise"]},
    spread=(-0.6, 0.6),
    parent="gemm_vector",
)


LAWS = (CONV, CONV_VECTOR)


def conv_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place in :data:`LAWS` of each row's law, by its format. Shape (n,)."""
    return np.where(on_tensor(dtype_of(rows), gpu), 0, 1).astype(np.int64)
