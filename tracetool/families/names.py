"""Names of the families that other layers treat by rules of their own.

Everything that is alike for several families is a field of :class:`~tracetool.families.spec.Family`; a rule
for one family alone names it by these constants. A family no other layer singles out needs no constant here.
"""

from __future__ import annotations

from typing import Final

ATTENTION: Final = "attention"
COLLECTIVE: Final = "collective"
CONV: Final = "conv"
COPY: Final = "copy"
ELEMENTWISE: Final = "elementwise"
GATHER_SCATTER: Final = "gather_scatter"
GEMM: Final = "gemm"
GEMV: Final = "gemv"
MEMCPY: Final = "memcpy"
MEMSET: Final = "memset"
MOE: Final = "moe"
NORM: Final = "norm"
OPTIMIZER: Final = "optimizer"
OTHER: Final = "other"
POOLING: Final = "pooling"
REDUCTION: Final = "reduction"
SOFTMAX: Final = "softmax"
SORT: Final = "sort"
SPLITK_REDUCE: Final = "splitk_reduce"
UNKNOWN: Final = "unknown"
