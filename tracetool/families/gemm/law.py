"""Matrix products: tiles in waves, fed from L2 and memory; formats with scales add a pass over A."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import on_tensor
from tracetool.families.gemm.problem import gemm_products, plan_of, work_of
from tracetool.families.gemm.tiling import Products, TileRates
from tracetool.families.law import Coefficient, Coefficients, Law, choice
from tracetool.families.pieces import Pieces
from tracetool.families.vendors import KIN, OLDER_SHARE, older_kernels
from tracetool.hardware.gpu import Gpu

#: Bounds of the coefficients that choose the tiles; their priors are the defaults of TileRates.
_BOUNDS = {
    "tensor_reach": (0.3, 1.0, "1"), "shared_reach": (0.15, 2.0, "1"), "l2_reach": (0.3, 3.0, "1"),
    "port_reach": (0.1, 4.0, "1"), "dram_reach": (0.4, 1.0, "1"), "sm_bytes_clk": (5.0, 250.0, "B/clk/SM"),
    "latency_clk": (100.0, 2e4, "clk"), "block_clk": (20.0, 2e4, "clk"), "slab_clk": (1.0, 1000.0, "clk"),
    "split_clk": (100.0, 2e4, "clk"), "split_power": (0.02, 2.0, "1"), "reduce_reach": (0.05, 3.0, "1"),
    "store_reach": (0.05, 10.0, "1"), "overlap_norm": (1.5, 8.0, "1"),
    "l2_hit": (0.001, 0.9, "1"), "vector_reach": (0.1, 1.0, "1"), "vector_clk": (100.0, 2e4, "clk"),
}  # fmt: skip
_DEFAULTS = TileRates()
_TILES = {
    "fill_norm": choice(8.0, 4.0, 8.0),
    "least_tile": choice(8.0, 8.0, 16.0, 32.0, 64.0),
    **{k: Coefficient(getattr(_DEFAULTS, k), *b, fitted=k != "vector_clk") for k, b in _BOUNDS.items()},
}
#: What only kernels of matrix units show.
_TENSOR = {
    "odd_tiles": choice(1.0, 0.0, 1.0),
    "whole_waves": choice(0.0, 0.0, 1.0),
    "drained": Coefficient(0.7, 0.001, 1.0, "1"),
}
_LAUNCH = {"launch_us": Coefficient(1.5, 0.3, 60.0, "us")}
#: Formats with scales: A is quantized by a kernel of its own, sizes no multiple of 4 are padded, and a
#: host that issues kernel after kernel sets a floor.
_QUANTIZED = {
    "launch_us": Coefficient(5.0, 0.3, 30.0, "us"),
    **{k: v for k, v in _TILES.items() if not k.startswith("vector")},
    "drained": _TENSOR["drained"],
    "pass_factor": Coefficient(1.5, 0.05, 20.0, "1"),
    "odd_us": Coefficient(0.5, 0.01, 20.0, "us"),
    "odd_factor": Coefficient(0.3, 0.01, 20.0, "1"),
    "floor_few_us": Coefficient(2.0, 0.1, 150.0, "us"),
    "floor_us": Coefficient(2.0, 0.1, 150.0, "us"),
    "floor_odd_us": Coefficient(2.0, 0.1, 150.0, "us"),
}
#: Rows of A from which the host takes its longer path.
FEW_ROWS = 32.0


def product_pieces(p: Products, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of products in tiles of tensor cores, with every coefficient of :data:`GEMM` given."""
    plan = plan_of(
        p, gpu, TileRates(**{f.name: c.get(f.name, getattr(_DEFAULTS, f.name)) for f in fields(TileRates)})
    )
    n = len(p.m)
    rows_of_a = p.batch * p.m * p.k
    odd = (p.m % 4 != 0) & (p.m > 1)
    passing = (
        c.get("pass_factor", 0.0) * 3.0 * rows_of_a + np.where(odd, c.get("odd_factor", 0.0), 0.0) * rows_of_a
    )
    usual = c.get("floor_us", 0.0)
    floor = np.where(odd, c.get("floor_odd_us", usual), usual)
    floor = np.where(p.m < FEW_ROWS, c.get("floor_few_us", usual), floor)
    return Pieces(
        fixed_s=(c["launch_us"] + np.where(odd, c.get("odd_us", 0.0), 0.0)) * 1e-6,
        serial_cycles=plan.serial_cycles,
        stream_s=passing / gpu.dram_bytes_per_s,
        core_cycles=plan.core_cycles,
        memory_s=plan.memory_s,
        norm=np.full(n, c["overlap_norm"]),
        floor_s=floor * 1e-6,
        active=np.clip(plan.blocks / (np.ceil(plan.blocks / gpu.sm_count) * gpu.sm_count), 0.0, 1.0),
        work=work_of(p, plan),
    )


def _gemm(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return product_pieces(gemm_products(rows, gpu), gpu, c)


def _older(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    made = gemm_products(rows, gpu)
    return product_pieces(replace(made, rate=made.rate * OLDER_SHARE), gpu, c)


#: cuBLAS before Hopper: tiles are powers of two, none under 32, and a wave begun counts as a full one.
_HABITS = ({"odd_tiles": 0.0, "whole_waves": 1.0, "least_tile": 32.0, "slab_clk": 400.0, "store_reach": 0.2},)

GEMM = Law("gemm", _gemm, {**_LAUNCH, **_TILES, **_TENSOR}, habits=_HABITS)
GEMM_OLDER = Law("gemm_older", _older, GEMM.priors, parent="gemm", kin=KIN)
GEMM_FP8 = Law("gemm_fp8", _gemm, _QUANTIZED)
GEMM_FP8_BLOCK = Law("gemm_fp8_block", _gemm, _QUANTIZED)
GEMM_FP4 = Law("gemm_fp4", _gemm, _QUANTIZED)
LAWS = (GEMM, GEMM_FP8, GEMM_FP8_BLOCK, GEMM_FP4, GEMM_OLDER)

#: Laws of matrix products: on tensor cores, on the FP32 pipe, formats with scales, and kernels made for an
#: older architecture.
PRODUCT_LAWS = ("gemm", "gemm_vector", "gemm_fp8", "gemm_fp8_block", "gemm_fp4", "gemm_older")
_OLDER = PRODUCT_LAWS.index("gemm_older")


def product_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place in :data:`PRODUCT_LAWS` of each row's law, by format and kernel. Shape (n,)."""
    words = rows.text("dtype", "fp32")
    chosen = np.where(on_tensor(words, gpu), 0, 1)
    for place, formats in enumerate((("fp8", "int8"), ("fp8_block",), ("nvfp4", "mxfp4")), start=2):
        scaled = np.any([words == word for word in formats], axis=0)
        chosen = np.where(scaled & (chosen == 0), place, chosen)
    chosen = np.where((chosen == 0) & older_kernels(rows, gpu), _OLDER, chosen)
    return chosen.astype(np.int64)
