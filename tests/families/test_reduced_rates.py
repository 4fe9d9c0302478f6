"""Tensor cores whose maker leaves a GPU a part of their rate: GeForce cards, H20, L20, L40, A10G."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.families.formats import full_rate_share, sustained_share
from tracetool.hardware.load import load_gpu

#: TFLOP/s of the fastest square BF16 product of PyTorch up to 10240, medians of one to five cards of people
#: who ran the same script (zzc0721/torch-performance-test-data).
MEASURED = {
    "rtx-3090": 76.5, "rtx-3080-ti": 77.4, "rtx-3060-ti": 36.5, "rtx-4090": 165.7, "rtx-4090-d": 150.0,
    "rtx-4070-super": 74.9, "rtx-4070-ti-super": 91.1, "rtx-5060": 40.1, "rtx-5060-ti": 48.2,
    "rtx-5080": 102.9, "h20": 142.1,
}  # fmt: skip
SIZES = (1024, 2048, 4096, 8192, 10240)


def share(gpu: str, *words: str) -> list[float]:
    return full_rate_share(np.array(words, dtype=object), load_gpu(gpu)).tolist()


def test_what_makers_left_is_told_by_format() -> None:
    assert share("rtx-4090", "bf16", "tf32", "fp8", "int8", "fp32") == [0.5, 0.5, 0.5, 1.0, 1.0]
    assert share("h20", "bf16", "fp8") == [0.25, 0.25]
    assert share("rtx-3090", "fp8") == [0.5]  # converted to 16 bits
    for full in ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "rtx-a6000", "mi300x"):
        assert share(full, "bf16", "fp8", "int8", "fp64", "nvfp4") == [1.0] * 5


def test_an_rtx_5090_runs_as_fast_as_its_published_products_need() -> None:
    """Four owners publish 221 to 242 TFLOP/s: at 2550 MHz all tensor cores reach 222."""
    gpu = load_gpu("rtx-5090")
    assert gpu.peak_flops("tensor_bf16", gpu.clock_boost_mhz) > 238e12
    assert gpu.peak_flops("tensor_bf16", gpu.numbers["clock_boost_mhz"].low) > 221e12


def test_at_the_full_rate_nothing_changes() -> None:
    reached = np.array([0.3, 0.8, 1.0])
    assert (sustained_share(reached, np.ones(3)) == reached).all()


def test_lost_clocks_stay_those_of_the_full_rate() -> None:
    reached, left = 0.65, np.array([1.0, 0.5, 0.25])
    clocks = 1.0 / (left * sustained_share(reached, left))  # of a product that takes one at the full rate
    assert clocks - 1.0 / left == pytest.approx([1.0 / reached - 1.0] * 3)


@pytest.mark.parametrize("gpu", MEASURED)
def test_products_of_reduced_cards_are_as_measured(gpu: str) -> None:
    """With the share of full-rate GPUs they came out 10 to 25 % too slow."""
    rows = pl.DataFrame([{"op": "gemm", "dtype": "bf16", "m": s, "n": s, "k": s} for s in SIZES])
    frame = tt.predict(rows, gpu=gpu, stack="torch").frame
    fastest = (2.0 * frame["m"].cast(float) ** 3 / frame["duration_us"]).max() * 1e-6
    assert MEASURED[gpu] / fastest == pytest.approx(1.0, abs=0.13)


#: TFLOP/s of BF16 products on an MI355X, by rows, columns and K (mi355x-products of references.toml).
MI355X_TFLOPS = {(65536, 4096, 7168): 1534.0, (65536, 7168, 2048): 1268.0}


@pytest.mark.parametrize("shape", MI355X_TFLOPS)
def test_matrix_cores_of_twice_the_rate_are_fed_as_published(shape: tuple[int, int, int]) -> None:
    """What a compute unit of an MI300X draws held them to 0.29 of their peak, half of the published."""
    m, n, k = shape
    rows = pl.DataFrame([{"op": "gemm", "dtype": "bf16", "m": m, "n": n, "k": k}])
    us = tt.predict(rows, gpu="mi355x").frame["duration_us"][0]
    assert 2e-6 * m * n * k / us == pytest.approx(MI355X_TFLOPS[shape], rel=0.1)


#: TFLOP/s of squares of 8192 that are published of an MI355X, without the kernel that quantizes A, by format
#: (mi355x-narrow-products of references.toml): lowest and highest.
MI355X_NARROW = {"fp8": (2336.0, 2900.0), "mxfp8": (2336.0, 2900.0), "mxfp4": (4000.0, 5775.0)}


@pytest.mark.parametrize("dtype", MI355X_NARROW)
def test_narrow_formats_of_matrix_cores_of_twice_the_rate_are_fed_as_published(dtype: str) -> None:
    """FP8 had an MI300X's share of the rate: 1340 TFLOP/s, fewer than BF16 reaches."""
    square = {"op": "gemm", "m": 8192, "n": 8192, "k": 8192}
    rows = pl.DataFrame([{**square, "dtype": d} for d in (dtype, "bf16")])
    us, wide_us = tt.predict(rows, gpu="mi355x").frame["duration_us"]
    low, high = MI355X_NARROW[dtype]
    assert 0.95 * low < 2e-6 * 8192**3 / us < high
    assert us < wide_us


@pytest.mark.parametrize("gpu", ["mi300x", "mi325x", "mi355x"])
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_experts_are_no_faster_than_products_of_their_size(gpu: str, dtype: str) -> None:
    """They had the shares of an H200's matrix cores, 1.2 to 1.5 times those of products on the same GPU."""
    tokens, hidden, inner = 65536, 4096, 14336
    experts = {"tokens": tokens, "hidden": hidden, "intermediate": inner, "top_k": 2, "experts": 8}
    product = {"m": tokens * 2, "n": 2 * inner, "k": hidden}
    rows = pl.DataFrame([{"op": "moe", "dtype": dtype, **experts}, {"op": "gemm", "dtype": dtype, **product}])
    moe_us, product_us = tt.predict(rows, gpu=gpu).frame["duration_us"]
    moe_rate = 6.0 * tokens * 2 * hidden * inner / moe_us
    assert moe_rate < 1.03 * 2.0 * product["m"] * product["n"] * product["k"] / product_us
