"""Keys of the laws that time kernels: a family names its laws by these; ``model/laws`` holds the laws."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class LawKey(StrEnum):
    """Name of a law, and of its section in a calibration."""

    GEMM = "gemm"
    GEMM_VECTOR = "gemm_vector"
    GEMM_FP8 = "gemm_fp8"
    GEMM_FP8_BLOCK = "gemm_fp8_block"
    GEMM_FP4 = "gemm_fp4"
    GEMM_OLDER = "gemm_older"
    CONV = "conv"
    CONV_VECTOR = "conv_vector"
    MOE = "moe"
    PREFILL = "prefill"
    DECODE = "decode"
    NORM = "norm"
    SOFTMAX = "softmax"
    COLLECTIVE = "collective"
    COPY = "copy"
    STREAM = "stream"


#: Laws of matrix products; the number format and the kernel's architecture choose among them.
PRODUCT_LAWS: Final = (
    LawKey.GEMM,
    LawKey.GEMM_VECTOR,
    LawKey.GEMM_FP8,
    LawKey.GEMM_FP8_BLOCK,
    LawKey.GEMM_FP4,
    LawKey.GEMM_OLDER,
)
