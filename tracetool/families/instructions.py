"""Kernels of matrix instructions older than the GPU they run on."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.hardware.gpu import Gpu

#: Architecture whose matrix instructions later NVIDIA chips still run, and its name in ``mma_arch``.
KIN: Final = "ampere-ga100"
_INSTRUCTIONS: Final = "ampere"
#: Share of Hopper's rate they reach. [1]
OLDER_SHARE: Final = read_coefficients(__package__, "shared")["older"]["rate_share"].value


def older_kernels(rows: OperatorColumns, gpu: Gpu) -> Bools:
    """Return which rows are kernels of Ampere's matrix instructions on a Hopper GPU. Shape (n,)."""
    if gpu.architecture != "hopper":
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(rows.text("mma_arch") == _INSTRUCTIONS, dtype=np.bool_)
