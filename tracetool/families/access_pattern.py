"""Access patterns of streaming kernels: flat and wide, or element by element with offsets computed.

Flat access loads several elements at once and computes one address for all of them. Where operands lie apart
in memory, or are spread over a larger one, PyTorch's ``elementwise_kernel`` divides each element's number by
the size of every dimension to find its place in every tensor [1]_; casts pick the format of each load by a
switch [2]_; concatenation does the division for its one result, in a loop of single elements [3]_; an index
is read and checked on top. A reduction's blocks add up what their threads hold; where several share a result,
the last of them adds up what the others left in memory [4]_.

References
----------
.. [1] pytorch/pytorch, ``aten/src/ATen/cuda/detail/OffsetCalculator.cuh``.
.. [2] pytorch/pytorch, ``c10/core/DynamicCast.h``.
.. [3] pytorch/pytorch, ``aten/src/ATen/native/cuda/Shape.cu``.
.. [4] pytorch/pytorch, ``aten/src/ATen/native/cuda/Reduce.cuh``, ``ReduceConfig`` and ``global_reduce``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu


class AccessPattern(IntEnum):
    """Ways to access tensors, as the numbers :func:`access_patterns` gives."""

    TABLE = 0  #: a row of an operator table, which is no kernel of a trace
    WIDE = 1  #: flat, several elements at once
    OFFSETS = 2  #: the place of each element computed from its number
    CAST = 3  #: and its format picked by a switch
    CAT = 4  #: concatenation, single elements
    INDEX = 5  #: an index read and checked
    POOL = 6  #: overlapping windows
    TREE = 7  #: a reduction
    OTHER = 8  #: none of these
    CHUNKS = 9  #: many tensors in one launch, a block for each chunk of one


#: Their names in the column ``access_pattern`` and in calibrations, in order of their numbers.
PATTERNS: Final = tuple(pattern.name.lower() for pattern in AccessPattern)
TABLE, WIDE, OFFSETS, CAST, CAT, INDEX, POOL, TREE, OTHER, CHUNKS = (
    int(pattern) for pattern in AccessPattern
)
#: Of these, the flat ones: nothing is looked up before the first load.
FLAT: Final = (TABLE, WIDE, TREE, CHUNKS)
#: Dimensions where the trace states none: between a row broadcast and a transposed tensor. [1] A prior.
USUAL_DIMS: Final = 2.5
#: Traffic of this share of the L2 meets half of what may lie there, results of the kernel before, and the
#: exponent of the fall beyond. [1] Both a prior.
HALF_SHARE, SHARPNESS = 0.7, 3.0
#: Elements of a chunk of a multi-tensor kernel, and those its thread takes at once. [elements] By definition
#: of pytorch/pytorch, ``aten/src/ATen/native/cuda/MultiTensorApply.cuh``, ``kChunkSize`` and ``kILP``.
CHUNK, CHUNK_STEP = 65_536.0, 4.0


def access_patterns(rows: OperatorColumns) -> Ints:
    """Return each row's access pattern, its place in :data:`PATTERNS`: the kernel's column. Shape (n,)."""
    texts = rows.text("access_pattern", PATTERNS[TABLE])
    places = np.full(len(rows), OTHER, dtype=np.int64)
    for place, name in enumerate(PATTERNS):
        places[texts == name] = place
    return places


def of_a_trace(rows: OperatorColumns) -> Bools:
    """Return which rows are kernels of a trace, not operators of a table. Shape (n,)."""
    return np.asarray(rows.text("access_pattern") != "", dtype=np.bool_)


def steps_of(rows: OperatorColumns) -> Floats:
    """Return the steps to an element's offsets: of each dimension, for every tensor and once. (n,) [1]"""
    dims = np.maximum(rows.number("walked_dims", USUAL_DIMS), 2.0)
    tensors = np.maximum(rows.number("operands", 2.0), 2.0)
    return np.asarray(dims * (tensors + 1.0))


def chain(rows: OperatorColumns, elements: Floats) -> Floats:
    """Return the elements a thread works through one after another, 0 where the launch is not known. (n,)"""
    threads = rows.number("blocks", 0.0) * rows.number("threads", 0.0)
    return np.divide(elements, threads, out=np.zeros(len(rows)), where=threads > 0)


def block_rounds(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """Return how often the GPU fills with a kernel's blocks, 0 where the launch is not known. (n,) [1]

    An SM holds as many blocks as its threads and, where a trace states them, its registers allow.
    """
    threads = np.clip(rows.number("threads", gpu.max_threads_per_sm), 1.0, gpu.max_threads_per_sm)
    block_registers = np.nan_to_num(rows.number("registers"), nan=0.0) * threads
    by_registers = np.divide(
        gpu.registers_per_sm, block_registers, out=np.full(len(rows), np.inf), where=block_registers > 0
    )
    by_threads = np.minimum(gpu.max_threads_per_sm / threads, np.maximum(np.floor(by_registers), 1.0))
    resident = np.clip(by_threads, 1.0, gpu.max_blocks_per_sm) * gpu.sm_count
    return np.asarray(rows.number("blocks", 0.0) / resident)


def shares_results(rows: OperatorColumns) -> Bools:
    """Return which reductions have several blocks for a result: PyTorch lays them along the grid's y. (n,)"""
    return np.asarray(np.isfinite(rows.number("out_vec")) & (rows.number("grid_y") > 1.0), dtype=np.bool_)


def chunk_steps(rows: OperatorColumns, elements: Floats) -> Floats:
    """Return the steps a block of a multi-tensor kernel takes through its fullest chunk. (n,) [1]

    Chunks of large tensors are full, those of small ones hold a tensor each: no launch ends before its
    fullest, which is taken to hold twice as much as the mean.
    """
    blocks = np.maximum(rows.number("blocks", 1.0), 1.0)
    threads = np.maximum(rows.number("threads", 512.0), 1.0)
    return np.ceil(np.minimum(CHUNK, 2.0 * elements / blocks) / (CHUNK_STEP * threads))


def kept_share(moved_bytes: Floats, gpu: Gpu) -> Floats:
    """Return the share of a kernel's traffic its L2 can hold between two kernels, 0 to 1. Shape (n,)."""
    if not np.isfinite(gpu.l2_bytes):
        return np.zeros(len(moved_bytes))
    return np.asarray(1.0 / (1.0 + (moved_bytes / (HALF_SHARE * gpu.l2_bytes)) ** SHARPNESS))
