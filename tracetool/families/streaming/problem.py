"""Families that read elements once and write results once: counts from element numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes, on_fp64_pipe, vector_flops
from tracetool.families.operations import instructions_per_element
from tracetool.hardware.gpu import Gpu

#: Smallest piece of a line that DRAM and L2 move. [B] By definition of the architecture (NVIDIA, CUDA C++
#: Best Practices Guide, "Coalesced Access to Global Memory").
SECTOR_BYTES = 32.0


def stream_counter(
    *, flops: float = 1.0, sfu: float = 0.0, integer: float = 2.0, passes: float = 1.0, sectors: bool = False
) -> Callable[[OperatorColumns, Gpu], Work]:
    """Return the counter of a family that streams ``elements``.

    Parameters
    ----------
    flops, sfu, integer : float
        Vector operations, special functions and address arithmetic per element, where it is not stated what a
        kernel computes (:mod:`tracetool.families.operations`). [op]
    passes : float
        Times the data passes through memory.
    sectors : bool
        Elements are fetched in rows of ``cols`` at arbitrary places, so that every row costs whole sectors.
    """

    def count(rows: OperatorColumns, gpu: Gpu) -> Work:
        del gpu
        elements = rows.number("elements")
        elements = np.where(
            np.isfinite(elements), elements, rows.number("rows", 0.0) * rows.number("cols", 1.0)
        )
        size = element_bytes(dtype_of(rows))
        tensors = rows.number("reads", 1.0) + rows.number("writes", 1.0)
        moved = tensors * elements * size
        computed = instructions_per_element(rows, tensors)
        has_instructions = np.isfinite(computed)
        if sectors:
            # where the width is not stated, neighbors are taken for read together
            width = np.maximum(rows.number("cols", SECTOR_BYTES), 1.0)
            sector_bytes = np.ceil(width * size / SECTOR_BYTES) * SECTOR_BYTES
            moved = moved + (sector_bytes / (width * size) - 1.0) * elements * size * rows.number(
                "reads", 1.0
            )
        moved = passes * moved
        return Work.of(
            len(rows),
            useful_flops=flops * elements,
            **vector_flops(on_fp64_pipe(dtype_of(rows)), np.where(has_instructions, 0.0, flops) * elements),
            sfu_ops=np.where(has_instructions, 0.0, sfu) * elements,
            instructions=np.where(has_instructions, computed, 0.0) * elements,
            int_ops=integer * elements,
            l2_bytes=moved,
            dram_bytes=moved,
        )

    return count
