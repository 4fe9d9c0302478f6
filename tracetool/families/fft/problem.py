"""Fourier transforms: 5 N log2 N operations for N complex points, half as many for N real ones.

The operator's sizes are those of the whole transform. A library transforms one axis, or one factor of a long
one, per kernel, each passing over the data once: the bytes are those of every such kernel, the operations
those of all of them together, an upper bound for one. Memory sets the time of either.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes, on_fp64_pipe, vector_flops
from tracetool.hardware.gpu import Gpu

#: Operations of a radix-2 transform per complex point and doubling of its length. [op] By definition of the
#: algorithm: a butterfly of two points is a complex product and two complex sums, 10 operations.
_PER_POINT_AND_STAGE = 5.0


def transform_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    r"""Count the operations and bytes of transforms.

    ``elements`` complex points in transforms of ``cols`` points each:

    .. math:: F = 5 E \log_2 N

    N real points are transformed as N/2 complex ones [1]_, so that ``elements`` counts half of them.

    References
    ----------
    .. [1] Frigo and Johnson, "FFT Benchmark Methodology", www.fftw.org/speed/method.html: 5 N log2 N for
       complex data, the operations of Cooley and Tukey's radix-2 algorithm, and half for real data.
    """
    del gpu
    elements, points = rows.number("elements"), np.maximum(rows.number("cols"), 2.0)
    moved = (rows.number("reads", 1.0) + rows.number("writes", 1.0)) * elements
    moved = moved * element_bytes(dtype_of(rows), 8.0)
    flops = _PER_POINT_AND_STAGE * elements * np.log2(points)
    return Work.of(
        len(rows),
        useful_flops=flops,
        **vector_flops(on_fp64_pipe(dtype_of(rows)), flops),
        int_ops=2.0 * elements,
        shared_bytes=2.0 * moved,  # stages of one kernel exchange their points there
        l2_bytes=moved,
        dram_bytes=moved,
    )
