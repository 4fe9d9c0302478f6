"""What kernels of softmax and norms read and write, by their names, and what follows for their time."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.kernels.row_kernels import ROW_KERNELS, row_kernels
from tracetool.model.timing import time_rows


def _stated(name: str, family: str = "norm", dtype: str = "fp32") -> dict[str, float | None]:
    frame = pl.DataFrame({"name": [name], "family": [family], "dtype": [dtype]})
    return row_kernels(frame).row(0, named=True)


@pytest.mark.parametrize(
    ("name", "family", "again"),
    [
        ("void softmax_warp_forward<float, float, float, 10, false>", "softmax", 0.0),
        ("void at::native::cunn_SoftMaxForwardSmem<4, float, float, float>", "softmax", 0.0),
        ("void at::native::cunn_SoftMaxForward<4, float, float, float>", "softmax", 2.0),
        ("void at::native::cunn_SpatialSoftMaxForward<float, float>", "softmax", 2.0),
        ("void at::native::cunn_SoftMaxBackward<4, float, float, float>", "softmax", 0.5),
        ("void at::native::batch_norm_backward_kernel<float, float, float, int>", "norm", 1.0),
        ("void at::native::batch_norm_backward_reduce_kernel<float, float, float, int>", "norm", 0.0),
        ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>", "norm", None),
    ],
)  # fmt: skip
def test_a_name_tells_how_often_rows_are_read_again(name: str, family: str, again: float | None) -> None:
    assert _stated(name, family)["reads_again"] == again


def test_names_of_other_families_state_nothing() -> None:
    assert _stated("batch_norm_backward_kernel", "elementwise")["row_reads"] is None


def test_wide_loads_are_fewer_where_elements_are_smaller() -> None:
    name = "void at::native::cunn_SoftMaxForward<8, c10::Half, float, c10::Half>"
    single, half = (_stated(name, "softmax", dtype)["row_loads"] for dtype in ("fp32", "fp16"))
    assert single == 2 * half == pytest.approx(3 / 4)


def test_every_expression_reaches_its_own_entry() -> None:
    names = [kernel.name.split("|")[0] for kernel in ROW_KERNELS]
    assert len(set(names)) == len(names)
    assert all(kernel.again >= 0 or np.isnan(kernel.again) for kernel in ROW_KERNELS)


def _seconds(name: str, family: str, gpu: str, *, direction: str = "fwd", **sizes: float) -> float:
    stated = {k: v for k, v in _stated(name, family).items() if isinstance(v, float)}
    numbers = {**stated, **sizes}
    if "row_reads" in stated:
        numbers |= {"reads": stated["row_reads"], "writes": stated["row_writes"]}
    texts = {"dtype": "fp32", "shape_source": "operator", "access_pattern": "other", "direction": direction}
    rows = OperatorColumns(
        np.array([family], dtype=object),
        {k: np.array([v]) for k, v in numbers.items()}
        | {k: np.array([v], dtype=object) for k, v in texts.items()},
    )
    sheet = load_gpu(gpu)
    return float(time_rows(rows, sheet, np.array([sheet.clock_boost_mhz])).duration_s[0, 0])


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm", "mi300x"])
def test_rows_that_shared_memory_does_not_hold_are_read_three_times(gpu: str) -> None:
    sizes = {"rows": 8192.0, "cols": 50257.0, "blocks": 8192.0, "threads": 1024.0}
    once, thrice = (
        _seconds(f"cunn_SoftMaxForward{kind}<4>", "softmax", gpu, **sizes) for kind in ("Smem", "")
    )
    assert 1.7 < thrice / once < 2.2  # four passes over memory for two
    few = {**sizes, "rows": 4.0, "blocks": 4.0}
    once, thrice = (_seconds(f"cunn_SoftMaxForward{kind}<4>", "softmax", gpu, **few) for kind in ("Smem", ""))
    assert thrice > 1.5 * once  # where the latency of one block sets the time


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm", "mi300x"])
def test_a_block_a_channel_works_through_its_plane_twice(gpu: str) -> None:
    sizes = {"rows": 64.0, "cols": 256.0 * 56 * 56, "blocks": 64.0, "threads": 512.0}
    back = _seconds("batch_norm_backward_kernel<float>", "norm", gpu, direction="bwd", **sizes)
    passes = 5 * sizes["rows"] * sizes["cols"] * 4.0
    assert back > 2.0 * passes / load_gpu(gpu).dram_bytes_per_s  # far from what memory allows
    elementwise = _seconds(
        "batch_norm_backward_elemt_kernel", "norm", gpu, direction="bwd", **{**sizes, "blocks": 2e4}
    )
    assert back > 3.0 * elementwise


def test_kernels_that_work_on_one_number_a_channel_take_a_launch() -> None:
    sizes = {"rows": 64.0, "cols": 1e6, "blocks": 1.0, "threads": 256.0}
    assert _seconds("batch_norm_reduce_statistics_kernel", "norm", "a100-sxm", **sizes) < 2e-5
