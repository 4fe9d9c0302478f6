"""Formats that a GPU has no units for."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.families.formats import on_tensor, product_rate
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number

WEIGHTS_ONLY = ["int4_wo", "int8_wo", "w4a16_mxfp4"]


def microseconds(gpu: str, *formats: str) -> list[float]:
    rows = pl.DataFrame([{"op": "gemm", "dtype": f, "m": 8192, "n": 8192, "k": 8192} for f in formats])
    return tt.predict(rows, gpu=gpu, stack="vllm").frame["duration_us"].to_list()


@pytest.mark.parametrize("gpu", ["t4", "v100-sxm2-32gb", "rtx-2080-ti", "quadro-rtx-8000", "titan-v"])
def test_weights_of_few_bits_meet_fp16_where_no_unit_takes_bf16(gpu: str) -> None:
    """They were multiplied on the FP32 pipe, 7 times as slow as FP16."""
    words, target = np.array(WEIGHTS_ONLY, dtype=object), load_gpu(gpu)
    assert on_tensor(words, target).all()
    assert (product_rate(words, target) == target.rate("tensor_fp16")).all()
    full, *few = microseconds(gpu, "fp16", *WEIGHTS_ONLY)
    assert max(few) < 1.3 * full


@pytest.mark.parametrize("gpu", ["a100-sxm", "h100-sxm", "mi100", "rtx-3090"])
def test_where_units_take_bf16_they_meet_that(gpu: str) -> None:
    target = load_gpu(gpu)
    words = np.array(["bf16", *WEIGHTS_ONLY], dtype=object)
    assert (product_rate(words, target) == target.rate("tensor_bf16")).all()


#: TFLOP/s of the fastest square product of PyTorch in BF16 (torch-products of references.toml).
BF16_TFLOPS = {
    "t4": 2.27, "v100-sxm2-16gb": 10.34, "tesla-p40": 5.26, "tesla-p4": 2.82, "gtx-1080-ti": 5.38,
    "rtx-2080-ti": 7.28,
}  # fmt: skip


@pytest.mark.parametrize("gpu", BF16_TFLOPS)
def test_emulated_bf16_is_slower_than_fp32(gpu: str) -> None:
    bf16, fp32 = microseconds(gpu, "bf16", "fp32")
    # a limit of power holds FP32 back, too
    assert 1.2 < bf16 / fp32 < 1.05 / prior_number("formats.emulated_bf16")
    assert 2.0 * 8192.0**3 / bf16 * 1e-6 == pytest.approx(BF16_TFLOPS[gpu], rel=0.35)


#: TFLOP/s of 8192^3 products on three RX 7900 XTX, median (radeon-products of references.toml).
RADEON_TFLOPS = {"fp32": 24.5, "fp16": 91.7, "bf16": 93.7}


@pytest.mark.parametrize("dtype", RADEON_TFLOPS)
def test_products_of_a_radeon_are_as_fast_as_published(dtype: str) -> None:
    """FP16 ran on the FP32 pipe, BF16 at MI300X's share of the peak, FP32 at two instructions a clock."""
    (us,) = microseconds("rx-7900-xtx", dtype)
    assert 2.0 * 8192.0**3 / us * 1e-6 == pytest.approx(RADEON_TFLOPS[dtype], rel=0.1)


def test_libraries_take_matrix_instructions_that_are_as_fast_as_a_vectors() -> None:
    words = np.array(["fp32", "fp16", "bf16", "int8", "fp64"], dtype=object)
    assert on_tensor(words, load_gpu("rx-7900-xtx")).tolist() == [False, True, True, True, False]
    assert not on_tensor(words, load_gpu("rx-6700-xt")).any()
    radeon = load_gpu("rx-7900-xtx")
    assert product_rate(words, radeon)[0] == 0.5 * radeon.rate("fp32")
    assert product_rate(words, load_gpu("rtx-3090"))[0] == load_gpu("rtx-3090").rate("fp32")


def test_fp16_products_of_a_card_without_tensor_cores_are_as_slow_as_published() -> None:
    """Libraries launch the matrix instructions of its compute capability, which it has no cores for."""
    (us,) = microseconds("gtx-1660-ti", "fp16")
    assert 2.0 * 8192.0**3 / us * 1e-6 == pytest.approx(0.61, rel=0.1)


@pytest.mark.parametrize("gpu", ["p100-pcie", "p100-sxm2", "quadro-gp100"])
def test_fp16_products_of_gp100_keep_sums_in_fp32(gpu: str) -> None:
    """Owners of P100s publish 7.2 to 8.8 TFLOP/s in FP16, beside 8.1 to 9.5 in FP32."""
    words, target = np.array(["fp32", "fp16"], dtype=object), load_gpu(gpu)
    assert product_rate(words, target).tolist() == [target.rate("fp32")] * 2
    fp32, fp16 = microseconds(gpu, "fp32", "fp16")
    assert 0.8 < fp32 / fp16 < 1.2
