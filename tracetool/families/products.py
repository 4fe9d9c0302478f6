"""Matrix products and convolutions: FLOPs, and bytes by level."""

from __future__ import annotations

import numpy as np

from tracetool.families.formats import dtype_of, element_bytes, on_tensor, product_rate, result_bytes
from tracetool.hardware.gpu import Gpu
from tracetool.tiling.products import Products, TilePlan, TileRates, plan_products
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.work import Work


def gemm_products(rows: OperatorColumns, gpu: Gpu) -> Products:
    """Return the products of gemm rows."""
    batch = np.maximum(rows.number("batch", 1.0), 1.0)
    m, n, k = (np.maximum(rows.number(c, 1.0), 1.0) for c in "mnk")
    words = dtype_of(rows)
    size = element_bytes(words)
    rate = product_rate(words, gpu)
    return Products(
        batch, m, n, k, size, result_bytes(words), rate, on_tensor(words, gpu), batch * (m + n) * k * size,
        rows.number("tile_m"), rows.number("tile_n"), rows.number("split_k"),
    )  # fmt: skip


def conv_products(rows: OperatorColumns, gpu: Gpu) -> Products:
    """Return the implicit products of convolutions: m pixels, n filters, k channels times window.

    The image is read once: neighbouring windows overlap on chip.
    """
    batch = np.maximum(rows.number("batch", 1.0), 1.0)
    groups = np.maximum(rows.number("groups", 1.0) * rows.number("conv_groups", 1.0), 1.0)
    channels, filters = rows.number("channels"), rows.number("filters")
    kh, kw = rows.number("kernel_h", 1.0), rows.number("kernel_w", 1.0)
    stride, pad = np.maximum(rows.number("stride", 1.0), 1.0), rows.number("padding", 0.0)
    height, width = rows.number("height"), rows.number("width", 1.0)
    p = np.maximum(np.floor((height + 2 * pad - kh) / stride) + 1, 1.0)
    q = np.maximum(np.floor((width + 2 * pad - kw) / stride) + 1, 1.0)
    given = np.isfinite(channels * filters * height)
    m = np.where(given, batch * p * q, rows.number("m", 1.0))
    n = np.where(given, np.ceil(filters / groups), rows.number("n", 1.0))
    k = np.where(given, np.ceil(channels / groups) * kh * kw, rows.number("k", 1.0))
    words = dtype_of(rows)
    size = element_bytes(words)
    image = np.where(given, batch * channels * height * width, m * k)
    repeat = np.where(given, groups, batch)
    return Products(
        repeat, np.maximum(m, 1.0), np.maximum(n, 1.0), np.maximum(k, 1.0), size, result_bytes(words),
        product_rate(words, gpu), on_tensor(words, gpu), (image + repeat * n * k) * size,
        rows.number("tile_m"), rows.number("tile_n"), rows.number("split_k"),
    )  # fmt: skip


def work_of(products: Products, plan: TilePlan) -> Work:
    """Return the work of products laid out in tiles.

    Issued products include what pads tiles of 8 and more; a matrix unit reads both operands from
    shared memory once per tile.
    """
    p = products
    flops = 2.0 * p.batch * p.m * p.n * p.k
    padded = np.ceil(p.m / plan.tile_m) * plan.tile_m * np.ceil(p.n / plan.tile_n) * plan.tile_n
    issued = np.maximum(2.0 * p.batch * padded * p.k, flops)
    written = p.batch * p.m * p.n * p.out_bytes
    return Work.of(
        len(p.m),
        useful_flops=flops,
        tensor_flops=np.where(p.tensor, issued, 0.0),
        fp32_flops=np.where(p.tensor, 2.0 * p.batch * p.m * p.n, issued),
        int_ops=2.0 * p.batch * p.m * p.n,
        shared_bytes=2.0 * plan.fill_bytes,
        l2_bytes=plan.l2_bytes + written + plan.partial_bytes,
        dram_bytes=plan.read_bytes + written,
    )


def plan_of(products: Products, gpu: Gpu, rates: TileRates | None = None) -> TilePlan:
    """Return the tiles a library picks, judged at the boost clock."""
    return plan_products(products, gpu, rates or TileRates(), gpu.clock_boost_mhz * 1e6)


def product_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of gemm rows."""
    made = gemm_products(rows, gpu)
    return work_of(made, plan_of(made, gpu))


def conv_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of convolutions."""
    made = conv_products(rows, gpu)
    return work_of(made, plan_of(made, gpu))
