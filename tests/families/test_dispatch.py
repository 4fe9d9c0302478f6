"""Rows that state a library and no implementation: the kernel its public source runs them with."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.implementations import priced
from tracetool.model.library_dispatch import dispatched
from tracetool.model.time_files import time_calibration_of
from tracetool.replay.operator_tables import read_table

H100 = load_gpu("h100-sxm")
TRITON, CUTLASS = "triton", "flashinfer_cutlass"


def _experts(stack: str = "vllm 0.24.0", dtype: str = "fp8_block", **more: str) -> OperatorColumns:
    numbers = {"tokens": 64.0, "hidden": 4096.0, "intermediate": 2048.0, "top_k": 8.0, "experts": 256.0}
    columns = {k: np.full(3, v) for k, v in numbers.items()} | {"ep": np.array([1.0, 8.0, np.nan])}
    words = {k: np.full(3, v, dtype=object) for k, v in {"stack": stack, "dtype": dtype, **more}.items()}
    return OperatorColumns(np.full(3, "moe", dtype=object), {**columns, **words})


@pytest.mark.parametrize(
    ("stack", "gpu", "told"),
    [
        ("vllm 0.24.0", "h100-sxm", {TRITON: [0, 2], CUTLASS: [1]}),
        ("vllm", "h200-sxm", {TRITON: [0, 2], CUTLASS: [1]}),
        ("vllm 0.22.0", "h100-sxm", {"": [0, 1, 2]}),
        ("vllm 0.24.0", "b200-sxm", {"": [0, 1, 2]}),
        ("vllm 0.24.0", "rtx-pro-6000-bw-server", {TRITON: [0, 1, 2]}),
        ("sglang 0.5.14", "h100-sxm", {"": [0, 1, 2]}),
    ],
)
def test_experts_by_blocks_go_by_how_they_are_divided(
    stack: str, gpu: str, told: dict[str, list[int]]
) -> None:
    found = dispatched(laws()["moe_fp8_block"], _experts(stack), load_gpu(gpu), stack)
    assert {kernel: places.tolist() for kernel, places in found} == told


@pytest.mark.parametrize(("law", "dtype"), [("moe", "bf16"), ("moe_fp8", "fp8"), ("moe_fp4", "nvfp4")])
def test_experts_of_warps_are_cutlass_s(law: str, dtype: str) -> None:
    rtx = load_gpu("rtx-pro-6000-bw-server")
    for stack, kernel in (("vllm 0.24.0", CUTLASS), ("vllm 0.22.0", "")):
        [(told, places)] = dispatched(laws()[law], _experts(stack, dtype), rtx, stack)
        assert (told, places.tolist()) == (kernel, [0, 1, 2])


def test_weights_of_four_bits_are_marlins() -> None:
    rows = _experts(dtype="int4_wo")
    [(kernel, places)] = dispatched(laws()["moe_weight_only"], rows, H100, "vllm 0.24.0")
    assert kernel == "marlin"
    assert places.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("stack", "gpu", "told"),
    [
        ("vllm 0.24.0", "h100-sxm", ["flashinfer", "flashinfer", "deepgemm", "cutlass", "cutlass"]),
        ("vllm 0.22.0", "h200-sxm", ["flashinfer", "flashinfer", "deepgemm", "cutlass", "cutlass"]),
        ("vllm 0.24.0", "b200-sxm", ["deepgemm", "deepgemm", "deepgemm", "cutlass", "cutlass"]),
        ("vllm 0.24.0", "l40s", [""] * 5),
        ("vllm 0.22.0", "rtx-pro-6000-bw-server", ["cutlass"] * 5),
        ("sglang 0.5.14", "h100-sxm", [""] * 5),
    ],
)
def test_products_by_blocks_go_by_rows_and_whole_tiles(stack: str, gpu: str, told: list[str]) -> None:
    sizes = [(16, 4096, 4096), (31, 4096, 7168), (32, 4096, 4096), (64, 4100, 4096), (8, 4096, 4160)]
    frame = [{"op": "gemm", "dtype": "fp8_block", "m": m, "n": n, "k": k} for m, n, k in sizes]
    found = [""] * 5
    rows = read_table(pl.DataFrame(frame)).rows
    for kernel, places in dispatched(laws()["gemm_fp8_block"], rows, load_gpu(gpu), stack):
        for place in places:
            found[place] = kernel.removesuffix("fp8blockscaledmmkernel")
    assert found == told


def test_dispatched_rows_take_one_kernel_and_named_rows_their_own() -> None:
    law, calibration = laws()["moe_fp8_block"], time_calibration_of(H100)
    parts = {tuple(one.places.tolist()): one.basis for one in priced(law, _experts(), H100, calibration)}
    assert parts == {(0, 2): "calibrated: vllm-triton", (1,): "calibrated: vllm-flashinfer-cutlass"}
    named = _experts(implementation="vllm_fp8moe_triton_tritonexperts")
    assert {one.basis for one in priced(law, named, H100, calibration)} == {"calibrated: vllm-triton"}
