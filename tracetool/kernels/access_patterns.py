"""What a kernel's name tells of its inner loop: how it accesses its tensors, whose matrix instruction it uses.

PyTorch's streaming kernels differ by what stands around the element's own work; the laws of streams say what
each costs (``families/access_pattern.py``).
"""

from __future__ import annotations

import re
from typing import Final

from tracetool.families.access_pattern import AccessPattern

_PATTERNS: Final = (
    (AccessPattern.TREE, re.compile(r"reduce_kernel")),
    (AccessPattern.CAT, re.compile(r"CatArrayBatchedCopy(?!_(?:contig|alignedK|vectorized))")),
    (
        AccessPattern.INDEX,
        re.compile(r"index_elementwise|scatter_gather_element|indexSelect|indexFunc|indexing_back"),
    ),
    (AccessPattern.POOL, re.compile(r"(?:max|avg|average)_?pool")),
    (AccessPattern.CAST, re.compile(r"unrolled_elementwise_kernel|elementwise_kernel<\d+, 1\b")),
    (
        AccessPattern.OFFSETS,
        re.compile(r"(?<!vectorized_)(?<!templated_)elementwise_kernel(?:_manual_unroll)?<"),
    ),
    (AccessPattern.CHUNKS, re.compile(r"multi_tensor_apply")),
    (AccessPattern.WIDE, re.compile(r"vectorized_|triton_(?:poi|red|per)|distribution_")),
)
#: In names of kernels that multiply by instructions of Ampere's (mma.sync), which later NVIDIA chips still run.
_AMPERE: Final = re.compile(r"s16816|s161616|s1688|_80_|ampere_|sm80_|pytorch_flash::flash_|flash_fwd_kernel")


def access_pattern(name: str) -> str:
    """Return how the kernel of a name accesses its tensors, a name of ``families.access_pattern.PATTERNS``.

    >>> access_pattern("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >")
    'wide'
    >>> access_pattern("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl>")
    'offsets'
    """
    patterns = (pattern for pattern, mark in _PATTERNS if mark.search(name))
    return next(patterns, AccessPattern.OTHER).name.lower()


def mma_arch(name: str) -> str | None:
    """Return the architecture whose matrix instruction a name states, None where it states none.

    >>> mma_arch("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn")
    'ampere'
    """
    return "ampere" if _AMPERE.search(name) else None
