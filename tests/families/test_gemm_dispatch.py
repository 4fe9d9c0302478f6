"""Tiles by a library's table, the kernel that quantizes A, and stores behind tensor memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.gemm.dispatch import BY_TIME, SGLANG, VLLM, VLLM_BLOCKS, dispatched
from tracetool.families.gemm.law import GEMM_FP8, GEMM_FP8_BLOCK, VLLM_KERNELS
from tracetool.families.gemm.layout import TileRates
from tracetool.families.gemm.problem import gemm_products
from tracetool.families.gemm.tile_cost import cost
from tracetool.families.law import KERNEL_US
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.eligible_implementations import members
from tracetool.model.unmeasured_libraries import host_of
from tracetool.replay.operator_tables import read_table

L40S, H100, B200 = (load_gpu(name) for name in ("l40s", "h100-sxm", "b200-sxm"))
RTX = load_gpu("rtx-pro-6000-bw-server")


def _rows(*sizes: tuple[int, int, int], dtype: str = "fp8") -> OperatorColumns:
    rows = [{"op": "gemm", "dtype": dtype, "m": m, "n": n, "k": k} for m, n, k in sizes]
    return read_table(pl.DataFrame(rows)).rows


@pytest.mark.parametrize(
    ("gpu", "table", "size", "tile"),
    [
        (H100, VLLM, (16, 4096, 4096), (16, 64)),
        (H100, VLLM, (17, 1280, 4096), (16, 64)),
        (H100, VLLM, (17, 1281, 4096), (64, 64)),
        (H100, VLLM, (129, 1281, 4096), (128, 128)),
        (H100, SGLANG, (256, 4096, 4096), (64, 64)),
        (H100, SGLANG, (257, 4096, 4096), (128, 128)),
        (L40S, VLLM, (4096, 8192, 4096), (256, 128)),
        (L40S, SGLANG, (64, 16385, 4096), (16, 64)),
        (B200, VLLM, (200, 4096, 4096), (64, 128)),
        (B200, SGLANG, (300, 4096, 4096), (128, 128)),
        (RTX, VLLM, (16, 65536, 4096), (16, 64)),
        (RTX, VLLM, (33, 4096, 4096), (64, 64)),
        (RTX, VLLM, (257, 4096, 4096), (128, 128)),
        (RTX, SGLANG, (1, 4096, 4096), (128, 128)),
        (RTX, VLLM_BLOCKS, (64, 4096, 4096), (32, 128)),
        (RTX, VLLM_BLOCKS, (256, 4096, 4096), (64, 128)),
        (RTX, VLLM_BLOCKS, (4096, 4096, 4096), (128, 128)),
        (RTX, VLLM_BLOCKS, (4094, 4096, 4096), (32, 128)),
    ],
)
def test_a_library_takes_the_tile_its_table_states(
    gpu: object, table: int, size: tuple[int, int, int], tile: tuple[int, int]
) -> None:
    products = dispatched(gemm_products(_rows(size), gpu), gpu, table)  # type: ignore[arg-type]
    assert (products.tile_m[0], products.tile_n[0], products.split[0]) == (*tile, 1.0)


def test_what_a_trace_states_comes_before_a_table() -> None:
    untold = gemm_products(_rows((4096, 4096, 4096)), H100)
    stated = replace(untold, tile_m=np.array([256.0]), tile_n=np.array([64.0]), split=np.array([2.0]))
    products = dispatched(stated, H100, VLLM)
    assert (products.tile_m[0], products.tile_n[0], products.split[0]) == (256, 64, 2)
    assert dispatched(untold, H100, BY_TIME) is untold


def test_every_table_covers_every_product() -> None:
    sizes = [(m, n, 512) for m in (1, 16, 17, 100, 200, 5000) for n in (64, 9000, 70000)]
    for gpu in (L40S, H100, B200, RTX):
        for table in (VLLM, SGLANG, *([VLLM_BLOCKS] if gpu is RTX else [])):
            products = dispatched(gemm_products(_rows(*sizes), gpu), gpu, table)
            assert np.isfinite(products.tile_m * products.tile_n).all()


def test_source_tells_each_library_its_table() -> None:
    told = {name: host_of(GEMM_FP8, name, "", "hopper")["tile_table"] for name in ("vllm", "sglang")}
    assert told == {"vllm": (0.0, VLLM), "sglang": (0.0, SGLANG)}
    assert "tile_table" not in host_of(GEMM_FP8, "trtllm", "", "hopper")


def test_source_tells_products_by_blocks_where_warps_take_scales() -> None:
    """vLLM's have a table there alone; TensorRT-LLM's no longer scale sums, whatever Ada's took."""
    places = ("ada", "hopper", "blackwell", "blackwell-gb20x")
    name = "cutlassfp8blockscaledmmkernel"
    told = [
        host_of(GEMM_FP8_BLOCK, "vllm", name, place, elsewhere=True).get("tile_table") for place in places
    ]
    assert told == [None, None, None, (0.0, VLLM_BLOCKS)]
    for other in ("deepgemm_x", "triton_x"):
        by_time = host_of(GEMM_FP8_BLOCK, "vllm", other, "blackwell-gb20x", elsewhere=True)
        assert by_time["tile_table"] == (0.0, BY_TIME)
    assert "tile_table" not in host_of(GEMM_FP8_BLOCK, "vllm", name, "blackwell-gb20x")  # a fit is free of it
    priors = GEMM_FP8_BLOCK.priors
    for gpu, is_told in ((L40S, False), (RTX, True)):
        [one] = members(GEMM_FP8_BLOCK, gpu, "trtllm 1.3.0rc20", "torch_flow")
        for key in ("tensor_efficiency", "k_step_cycles"):
            assert (one.coefficients[key] == priors[key].value) == is_told


