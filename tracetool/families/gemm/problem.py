"""Matrix products: FLOPs, and bytes by level."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.formats import (
    activation_bytes,
    dtype_of,
    element_bytes,
    full_rate_share,
    on_fp64_pipe,
    on_tensor,
    packed_share,
    product_rate,
    result_bytes,
    vector_flops,
)
from tracetool.families.gemm.tiling import Products, TilePlan, TileRates, plan_products
from tracetool.hardware.gpu import Gpu

#: Bytes a thread loads at once where operands are aligned. [B] By definition: the widest load instruction has
#: 128 bits.
_LOAD_BYTES = 16.0


def gemm_products(rows: OperatorColumns, gpu: Gpu) -> Products:
    """Return the products of gemm rows."""
    batch = np.maximum(rows.number("batch", 1.0), 1.0)
    m, n, k = (np.maximum(rows.number(c, 1.0), 1.0) for c in "mnk")
    words = dtype_of(rows)
    size, weight = activation_bytes(words, gpu), element_bytes(words)
    rate = product_rate(words, gpu)
    inputs = batch * (m * size + n * weight) * k
    return Products(
        batch, m, n, k, size, result_bytes(words), rate, on_tensor(words, gpu), inputs,
        rows.number("tile_m"), rows.number("tile_n"), rows.number("split_k"), _loads(rows, k, weight),
        None if np.array_equal(size, weight) else weight, _weight_sets(rows),
        full_rate_share(words, gpu), on_fp64_pipe(words), packed_share(words, gpu),
    )  # fmt: skip


def _weight_sets(rows: OperatorColumns) -> Floats | None:
    """Return how many different weights are used before one is again: in a run all of a model's. (n,)"""
    run = of_a_trace(rows)
    return None if run.all() else np.where(run, np.inf, rows.number("weight_sets"))


def _loads(rows: OperatorColumns, k: Floats, size: Floats) -> Floats | None:
    """Return the loads an element needs where threads cannot load 16 bytes at once, else 0. Shape (n,).

    A kernel's name states how its operands are aligned; else their rows of K do, one behind the other.
    Libraries take formats of a byte and less in whole 16 bytes only, so that a framework pads them.
    """
    elements_per_load = _LOAD_BYTES / size
    along = np.gcd((k * size).astype(np.int64), int(_LOAD_BYTES)) / size
    stated = rows.number("align")
    together = np.where(stated > 0, stated, np.where(size >= 2.0, np.maximum(along, 1.0), elements_per_load))
    if not (together < elements_per_load).any():
        return None
    return np.where(together < elements_per_load, 1.0 / together, 0.0)


def work_of(products: Products, plan: TilePlan) -> Work:
    """Return the work of products laid out in tiles.

    Issued products include what pads tiles of 8 and more; a tensor core reads both operands from
    shared memory once per tile.
    """
    p = products
    flops = 2.0 * p.batch * p.m * p.n * p.k
    padded = np.ceil(p.m / plan.tile_m) * plan.tile_m * np.ceil(p.n / plan.tile_n) * plan.tile_n
    issued = np.maximum(2.0 * p.batch * padded * p.k, flops)
    packed = 1.0 if p.packed is None else p.packed
    written = p.batch * p.m * p.n * p.out_bytes
    return Work.of(
        len(p.m),
        useful_flops=flops,
        tensor_flops=np.where(p.tensor, issued, 0.0),
        **vector_flops(p.double, np.where(p.tensor, 2.0 * p.batch * p.m * p.n, issued * packed)),
        int_ops=2.0 * p.batch * p.m * p.n,
        shared_bytes=2.0 * plan.fill_bytes,
        l2_bytes=plan.l2_bytes + written + plan.partial_bytes,
        dram_bytes=plan.read_bytes + written,
    )


def plan_of(products: Products, gpu: Gpu, rates: TileRates | None = None) -> TilePlan:
    """Return the tiles a library picks, judged at the boost clock."""
    return plan_products(products, gpu, rates or TileRates.of({}), gpu.clock_boost_mhz * 1e6)


def product_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of gemm rows."""
    products = gemm_products(rows, gpu)
    return work_of(products, plan_of(products, gpu))
