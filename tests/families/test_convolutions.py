"""Convolutions as products: three ways that multiply as often, and algorithms that multiply less."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.conv.problem import conv_products
from tracetool.families.gemm.tiling import Products
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows

GPU = load_gpu("v100-sxm2-16gb")
LAYER = {
    "batch": 32.0, "channels": 128.0, "height": 28.0, "width": 28.0, "filters": 256.0,
    "kernel_h": 3.0, "kernel_w": 3.0, "stride": 1.0, "padding": 1.0,
}  # fmt: skip


def _rows(texts: dict[str, str] | None = None, **numbers: float) -> OperatorColumns:
    columns: dict[str, Floats] = {k: np.array([v]) for k, v in {**LAYER, **numbers}.items()}
    words = {k: np.array([v], dtype=object) for k, v in {"dtype": "fp32", **(texts or {})}.items()}
    return OperatorColumns(np.array(["conv"], dtype=object), {**columns, **words})


def _products(texts: dict[str, str] | None = None, **numbers: float) -> Products:
    return conv_products(_rows(texts, **numbers), GPU)


def _multiplied(p: Products) -> float:
    return float(p.batch[0] * p.m[0] * p.n[0] * p.k[0])


@pytest.mark.parametrize("stride", [1.0, 2.0])
@pytest.mark.parametrize("groups", [1.0, 4.0])
def test_both_gradients_multiply_as_often_as_the_way_forward(stride: float, groups: float) -> None:
    ways = [
        _products({"direction": way}, stride=stride, groups=groups)
        for way in ("fwd", "bwd_data", "bwd_weight")
    ]
    assert _multiplied(ways[1]) == pytest.approx(_multiplied(ways[0]))
    assert _multiplied(ways[2]) == pytest.approx(_multiplied(ways[0]))
    assert ways[1].m[0] == 32 * 28 * 28  # every pixel of the data
    assert ways[2].m[0] * ways[2].n[0] * groups == 256 * 128 * 9 / groups  # every weight


def test_windows_apart_lie_beside_one_another() -> None:
    apart = _products({"direction": "bwd_data"}, kernel_h=2.0, kernel_w=2.0, stride=2.0, padding=0.0)
    assert (apart.m[0], apart.n[0], apart.k[0]) == (32 * 14 * 14, 128 * 4, 256)


def test_a_sequence_is_padded_along_its_length_alone() -> None:
    found = _products(height=1.0, kernel_h=1.0, width=1000.0, kernel_w=3.0, padding=1.0)
    assert found.m[0] == 32 * 1000


def test_winograd_multiplies_less() -> None:
    plain = _multiplied(_products())
    fused = _multiplied(_products({"algo": "winograd"}))
    assert plain / fused == pytest.approx(36.0 / 16.0)  # two by two results of a window of three
    # whole patches only: 28 = 7 x 4 wastes none, 30 wastes two of 32
    apart = _products(grid_z=36.0)
    assert apart.batch[0] == 36
    assert plain / _multiplied(apart) == pytest.approx(4.0)
    wasted = _multiplied(_products(height=30.0, width=30.0)) / _multiplied(
        _products(height=30.0, width=30.0, grid_z=36.0)
    )
    assert wasted == pytest.approx(4.0 * (30.0 / 32.0) ** 2)
    assert _multiplied(_products(batch=36.0, grid_z=36.0)) == _multiplied(_products(batch=36.0))  # by image


def test_few_channels_leave_a_step_of_a_matrix_unit_half_empty() -> None:
    def rate(channels: float, tile_k: float = 32.0) -> float:
        return float(_products({"dtype": "fp16"}, channels=channels, tile_k=tile_k).rate[0])

    assert rate(8.0) == rate(64.0) / 4.0
    assert rate(64.0) == rate(64.0, np.nan)  # no name, no step
    plain = _products(channels=3.0, tile_k=8.0)
    assert plain.rate[0] == GPU.rate("fp32")  # FP32 pipe take channels and places of the window alike


def test_a_step_that_is_not_known_changes_nothing() -> None:
    half = {"dtype": "fp16"}
    assert _products(half, tile_k=0.0).rate == _products(half).rate


def test_a_window_of_one_has_no_winograd() -> None:
    plain = _products(kernel_h=1.0, kernel_w=1.0, padding=0.0)
    named = _products({"algo": "winograd"}, kernel_h=1.0, kernel_w=1.0, padding=0.0, grid_z=16.0)
    assert _multiplied(plain) == _multiplied(named)


def test_kernels_a_compiler_made_take_longer_than_those_written_by_hand() -> None:
    def seconds(**texts: str) -> float:
        return float(time_rows(_rows(texts), GPU, np.array([1380.0])).duration_s[0, 0])

    assert seconds(library="cudnn") > 1.3 * seconds()


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("algo", ["implicit_gemm", "winograd"])
def test_useful_work_never_beats_the_peak(dtype: str, algo: str) -> None:
    for way in ("fwd", "bwd_data", "bwd_weight"):
        found = time_rows(_rows({"dtype": dtype, "direction": way, "algo": algo}), GPU, np.array([1380.0]))
        pipe = "fp32" if dtype == "fp32" else "tensor_fp16"
        rate = found.work.useful_flops[0] / found.duration_s[0, 0]
        assert rate <= GPU.peak_flops(pipe, 1380.0)
        for busy in found.busy_s.values():
            assert 0.0 <= busy[0, 0] <= found.duration_s[0, 0]


def test_products_between_winograds_transforms_read_what_is_transformed() -> None:
    """7 by 7 patches of 32 images, and 256 filters, of 128 channels with 36 numbers each."""
    apart = _products(grid_z=36.0)
    assert (apart.m[0], apart.n[0], apart.k[0]) == (32 * 49, 256, 128)
    assert apart.input_bytes[0] == 36 * (32 * 49 + 256) * 128 * 4


@pytest.mark.parametrize(("way", "read"), [
    ("fwd", 32 * 128 * 28 * 28 + 256 * 128 * 9), ("bwd_data", 32 * 256 * 28 * 28 + 256 * 128 * 9),
    ("bwd_weight", 32 * (128 + 256) * 28 * 28),
])  # fmt: skip
def test_images_and_weights_are_read_once_at_their_size(way: str, read: int) -> None:
    assert float(_products({"direction": way}).input_bytes[0]) == 4.0 * read


def _over_bytes(gpu: str, dtype: str) -> float:
    """Return the time of a depthwise convolution over that of its bytes. [1]"""
    card = load_gpu(gpu)
    rows = _rows({"dtype": dtype}, batch=512.0, channels=256.0, filters=256.0, groups=256.0)
    moved = 2.0 * 512 * 256 * 28 * 28 * (2.0 if dtype in {"bf16", "fp16"} else 4.0)
    seconds = time_rows(rows, card, np.array([card.clock_boost_mhz])).duration_s[0, 0]
    return float(seconds * card.dram_bytes_per_s / moved)


@pytest.mark.parametrize("gpu", ["h100-sxm", "b200-sxm", "l4", "rtx-4090", "a100-sxm", "mi300x"])
def test_a_depthwise_convolution_of_a_library_is_bound_by_memory(gpu: str) -> None:
    """On tensor cores it took the tiles of products: 9 times what its bytes need on an H100, 27 on an L4."""
    assert 1.0 < _over_bytes(gpu, "fp16") < 2.3


def test_pytorchs_own_depthwise_kernel_computes_the_places_of_elements() -> None:
    """129 integer operations a result of 3 by 3 elements, 64 a clock and SM: 0.8 ms on an H100."""
    h100 = load_gpu("h100-sxm")
    results = 512.0 * 256 * 28 * 28
    computed = results * (75 + 6 * 9) / (h100.rate("int") * h100.sm_count * h100.clock_boost_mhz * 1e6)
    needed = 2.0 * 2.0 * results / h100.dram_bytes_per_s
    assert _over_bytes("h100-sxm", "bf16") == pytest.approx(computed / needed, rel=0.1)
    assert _over_bytes("h100-sxm", "fp32") == pytest.approx(_over_bytes("h100-sxm", "bf16") / 2.0, rel=0.05)
    assert _over_bytes("l4", "bf16") < 2.0, "little memory bandwidth: memory is the longer"


@pytest.mark.parametrize("dtype", ["int8", "fp8"])
def test_formats_that_pytorchs_depthwise_kernel_does_not_take_are_a_librarys(dtype: str) -> None:
    """In 8 bits they took as long as in BF16, 0.8 ms, for half of the image's bytes."""
    assert _over_bytes("h100-sxm", dtype) < 0.5 * _over_bytes("h100-sxm", "fp32")


@pytest.mark.parametrize("gpu", ["v100-sxm2-16gb", "a100-sxm", "p100-pcie"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_one_filter_takes_about_as_long_as_two(gpu: str, dtype: str) -> None:
    """It was priced as a matrix times a vector, up to 20 times as fast as two filters."""
    card = load_gpu(gpu)
    seconds = [
        time_rows(_rows({"dtype": dtype}, filters=f), card, np.array([card.clock_boost_mhz])).duration_s[0, 0]
        for f in (1.0, 2.0)
    ]
    assert 0.8 < seconds[0] / seconds[1] <= 1.0
