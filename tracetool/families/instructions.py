"""Kernels of matrix instructions older than the GPU they run on."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu

#: Matrix instructions of GA100 in ``mma_arch``, which architectures after it still run.
_INSTRUCTIONS: Final = "ampere"


def rate_share(gpu: Gpu) -> float:
    """Return the share of the matrix rate that kernels made for another architecture reach on a GPU. [1]"""
    counterpart = load_architecture(gpu.architecture).other_kernels
    return 1.0 if counterpart is None else counterpart.rate_share.value


def older_kernels(rows: OperatorColumns, gpu: Gpu) -> Bools:
    """Return which rows are kernels of another architecture's matrix instructions. Shape (n,)."""
    if load_architecture(gpu.architecture).other_kernels is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(rows.text("mma_arch") == _INSTRUCTIONS, dtype=np.bool_)
