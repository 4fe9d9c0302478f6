"""Kernels of matrix instructions older than the GPU they run on."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.hardware.gpu import Gpu

#: Architecture whose matrix instructions later NVIDIA chips still run, and words of such kernels' names.
KIN: Final = "ampere-ga100"
_OLDER: Final = (
    "s16816",
    "s161616",
    "s1688",
    "_80_",
    "ampere_",
    "sm80_",
    "pytorch_flash::flash_",
    "flash_fwd_kernel",
)
OLDER_SHARE: Final = read_coefficients(__package__, "shared")["older"]["rate_share"].value


@lru_cache(maxsize=65_536)
def _is_older(name: str) -> bool:
    return any(word in name for word in _OLDER)


def older_kernels(rows: OperatorColumns, gpu: Gpu) -> Bools:
    """Return which rows are kernels of Ampere's instructions on a Hopper GPU, by name. Shape (n,)."""
    if gpu.architecture != "hopper" or "name" not in rows.columns:
        return np.zeros(len(rows), dtype=np.bool_)
    names = rows.text("name")
    return np.fromiter((_is_older(str(n)) for n in names.tolist()), np.bool_, len(rows))
