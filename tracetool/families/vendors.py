"""Kernels of other vendors and of older chips: what is known of them beside the boards fitted to.

The numbers of AMD rest on 22 kernels of four public profiler traces of MI300X, where names, sizes and times
stand together. Each is the fit to all four; with a trace left out, its products err by 9 % in the median and
by a factor of 1.5 at most, its attention by 14 % and by 1.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu

#: Coefficients of AMD's matrix kernels that differ from those NVIDIA's boards lend, by law. No cluster of
#: compute units shares what it draws from L2: one draws some 14 B/clk, where an SM of Hopper gets 190 with
#: multicast. Matrix units reach two fifths of their peak [1]_ [2]_; a block of attention spends long before
#: its first product.
_AMD_PRODUCTS: Final = {"tensor_reach": 0.43, "port_reach": 0.224, "l2_reach": 1.0, "sm_bytes_clk": 20.0}
AMD: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType({
    **dict.fromkeys(("gemm", "gemm_fp8", "gemm_fp8_block", "gemm_fp4"), _AMD_PRODUCTS),
    "prefill": {
        "query_tile": 128.0, "key_tile": 64.0, "tensor_reach": 0.266, "tile_clk": 37200.0, "dim_offset": 11.9,
    },
})  # fmt: skip
# .. [1] AMD, "Measuring Max-Achievable FLOPs, part 2", ROCm blogs, 2025.
# .. [2] AMD, "Typical Attained FLOPs", ROCm blogs, 2025.
#: Architecture whose matrix instructions later NVIDIA chips still run, words of such kernels' names, and the
#: share of Hopper's rate those instructions reach [3]_.
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
OLDER_SHARE: Final = 0.62
# .. [3] Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024, section on mma.


@lru_cache(maxsize=65_536)
def _is_older(name: str) -> bool:
    return any(word in name for word in _OLDER)


def older_kernels(rows: OperatorColumns, gpu: Gpu) -> Bools:
    """Return which rows are kernels of Ampere's instructions on a Hopper board, by name. Shape (n,)."""
    if gpu.architecture != "hopper" or "name" not in rows.columns:
        return np.zeros(len(rows), dtype=np.bool_)
    names = rows.text("name")
    return np.fromiter((_is_older(str(n)) for n in names.tolist()), np.bool_, len(rows))
