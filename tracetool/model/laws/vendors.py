"""How far libraries of a vendor nobody calibrated here fall short of the calibrated one's: priors."""

from __future__ import annotations

from typing import Final

from tracetool.hardware.gpu import Gpu

#: Rate of AMD's matrix kernels over what coefficients of NVIDIA's give. Products: typical shapes reach about
#: 0.77 of the best, 708 TFLOP/s in BF16 on MI300X [1]_ [2]_. Attention: PyTorch's kernels on MI300X reach
#: some 350 TFLOP/s forward [3]_. A calibration of such a GPU fits what is left.
_AMD: Final = {"products": 0.70, "attention": 0.45}
# .. [1] AMD, "Measuring Max-Achievable FLOPs, part 2", ROCm blogs, 2025.
# .. [2] AMD, "Typical Attained FLOPs", ROCm blogs, 2025.
# .. [3] Reshadi, "Attention forward on MI300X: AITER, AOTriton, TileLang", 2026.


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