def test_quantizing_keeps_step_with_the_core_until_a_overflows_l2() -> None:
    rows = _rows((1024, 64, 4096), (65536, 64, 8192))
    few, many = ({"quantize_ops": ops} for ops in (10.0, 20.0))
    before, after = (GEMM_FP8.pieces(rows, H100, c) for c in (few, many))
    elements = np.array([1024 * 4096, 65536 * 8192])
    added = after.serial_cycles - before.serial_cycles
    assert added == pytest.approx(elements * 10.0 / (H100.rate("fp32") * H100.sm_count), rel=1e-12)
    # 4 M elements of 3 B stay in 50 MB of L2, 537 M do not
    assert before.stream_s == pytest.approx(
        elements * 3.0 * [0, 1] / H100.dram_bytes_per_s, rel=1e-3, abs=1e-7
    )
    four = laws()["gemm_fp4"].pieces(_rows((65536, 64, 8192), dtype="nvfp4"), B200, few)
    assert four.stream_s == 0.0


def test_tensor_memory_stores_a_tile_while_the_next_is_multiplied() -> None:
    rates = TileRates.of({"store_efficiency": 0.2, "drained": 0.0})
    quick = TileRates.of({"store_efficiency": 10.0, "drained": 0.0})
    serial = {}
    for gpu in (H100, B200):
        p = gemm_products(_rows((16384, 16384, 4096)), gpu)
        tiles = np.array([128.0 * 128.0])
        found = [cost(p, gpu, r, (128.0, 128.0), tiles, np.zeros(1), np.ones(1)) for r in (rates, quick)]
        serial[gpu.name] = (found[0]["serial_cycles"] - found[1]["serial_cycles"])[0]
    one = 128 * 128 * 2 / (B200.l2_port_bytes_per_clock_sm * 0.2) * (1 - 0.2 / 10.0)
    assert serial["b200-sxm"] == pytest.approx(one)
    assert serial["h100-sxm"] == pytest.approx(one * np.ceil(tiles[0] / H100.sm_count))


def test_packing_scales_is_told_where_tensor_memory_needs_it() -> None:
    told = host_of(GEMM_FP8_BLOCK, "vllm", "deepgemm_x", "blackwell", elsewhere=True)
    assert told["floor_us"] == (0.0, (VLLM_KERNELS + 4.0) * KERNEL_US)
    assert host_of(GEMM_FP8_BLOCK, "vllm", "other", "blackwell", elsewhere=True)["floor_us"] == (
        0.0, VLLM_KERNELS * KERNEL_US,
    )  # fmt: skip
    assert host_of(GEMM_FP8_BLOCK, "vllm", "deepgemm_x", "hopper", elsewhere=True)["floor_us"] == (
        0.0, VLLM_KERNELS * KERNEL_US,
    )  # fmt: skip
    factor, more = host_of(GEMM_FP8_BLOCK, "sglang", "deepgemm_x", "blackwell", elsewhere=True)["launch_us"]
    assert (factor, more > 0.0) == (1.0, True)
