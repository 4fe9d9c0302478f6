"""Matrix products: tiles in waves, fed from L2 and memory; formats with scales add a pass over A.

Equation and sources: docs/families/gemm.md; of weights converted on the way, docs/families/formats.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.formats import dequantized, on_tensor
from tracetool.families.gemm.dispatch import BY_TIME, SGLANG, VLLM, VLLM_BLOCKS, dispatched
from tracetool.families.gemm.problem import gemm_products, plan_of, work_of
from tracetool.families.gemm.tiling import Products, TileRates, in_l2
from tracetool.families.instructions import older_kernels, rate_share
from tracetool.families.law import KERNEL_US, SCALED_WARPS, TENSOR_MEMORY, WARPS, Coefficients, Law
from tracetool.families.loops import (
    NEXT_US,
    ONE_WEIGHT_LOOPS,
    PRODUCT_LOOPS,
    graph_steps_s,
    loop_more_us,
    own_loop,
)
from tracetool.families.pieces import Pieces, combined
from tracetool.hardware.gpu import Gpu

_DATA = read_coefficients(__package__)
_GEMM = {**_DATA["launch"], **_DATA["tiles"], **_DATA["one_column"], **_DATA["tensor"]}
_QUANTIZED = {
    "launch_us": _DATA["quantized"]["launch_us"],
    **_DATA["tiles"],
    "drained": _DATA["tensor"]["drained"],
    **_DATA["quantized"],
}
_WEIGHT_ONLY = {**_GEMM, **_DATA["weight_only"]}
#: Rows of A from which the host takes its longer path. [rows] A prior.
FEW_ROWS = 32.0
#: Kernels of a product with scales by blocks that vLLM's host issues one by one: it quantizes A, lays out its
#: scales, and multiplies; FlashInfer lays none out. Its tables are of loops that record no graph. [1] By
#: definition of vllm-project/vllm, ``model_executor/layers/quantization/utils/fp8_utils.py``, and of
#: ai-dynamo/aiconfigurator, ``collector/vllm/collect_gemm.py``.
VLLM_KERNELS, FLASHINFER_KERNELS = 3.0, 2.0
#: How sharply a weight's conversion and the products overlap: exponent of the norm. [1] A prior, as
#: where tiles are chosen.
CONVERT_NORM = 4.0


def product_pieces(p: Products, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of products in tiles of tensor cores, with every coefficient of :data:`GEMM` given."""
    plan = plan_of(p, gpu, TileRates.of(c))
    n = len(p.m)
    core, work = plan.core_cycles, work_of(p, plan)
    if "dequantize_ops" in c:
        # every block converts the weights of its tile, while its tensor cores multiply the tile before
        converted = p.batch * np.ceil(p.m / plan.tile_m) * p.n * p.k * c["dequantize_ops"]
        core = combined(core, converted / (gpu.rate("int") * gpu.sm_count), CONVERT_NORM)
        work = replace(work, instructions=work.instructions + converted)
    rows_of_a = p.batch * p.m * p.k
    odd = (p.m % 4 != 0) & (p.m > 1)
    quantizing, passed = _quantizing(p, gpu, c)
    passed = passed + np.where(odd, c.get("odd_factor", 0.0), 0.0) * rows_of_a
    usual = c.get("floor_us", 0.0)
    floor = np.where(odd, c.get("floor_odd_us", usual), usual)
    floor = np.where(p.m < FEW_ROWS, c.get("floor_few_us", usual), floor)
    return Pieces(
        fixed_s=(c["launch_us"] + np.where(odd, c.get("odd_us", 0.0), 0.0)) * 1e-6,
        serial_cycles=plan.serial_cycles + quantizing,
        stream_s=passed / gpu.dram_bytes_per_s,
        core_cycles=core,
        memory_s=plan.memory_s,
        norm=np.full(n, c["overlap_norm"]),
        floor_s=floor * 1e-6,
        active=np.clip(plan.blocks / (np.ceil(plan.blocks / gpu.sm_count) * gpu.sm_count), 0.0, 1.0),
        work=work,
    )


def _quantizing(p: Products, gpu: Gpu, c: Coefficients) -> tuple[Floats | float, Floats | float]:
    """Return the cycles of the kernel that quantizes A, and the bytes it moves where they overflow L2.

    Its threads wait for their row's greatest element and for each other more than for memory.
    """
    if "quantize_ops" not in c:
        return 0.0, 0.0
    elements = p.batch * p.m * p.k
    moved = c["quantize_bytes"] * elements
    return elements * c["quantize_ops"] / (gpu.rate("fp32") * gpu.sm_count), moved * (1.0 - in_l2(moved, gpu))


