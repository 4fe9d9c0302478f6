"""Matrix products on vector pipes, where a board has no matrix unit for their format."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.gemm.layout import Products
from tracetool.families.gemm.problem import gemm_products, work_of
from tracetool.families.gemm.vector_tiling import VectorRates, plan_vectors
from tracetool.families.law import Coefficient, Coefficients, Law, choice
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu

_DEFAULTS = VectorRates()
#: Bounds of the coefficients that choose the tiles; their priors are the defaults of VectorRates.
_BOUNDS = {
    "pipe_reach": (0.3, 1.0, "1"), "shared_reach": (0.15, 2.0, "1"), "port_reach": (0.02, 2.0, "1"),
    "dram_reach": (0.3, 1.0, "1"), "strided_reach": (0.05, 1.0, "1"), "latency_clk": (100.0, 6e3, "clk"),
    "block_clk": (20.0, 2e4, "clk"), "slab_clk": (5.0, 800.0, "clk"), "split_clk": (100.0, 6e4, "clk"),
    "reduce_reach": (0.02, 3.0, "1"), "store_reach": (0.05, 10.0, "1"), "turn_clk": (0.001, 2.0, "clk"),
    "page_clk": (0.001, 20.0, "clk"), "page_share": (0.04, 0.5, "1"), "page_odd": (0.02, 1.0, "1"),
    "vector_reach": (0.1, 1.0, "1"),
}  # fmt: skip
_PRIORS = {
    "launch_us": Coefficient(1.5, 0.3, 120.0, "us"),
    "fill_norm": choice(4.0, 4.0, 8.0),
    "batch_area": choice(0.0, 0.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, carried=False),
    "most_area": choice(16384.0, 1024.0, 4096.0, 8192.0, 16384.0, carried=False),
    **{k: Coefficient(getattr(_DEFAULTS, k), *b) for k, b in _BOUNDS.items()},
    "overlap_norm": Coefficient(3.5, 1.5, 8.0, "1"),
}


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return vector_pieces(gemm_products(rows, gpu), gpu, c)


def vector_pieces(p: Products, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of products on vector pipes, with every coefficient of :data:`GEMM_VECTOR` given."""
    rates = VectorRates(**{f.name: c.get(f.name, getattr(_DEFAULTS, f.name)) for f in fields(VectorRates)})
    plan = plan_vectors(p, gpu, rates, gpu.clock_boost_mhz * 1e6)
    n = len(p.m)
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=plan.serial_cycles,
        stream_s=np.zeros(n),
        core_cycles=plan.core_cycles,
        memory_s=plan.memory_s,
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.clip(plan.blocks / (np.ceil(plan.blocks / gpu.sm_count) * gpu.sm_count), 0.0, 1.0),
        work=work_of(p, plan),
    )


#: One product or a batch, its tile stated by its kernel's name or left to the library's choice.
KINDS = ("single", "batch", "single_untold", "batch_untold")


def _kind(rows: OperatorColumns) -> Ints:
    batched = rows.number("batch", 1.0) > 1.0
    untold = ~np.isfinite(rows.number("tile_m") * rows.number("tile_n"))
    return batched.astype(np.int64) + 2 * untold.astype(np.int64)


GEMM_VECTOR = Law("gemm_vector", _parts, _PRIORS, kinds=KINDS, kind_of=_kind)
LAWS = (GEMM_VECTOR,)
