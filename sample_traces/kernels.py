"""Kernels with names, geometry and operands that agree with one another.

Shapes, grids and tiles agree with one another: a tool may check that tiles times tile size cover
the output, that shared memory holds the stages, that elementwise grids cover the elements.
"""

from __future__ import annotations

from math import ceil

from timeline import Kernel

BF16, HALF, FLOAT = "c10::BFloat16", "c10::Half", "float"


def gemm(
    name: str,
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int],
    stages: int,
    *,
    size: int = 2,
    dtype: str = BF16,
    operator: str = "aten::mm",
    persistent: int = 0,
    threads: int = 256,
    registers: int = 168,
    kind: str = "gemm",
    split: int = 1,
    work_items: bool = False,
    layout: str = "tn",
) -> Kernel:
    """Return y(m, n) = x(m, k) w(k, n): tile_m lies along n, as column-major libraries have it."""
    along_n, along_m, step = tile
    across, down = ceil(n / along_n), ceil(m / along_m)
    grid = (persistent, 1, 1) if persistent else (across, down, split)
    if work_items:
        grid = (across * down * split, 1, 1)
    traffic = size * (m * k + k * n + m * n) * (1.0 if min(m, n) > 1024 else 1.02)
    weight = (n, k) if layout == "tn" else (k, n)
    dims: tuple[tuple[int, ...], ...] = ((m, k), (k, n))
    types: tuple[str, ...] = (dtype, dtype)
    if operator == "aten::linear":
        dims, types = ((m, k), weight, ()), (dtype, dtype, "")
    return Kernel(
        name,
        name,
        kind,
        2.0 * m * n * k,
        traffic,
        grid,
        (threads, 1, 1),
        registers,
        0,
        (along_n + along_m) * step * size * stages + 1024,
        operator,
        dims,
        types,
    )


def elementwise(
    name: str,
    short: str,
    elements: int,
    reads: int,
    writes: int,
    operator: str,
    dims: tuple[tuple[int, ...], ...],
    dtype: str = BF16,
    size: int = 2,
    kind: str = "elementwise",
) -> Kernel:
    types = tuple(dtype if d else "Scalar" for d in dims)
    return Kernel(
        name,
        short,
        kind,
        elements * 4.0,
        (reads + writes) * size * elements,
        (ceil(elements / 512), 1, 1),
        (128, 1, 1),
        32,
        0,
        0,
        operator,
        dims,
        types,
    )
