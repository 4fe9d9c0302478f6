"""Priors: how far other vendors' and older chips' kernels fall short of those fitted to."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.operators import OperatorColumns

#: Rate of AMD's matrix kernels over what coefficients of NVIDIA's give. Products: typical shapes reach about
#: 0.77 of the best, 708 TFLOP/s in BF16 on MI300X [1]_ [2]_. Attention: PyTorch's kernels on MI300X reach
#: some 350 TFLOP/s forward [3]_. Both figures were read in excerpts and are unverified: guesses, without an
#: interval of their own. A calibration of such a GPU fits what is left.
_AMD: Final = {"products": 0.70, "attention": 0.45}
# .. [1] AMD, "Measuring Max-Achievable FLOPs, part 2", ROCm blogs, 2025.
# .. [2] AMD, "Typical Attained FLOPs", ROCm blogs, 2025.
# .. [3] Reshadi, "Attention forward on MI300X: AITER, AOTriton, TileLang", 2026.
#: Words of kernels whose products are instructions of Ampere, and the share of Hopper's rate they reach [4]_,
#: unverified too.
_OLDER: Final = ("s16816", "s161616", "_80_", "ampere_", "sm80_", "pytorch_flash::flash_", "flash_fwd_kernel")
_OLDER_SHARE: Final = 0.62
# .. [4] Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024, section on mma.


def instruction_share(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """Return the share of the matrix units' rate a kernel's instructions reach, by name. Shape (n,). [1]"""
    names = rows.text("name")
    share = np.ones(len(rows))
    if gpu.architecture != "hopper" or not (names != "").any():
        return share
    for name in set(names.tolist()):
        if any(word in str(name) for word in _OLDER):
            share[names == name] = _OLDER_SHARE
    return share


def matrix_share(gpu: Gpu, kind: str) -> float:
    """Return the rate of a GPU's matrix kernels over what transferred coefficients give. [1]

    Parameters
    ----------
    gpu : Gpu
        The GPU they run on.
    kind : str
        "products" or "attention".
    """
    return _AMD[kind] if gpu.vendor == "amd" else 1.0
