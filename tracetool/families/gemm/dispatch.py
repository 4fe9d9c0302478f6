"""Tiles that a library's source states for its own FP8 products, by rows and columns and by architecture.

Sources: docs/families/gemm.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from tracetool.families.gemm.layout import Products
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu

#: Most rows and columns of C, and the rows and columns of a tile there. [elements]
Row = tuple[float, float, float, float]
#: Ways to choose a tile: by the law's own model of time, or by a library's table. [1] By definition: their
#: numbers in ``tile_table``.
BY_TIME, VLLM, SGLANG = range(3)
#: The same of vLLM's CUTLASS products with scales by blocks. [1] By definition, as above.
VLLM_BLOCKS = 3
_ANY: Final = float("inf")
#: The tables, of architectures whose matrix instructions are of warps, of warps and take scales by blocks, of
#: warpgroups, and of tensor memory.
#: Where source leaves a cluster of two SMs to CUTLASS each is taken to multiply half of a tile's 128 or 256
#: rows, a prior. [elements] Else by definition of vllm-project/vllm,
#: ``csrc/quantization/w8a8/cutlass/c3x/scaled_mm_sm90_fp8_dispatch.cuh``, ``.._sm100_..``, ``.._sm120_..``,
#: ``scaled_mm_blockwise_sm120_fp8_dispatch.cuh`` and ``scaled_mm_c2x_sm89_fp8_dispatch.cuh``; and of
#: sgl-project/sglang, ``sgl-kernel/csrc/gemm/fp8_gemm_kernel.cu`` (one tile on SM120: pull request 33216).
_WARPS: Final[dict[int, tuple[Row, ...]]] = {
    VLLM: (
        (16, 8192, 16, 64), (16, 24576, 16, 128), (16, _ANY, 32, 64),
        (32, 8192, 32, 64), (32, 16384, 32, 128), (32, _ANY, 32, 64),
        (64, 8192, 64, 64), (64, 16384, 64, 128), (64, _ANY, 64, 64),
        (128, 8192, 64, 128), (128, 16384, 128, 128), (128, _ANY, 128, 64),
        (256, 4096, 64, 128), (256, _ANY, 128, 128),
        (_ANY, 4096, 128, 128), (_ANY, 8192, 256, 128), (_ANY, _ANY, 128, 128),
    ),
    SGLANG: (
        (1, 8192, 16, 64), (1, _ANY, 32, 64),
        (16, 8192, 16, 64), (16, 16384, 32, 64), (16, _ANY, 16, 64),
        (64, 16384, 32, 64), (64, _ANY, 16, 64),
        (128, 16384, 64, 64), (128, _ANY, 32, 64),
        (256, 8192, 128, 64), (256, 16384, 64, 128), (256, _ANY, 128, 64),
        (_ANY, _ANY, 128, 128),
    ),
}  # fmt: skip
_SCALED_WARPS: Final[dict[int, tuple[Row, ...]]] = {
    VLLM: ((16, _ANY, 16, 64), (32, _ANY, 32, 64), (256, _ANY, 64, 64), (_ANY, _ANY, 128, 128)),
    SGLANG: ((_ANY, _ANY, 128, 128),),
    VLLM_BLOCKS: ((64, _ANY, 32, 128), (256, _ANY, 64, 128), (_ANY, _ANY, 128, 128)),
}
#: Tile of a table where the rows of C are no multiple of some: A and B change places. [elements] By
#: definition of the same source.
_UNEVEN: Final = {VLLM_BLOCKS: (32.0, 128.0)}
#: Of what they are a multiple where A and B keep theirs. [rows] By definition of the same source.
_EVEN_ROWS: Final = 4
_WARPGROUPS: Final[dict[int, tuple[Row, ...]]] = {
    VLLM: (
        (16, _ANY, 16, 64), (64, 1280, 16, 64), (64, _ANY, 64, 64), (128, _ANY, 64, 128),
        (_ANY, _ANY, 128, 128),
    ),
    SGLANG: ((256, _ANY, 64, 64), (_ANY, _ANY, 128, 128)),
}  # fmt: skip
_TENSOR_MEMORY: Final[dict[int, tuple[Row, ...]]] = {
    VLLM: ((16, _ANY, 32, 64), (64, _ANY, 64, 64), (256, _ANY, 64, 128), (_ANY, _ANY, 128, 128)),
    SGLANG: ((64, _ANY, 64, 64), (256, _ANY, 64, 128), (_ANY, _ANY, 128, 128)),
}


@cache
def _tables_of(name: str) -> dict[int, tuple[Row, ...]]:
    architecture = load_architecture(name)
    if architecture.has_tensor_memory:
        return _TENSOR_MEMORY
    if architecture.scales_in_warps:
        return _SCALED_WARPS
    return _WARPGROUPS if architecture.has_warpgroups else _WARPS


def dispatched(products: Products, gpu: Gpu, table: float) -> Products:
    """Return products with the tile that a library's table takes, K in one part, where none is stated."""
    if table == BY_TIME:
        return products
    rows, p = _tables_of(gpu.architecture)[int(table)], products
    within = [(p.m <= most_m) & (p.n <= most_n) for most_m, most_n, _, _ in rows]
    m, n = (np.select(within, [row[side] for row in rows], np.nan) for side in (2, 3))
    if int(table) in _UNEVEN:
        m, n = (
            np.where(p.m % _EVEN_ROWS > 0, *pair) for pair in zip(_UNEVEN[int(table)], (m, n), strict=True)
        )
    untold = ~np.isfinite(p.tile_m * p.tile_n)
    return replace(
        p,
        tile_m=np.where(untold, m, p.tile_m),
        tile_n=np.where(untold, n, p.tile_n),
        split=np.where(untold & np.isnan(p.split), 1.0, p.split),
    )