def _gemm(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return _in_a_loop(product_pieces(_in_tiles(rows, gpu, c), gpu, c), rows, PRODUCT_LOOPS)


def _in_a_loop(pieces: Pieces, rows: OperatorColumns, loops: Mapping[str, float]) -> Pieces:
    """Return products as the loops that rows state measure them; ``loops`` are the usual ones, by library."""
    fixed_s = pieces.fixed_s + loop_more_us(rows, loops) * 1e-6
    return replace(pieces, fixed_s=np.maximum(fixed_s, 0.0))


def _fp4(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of products in 4 bits, which vLLM's loop launches by a graph each.

    By definition of ai-dynamo/aiconfigurator, ``collector/vllm/collect_gemm.py``: its times on a B200 are
    whole steps, of no other library and no other format.
    """
    pieces = product_pieces(_in_tiles(rows, gpu, c), gpu, c)
    return _in_a_loop(pieces, rows, ONE_WEIGHT_LOOPS).looped(graph_steps_s(rows, gpu, "vllm"))


def _blocks(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of products with scales by blocks, which the host of vLLM's loop issues one by one."""
    pieces = _in_a_loop(product_pieces(_in_tiles(rows, gpu, c), gpu, c), rows, ONE_WEIGHT_LOOPS)
    return replace(pieces, loop_end=1.0 / own_loop(rows, np.inf, {"vllm": ONE_WEIGHT_LOOPS["vllm"]}))


def _in_tiles(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Products:
    """Return products with the tiles a library's own table takes, where it has one."""
    return dispatched(gemm_products(rows, gpu), gpu, c.get("tile_table", BY_TIME))


def _older(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    products = gemm_products(rows, gpu)
    return product_pieces(replace(products, rate=products.rate * rate_share(gpu)), gpu, c)


def _pinned(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> OperatorColumns:
    """Return rows that state the tile and split of K chosen with these coefficients."""
    plan = plan_of(_in_tiles(rows, gpu, c), gpu, TileRates.of(c))
    stated = {"tile_m": plan.tile_m, "tile_n": plan.tile_n, "split_k": plan.split}
    return OperatorColumns(rows.family, {**rows.columns, **stated})


#: cuBLAS before Hopper: tiles are powers of two, none under 32, and a wave begun counts as a full one.
#: [units of law.toml] A prior, which a fit starts from.
_HABITS = (
    {
        "odd_tiles": 0.0,
        "whole_waves": 1.0,
        "least_tile": 32.0,
        "k_step_cycles": 400.0,
        "store_efficiency": 0.2,
    },
)

_ON = {"amd": values_of(_DATA["amd"]), "amd/32": values_of(_DATA["amd_of_32_lanes"])}
_ON_CDNA4 = {**_ON, "amd/cdna4": values_of(_DATA["amd_cdna4"])}


def _issued(kernels: float) -> dict[str, tuple[float, float]]:
    """Return the floors of a host that issues kernels one by one, whatever A."""
    return {name: (0.0, kernels * KERNEL_US) for name in _QUANTIZED if name.startswith("floor")}


_BLOCK_HOST = {"vllm": _issued(VLLM_KERNELS), "vllm/flashinfer": _issued(FLASHINFER_KERNELS)}
#: DeepGEMM where it multiplies in tensor memory takes scales packed four to a word: the host packs A's, and
#: spreads (three kernels) and packs B's, in each call. [1] By definition of deepseek-ai/DeepGEMM,
#: ``csrc/utils/layout.hpp`` and ``csrc/apis/layout.hpp``.
_PACKING_KERNELS = 4.0
_PACKED = {
    f"vllm/deepgemm/{TENSOR_MEMORY}": _issued(VLLM_KERNELS + _PACKING_KERNELS),
    f"sglang/deepgemm/{TENSOR_MEMORY}": {"launch_us": (1.0, _PACKING_KERNELS * NEXT_US)},
}
#: What vLLM's products with scales by blocks are called that have no such table. [1] By definition of
#: vllm-project/vllm, vllm/model_executor/kernels/linear/scaled_mm.
_NO_TABLE = ("deepgemm", "triton", "flashinfer")
#: TensorRT-LLM's products with scales by blocks where instructions of warps take these: TMA fills their
#: steps, and no sums are scaled on the FP32 pipe, as they are in the kernels of Ada. What was measured
#: gives neither the rate nor a step: the priors hold. Those of vLLM scale their sums here, too, in tiles by a
#: table. [units of law.toml] By definition of NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/cutlass_kernels/
#: fp8_blockscale_gemm (sm120_blockwise_gemm/sm120_utils.cuh, ada_blockwise_gemm), and of vllm-project/vllm,
#: scaled_mm_blockwise_sm120_fp8_dispatch.cuh.
_IN_WARPS = {
    f"trtllm/{SCALED_WARPS}": {
        name: (0.0, _QUANTIZED[name].value) for name in ("tensor_efficiency", "k_step_cycles")
    },
    f"vllm/{SCALED_WARPS}": {"tile_table": (0.0, float(VLLM_BLOCKS))},
    **{f"vllm/{other}/{SCALED_WARPS}": {"tile_table": (0.0, float(BY_TIME))} for other in _NO_TABLE},
}
#: Narrowest tile of cuBLAS for matrix instructions of warps, whatever the library that calls it. What was
#: measured on GA100 fits wider ones as well: beside its memory nothing shows what pads a tile. [elements] By
#: the names of its kernels (``cublas-names`` of references.toml).
_CUBLAS_LEAST_TILE = 16.0
_IN_CUBLAS = {f"/{WARPS}": {"least_tile": (0.0, _CUBLAS_LEAST_TILE)}}
GEMM = Law(
    "gemm", _gemm, _GEMM, habits=_HABITS, pin=_pinned, elsewhere=_IN_CUBLAS,
    by_vendor=_ON_CDNA4,
)  # fmt: skip
GEMM_OLDER = Law("gemm_older", _older, _GEMM, parent="gemm", other_kernels=True)
GEMM_FP8 = Law(
    "gemm_fp8", _gemm, {**_QUANTIZED, **_DATA["dispatched"]}, by_vendor=_ON_CDNA4, pin=_pinned,
    library_host={"vllm": {"tile_table": (0.0, VLLM)}, "sglang": {"tile_table": (0.0, SGLANG)}},
)  # fmt: skip
GEMM_FP8_BLOCK = Law(
    "gemm_fp8_block",
    _blocks,
    {**_QUANTIZED, **_DATA["dispatched_blocks"]},
    by_vendor=_ON,
    pin=_pinned,
    library_host=_BLOCK_HOST,
    elsewhere={**_PACKED, **_IN_WARPS},
)
GEMM_FP4 = Law("gemm_fp4", _fp4, {**_QUANTIZED, **_DATA["fp4"]}, by_vendor=_ON_CDNA4, pin=_pinned)
GEMM_WEIGHT_ONLY = Law(
    "gemm_weight_only", _gemm, _WEIGHT_ONLY, parent="gemm", spread=(-0.7, 0.7), pin=_pinned
)
LAWS = (GEMM, GEMM_FP8, GEMM_FP8_BLOCK, GEMM_FP4, GEMM_OLDER, GEMM_WEIGHT_ONLY)

#: Laws of matrix products: on tensor cores, on the FP32 pipe, formats with scales, kernels made for an older
#: architecture, and formats whose weights are converted on the way to the tensor cores.
PRODUCT_LAWS = (
    *("gemm", "gemm_vector", "gemm_fp8", "gemm_fp8_block", "gemm_fp4", "gemm_older"),
    "gemm_weight_only",
)
_OLDER, _CONVERTED = PRODUCT_LAWS.index("gemm_older"), PRODUCT_LAWS.index("gemm_weight_only")
#: Formats of the laws after the first two.
_SCALED = (("fp8", "int8", "sq", "mxfp8"), ("fp8_block",), ("nvfp4", "mxfp4", "w4a8_mxfp4_mxfp8"))


def product_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place in :data:`PRODUCT_LAWS` of each row's law, by format and kernel. Shape (n,)."""
    words = rows.text("dtype", "fp32")
    chosen = np.where(on_tensor(words, gpu), 0, 1)
    for place, formats in enumerate(_SCALED, start=2):
        scaled = np.any([words == word for word in formats], axis=0)
        chosen = np.where(scaled & (chosen == 0), place, chosen)
    chosen = np.where((chosen != 1) & dequantized(words, gpu), _CONVERTED, chosen)
    chosen = np.where((chosen == 0) & older_kernels(rows, gpu), _OLDER, chosen)
    return chosen.astype(np.int64)
