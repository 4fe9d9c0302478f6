"""Passes over rows by kernel: which tensors each reads and writes, how often, in what loop.

One operator is several kernels. A softmax keeps a row of up to 1024 elements in registers, a longer one in shared
memory where it fits and is aligned, and else reads it three times: for the maximum, the sum and the result [1]_. The
native batch norm reads its input once for the statistics and again for the result; its way back reads input and
gradient, then both again, one element a thread at a time [2]_; in channels-last layout those are kernels of their
own. Gradients of weights pass over columns and write none of the rows [3]_, and small kernels only work on one number
a channel. MIOpen names its variants by the steps they hold [4]_.

References
----------
.. [1] pytorch/pytorch, ``aten/src/ATen/native/cuda/SoftMax.cu``, ``host_softmax``, ``ilpReduce``.
.. [2] pytorch/pytorch, ``aten/src/ATen/native/cuda/Normalization.cuh``, ``reduce``, ``batch_norm_backward_kernel``.
.. [3] pytorch/pytorch, ``aten/src/ATen/native/cuda/layer_norm_kernel.cu``, ``group_norm_kernel.cu``.
.. [4] ROCm/MIOpen, ``src/kernels/MIOpenBatchNormFwdTrainSpatial.cl``, ``MIOpenBatchNormBwdSpatial.cl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from tracetool.core.dtype import BYTES
from tracetool.families.registry import families_where

_ROWWISE: Final = families_where(lambda family: family.row_blocks)
#: Bytes of the widest load. [B]
_WIDEST: Final = 16.0


@dataclass(frozen=True)
class RowKernel:
    """Properties of one row-wise kernel that its name states.

    Parameters
    ----------
    name : str
        Regular expression of the kernel's name.
    reads, writes : float
        Tensors of the rows' size it reads and writes; NaN where those of its family hold.
    again : float
        How often it reads them after the first time; NaN where the model's usual holds.
    loads : float
        Loads of an element that wait for one another, over all passes; NaN where not known.
    wide : bool
        Whether a load takes 16 bytes, not one element.
    """

    name: str
    reads: float = float("nan")
    writes: float = float("nan")
    again: float = float("nan")
    loads: float = float("nan")
    wide: bool = False


#: The first whose expression occurs in a name holds.
ROW_KERNELS: Final = (
    RowKernel(r"softmax_warp_", again=0.0),
    RowKernel(r"cunn_SoftMaxForward(?:Smem|Reg)", again=0.0, loads=1.0, wide=True),
    RowKernel(r"cunn_SoftMaxBackwardSmem", again=0.0, loads=1.0, wide=True),
    RowKernel(r"cunn_SoftMaxForward", again=2.0, loads=3.0, wide=True),
    # of the gradient and the result only the gradient is read again
    RowKernel(r"cunn_SoftMaxBackward", again=0.5, loads=2.0, wide=True),
    RowKernel(r"cunn_SpatialSoftMaxForward", again=2.0, loads=3.0),
    RowKernel(r"cunn_SpatialSoftMaxBackward", again=0.5, loads=2.0),
    # each update of the variance waits for a division too, in the branch that its load stands in
    RowKernel(r"batch_norm_collect_statistics_channels_last", 1.0, 0.0, 0.0, 1.66),
    RowKernel(r"batch_norm_collect_statistics", 1.0, 0.0, 0.0, 2.0),
    RowKernel(r"batch_norm_transform_input", 1.0, 1.0, 0.0, 0.25),
    RowKernel(r"batch_norm_backward_reduce_channels_last", 2.0, 0.0, 0.0, 0.25),
    RowKernel(r"batch_norm_backward_reduce", 2.0, 0.0, 0.0, 1.0),
    RowKernel(r"batch_norm_backward_elemt", 2.0, 1.0, 0.0, 0.25),
    RowKernel(r"batch_norm_backward_kernel", 2.0, 1.0, 1.0, 2.0),
    RowKernel(r"batch_norm_reduce_statistics|batch_norm_update_stats", 0.0, 0.0, 0.0, 0.0),
    RowKernel(r"vectorized_layer_norm", loads=2.0, wide=True),
    RowKernel(r"layer_norm_grad_input_kernel_vectorized", loads=2.0, wide=True),
    # a first pass of four elements at once, a second of one
    RowKernel(r"layer_norm_grad_input_kernel", loads=1.25),
    RowKernel(r"RowwiseMoments", 1.0, 0.0, 0.0, 1.0),
    RowKernel(r"GammaBetaBackwardCUDAKernel[12]|Compute(?:Backward)?FusedParams", 0.0, 0.0, 0.0, 0.0),
    RowKernel(r"ComputeInternalGradients", 2.0, 0.0, 0.0, 1.0),
    RowKernel(r"cuComputePartGradGammaBeta", 2.0, 0.0, 0.0, 1.0),
    RowKernel(r"cuComputeGradGammaBeta", 0.0, 0.0, 0.0, 0.0),
    # a thread takes eight rows at once, in older releases two
    RowKernel(r"GammaBetaBackwardCUDAKernelTemplate", 2.0, 0.0, 0.0, 0.125),
    RowKernel(r"GammaBetaBackward", 2.0, 0.0, 0.0, 0.5),
    RowKernel(r"MIOpenBatchNorm\w*Final", 0.0, 0.0, 0.0, 0.0),
    RowKernel(r"MIOpenBatchNormFwd\w*MeanVariance", 1.0, 0.0, 0.0, 1.0),
    RowKernel(r"MIOpenBatchNormFwd\w*SpatialNorm", 1.0, 1.0, 0.0, 0.25),
    RowKernel(r"MIOpenBatchNormBwd\w*(?:DScaleDBias|MeanVariance)", 2.0, 0.0, 0.0, 1.0),
    RowKernel(r"MIOpenBatchNormBwd\w*SpatialDX", 2.0, 1.0, 0.0, 0.25),
)


def row_kernels(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the properties of row-wise kernels, null where their names do not state them.

    Parameters
    ----------
    frame : DataFrame
        Signatures with ``name``, ``family``, ``dtype``.

    Returns
    -------
    DataFrame
        With ``row_reads``, ``row_writes`` (tensors), ``reads_again`` (times) and ``row_loads``: loads a thread
        makes one after another for an element it works on.
    """
    which = pl.Series("_kernel", [None], dtype=pl.Int64).new_from_index(0, frame.height)
    rowwise = frame["family"].is_in(_ROWWISE).fill_null(value=False).arg_true()
    if rowwise.len():
        first = pl.lit(None, dtype=pl.Int64)
        for place in reversed(range(len(ROW_KERNELS))):
            first = pl.when(pl.col("name").str.contains(ROW_KERNELS[place].name)).then(place).otherwise(first)
        which = which.scatter(rowwise, frame[rowwise].select(first).to_series())
    size = pl.col("dtype").replace_strict(BYTES, default=4.0, return_dtype=pl.Float64)
    table = pl.DataFrame({
        "_kernel": range(len(ROW_KERNELS)),
        "row_reads": [kernel.reads for kernel in ROW_KERNELS],
        "row_writes": [kernel.writes for kernel in ROW_KERNELS],
        "reads_again": [kernel.again for kernel in ROW_KERNELS],
        "row_loads": [kernel.loads for kernel in ROW_KERNELS],
        "_wide": [kernel.wide for kernel in ROW_KERNELS],
    }).with_columns(pl.col(pl.Float64).fill_nan(None))  # fmt: skip
    joined = frame.with_columns(which).join(table, on="_kernel", how="left", maintain_order="left")
    loads = pl.when("_wide").then(pl.col("row_loads") * size / _WIDEST).otherwise("row_loads")
    return joined.with_columns(loads.alias("row_loads")).drop("_kernel", "_wide")
