"""Families that work on rows: statistics of a row, then one result per element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes, on_fp64_pipe, vector_flops
from tracetool.families.operations import instructions_per_element
from tracetool.hardware.gpu import Gpu


def row_counter(
    *, flops: float, sfu: float = 0.0, sfu_per_row: float = 1.0, parameters: float = 0.0
) -> Callable[[OperatorColumns, Gpu], Work]:
    """Return the counter of a family that reads and writes ``rows`` of ``cols`` once.

    Parameters
    ----------
    flops, sfu : float
        Operations per element, where the kind of row-wise work is not stated. [op]
    sfu_per_row : float
        Special functions per row: a reciprocal, a square root. [op]
    parameters : float
        Vectors of ``cols`` read beside the rows: weight, bias.
    """

    def count(rows: OperatorColumns, gpu: Gpu) -> Work:
        del gpu
        r, c = rows.number("rows"), rows.number("cols")
        size = element_bytes(dtype_of(rows))
        passes = rows.number("reads", 1.0) + rows.number("writes", 1.0)  # more where other tensors are fused
        # a kernel that passes over no tensor works on one number a row
        elements = r * np.where(passes > 0.0, c, 1.0)
        # a row is read for its statistics and once more for the result, the parameters with it
        computed = instructions_per_element(rows, passes + 1.0 + parameters)
        has_instructions = np.isfinite(computed)
        moved = (passes * elements + parameters * elements / np.maximum(r, 1.0)) * size
        return Work.of(
            len(rows),
            useful_flops=flops * elements,
            **vector_flops(on_fp64_pipe(dtype_of(rows)), np.where(has_instructions, 0.0, flops) * elements),
            sfu_ops=sfu * elements + sfu_per_row * r,
            instructions=np.where(has_instructions, computed, 0.0) * elements,
            int_ops=elements,
            shared_bytes=8.0 * 32.0 * r,
            l2_bytes=moved + parameters * elements * size,
            dram_bytes=moved,
        )

    return count
