"""The access pattern of streaming kernels: flat and wide, or element by element with offsets computed.

A flat pattern loads several elements at once and computes one address for all. Where operands lie apart
in memory, or are spread over a larger one, PyTorch's ``elementwise_kernel`` divides each element's number by
the size of every dimension to find its place in every tensor [1]_; casts pick the format of each load by a
switch [2]_; concatenation does the division for its one result, in a loop of single elements [3]_; an index
is read and checked on top.

References
----------
.. [1] pytorch/pytorch, ``aten/src/ATen/cuda/detail/OffsetCalculator.cuh``.
.. [2] pytorch/pytorch, ``c10/core/DynamicCast.h``.
.. [3] pytorch/pytorch, ``aten/src/ATen/native/cuda/Shape.cu``.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu


class Walk(IntEnum):
    """Access patterns, as the numbers :func:`walks` gives."""

    TABLE = 0  #: a row of an operator table, which names no kernel
    WIDE = 1  #: flat, several elements at once
    OFFSETS = 2
    CAST = 3
    CAT = 4
    INDEX = 5
    POOL = 6
    TREE = 7
    OTHER = 8


#: Their names in calibrations, in order of their numbers.
WALKS: Final = tuple(walk.name.lower() for walk in Walk)
TABLE, WIDE, OFFSETS, CAST, CAT, INDEX, POOL, TREE, OTHER = (int(walk) for walk in Walk)
#: Of these, the flat ones: nothing is looked up before the first load.
FLAT: Final = (TABLE, WIDE, TREE)
#: Dimensions where the trace does not tell: between a row broadcast and a transposed tensor.
USUAL_DIMS: Final = 2.5
#: Traffic of this share of the L2 meets half of what may lie there: results of the kernel before.
HALF_SHARE, SHARPNESS = 0.7, 3.0
#: Lanes that issue in one clock: four schedulers of 32 to an SM, four SIMDs of 16 lanes to a compute unit.
_LANES: Final = {"nvidia": 128.0, "amd": 64.0}
_MARKS: Final = (
    (TREE, re.compile(r"reduce_kernel")),
    (CAT, re.compile(r"CatArrayBatchedCopy(?!_(?:contig|alignedK|vectorized))")),
    (INDEX, re.compile(r"index_elementwise|scatter_gather_element|indexSelect|indexFunc|indexing_back")),
    (POOL, re.compile(r"(?:max|avg|average)_?pool")),
    (CAST, re.compile(r"unrolled_elementwise_kernel|elementwise_kernel<\d+, 1\b")),
    (OFFSETS, re.compile(r"(?<!vectorized_)(?<!templated_)elementwise_kernel(?:_manual_unroll)?<")),
    (WIDE, re.compile(r"vectorized_|triton_(?:poi|red|per)|multi_tensor_apply|distribution_")),
)  # fmt: skip


@lru_cache(maxsize=65_536)
def walk_of(name: str) -> int:
    """Return the access pattern of a kernel by its name, as a place in :data:`WALKS`.

    >>> WALKS[walk_of("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >")]
    'wide'
    >>> WALKS[walk_of("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl>")]
    'offsets'
    """
    if not name:
        return TABLE
    return next((walk for walk, mark in _MARKS if mark.search(name)), OTHER)


def walks(rows: OperatorColumns) -> Ints:
    """Return the access pattern of each row's kernel, places in :data:`WALKS`. Shape (n,)."""
    if "name" not in rows.columns:
        return np.zeros(len(rows), dtype=np.int64)
    names = rows.text("name")
    return np.array([walk_of(str(n)) for n in names.tolist()], dtype=np.int64)


def named(rows: OperatorColumns) -> Bools:
    """Return which rows are kernels a trace names, not operators of a table. Shape (n,)."""
    return np.asarray(walks(rows) != TABLE, dtype=np.bool_)


def steps_of(rows: OperatorColumns) -> Floats:
    """Return the steps to an element's offsets: of each dimension, for every tensor and once. (n,) [1]"""
    dims = np.maximum(rows.number("walked_dims", USUAL_DIMS), 2.0)
    tensors = np.maximum(rows.number("operands", 2.0), 2.0)
    return np.asarray(dims * (tensors + 1.0))


def lanes(gpu: Gpu) -> float:
    """Return the lanes an SM or compute unit issues to in a clock. [1/clk]"""
    return _LANES[gpu.vendor]


def chain(rows: OperatorColumns, elements: Floats) -> Floats:
    """Return the elements a thread works through one after another, 0 where the launch is not known. (n,)"""
    threads = rows.number("blocks", 0.0) * rows.number("threads", 0.0)
    return np.divide(elements, threads, out=np.zeros(len(rows)), where=threads > 0)


def kept_share(moved_bytes: Floats, gpu: Gpu) -> Floats:
    """Return the share of a kernel's traffic its L2 can hold between two kernels, 0 to 1. Shape (n,)."""
    if not np.isfinite(gpu.l2_bytes):
        return np.zeros(len(moved_bytes))
    return np.asarray(1.0 / (1.0 + (moved_bytes / (HALF_SHARE * gpu.l2_bytes)) ** SHARPNESS))
