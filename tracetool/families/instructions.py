"""Kernels of matrix instructions older than the GPU they run on."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu

#: Words of the names of kernels made for GA100, which architectures after it still run.
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


def rate_share(gpu: Gpu) -> float:
    """Return the share of the matrix rate that kernels made for another architecture reach on a GPU. [1]"""
    other = load_architecture(gpu.architecture).other_kernels
    return 1.0 if other is None else other.rate_share.value


@lru_cache(maxsize=65_536)
def _is_older(name: str) -> bool:
    return any(word in name for word in _OLDER)


def older_kernels(rows: OperatorColumns, gpu: Gpu) -> Bools:
    """Return which rows are kernels made for another architecture that ``gpu`` runs, by name. Shape (n,)."""
    if load_architecture(gpu.architecture).other_kernels is None or "name" not in rows.columns:
        return np.zeros(len(rows), dtype=np.bool_)
    names = rows.text("name")
    return np.fromiter((_is_older(str(n)) for n in names.tolist()), np.bool_, len(rows))
