"""What a toy must do: one product for each element read and written."""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.hardware.gpu import Gpu


def toy_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of toys."""
    del gpu
    elements = rows.number("elements")
    elements = np.where(np.isfinite(elements), elements, rows.number("rows", 0.0) * rows.number("cols", 1.0))
    passes = rows.number("reads", 1.0) + rows.number("writes", 1.0)
    moved = passes * elements * element_bytes(dtype_of(rows))
    return Work.of(len(rows), useful_flops=elements, fp32_flops=elements, l2_bytes=moved, dram_bytes=moved)
