"""Useful work never beats the pipes it runs on, on GPUs whose coefficients come from others too."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import product_rate
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows

#: FP32 products of a compute unit's matrix cores. [FLOP/clk]
MATRIX = {"mi100": 256.0, "mi210": 256.0, "mi300x": 256.0, "mi355x": 256.0}
SHAPES = {
    "a large product": {"batch": 1.0, "m": 8192.0, "n": 8192.0, "k": 8192.0},
    "a matrix times a vector": {"batch": 1.0, "m": 65536.0, "n": 1.0, "k": 16384.0},
    "many small ones": {"batch": 4096.0, "m": 64.0, "n": 64.0, "k": 512.0},
}


def _rows(family: str, dtype: str, numbers: dict[str, float]) -> OperatorColumns:
    columns = {k: np.array([v]) for k, v in numbers.items()}
    words = np.array([dtype], dtype=object)
    return OperatorColumns(np.array([family], dtype=object), {**columns, "dtype": words})


def _share_of_peak(name: str, rows: OperatorColumns) -> float:
    gpu = load_gpu(name)
    found = time_rows(rows, gpu, np.array([gpu.clock_boost_mhz]))
    rate = float(product_rate(rows.text("dtype"), gpu)[0])
    if rows.text("dtype")[0] == "fp32":
        rate = max(rate, MATRIX.get(name, 0.0))
    peak = rate * gpu.sm_count * gpu.clock_boost_mhz * 1e6
    return float(found.work.useful_flops[0] / found.duration_s[0, 0] / peak)


@pytest.mark.parametrize("name", ["v100-pcie", "t4", "a100-sxm", "b300-sxm", *MATRIX])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_stay_below_their_pipes(name: str, dtype: str, shape: str) -> None:
    assert _share_of_peak(name, _rows("gemm", dtype, SHAPES[shape])) <= 1.0


@pytest.mark.parametrize("name", ["gtx-1080-ti", "v100-pcie", "rtx-3090", "h200-sxm"])
@pytest.mark.parametrize("dtype", ["fp8", "bf16"])
def test_experts_stay_below_their_pipes(name: str, dtype: str) -> None:
    layer = {"tokens": 65536.0, "hidden": 4096.0, "intermediate": 14336.0, "top_k": 2.0, "experts": 8.0}
    assert _share_of_peak(name, _rows("moe", dtype, layer)) <= 1.0


@pytest.mark.parametrize("name", ["a100-sxm", "b200-sxm", "mi308x", "mi355x", "rtx-4090"])
@pytest.mark.parametrize("dtype", ["fp32", "fp64", "fp8"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_attention_stays_below_its_pipes(name: str, dtype: str, phase: str) -> None:
    queries = {"prefill": 8192.0, "decode": 64.0}[phase]
    sizes = {"batch": 16.0, "heads": 32.0, "kv_heads": 2.0, "head_dim": 128.0, "kv_len": 8192.0}
    rows = _rows("attention", dtype, {**sizes, "q_len": queries, "causal": 0.0})
    rows = OperatorColumns(rows.family, {**rows.columns, "phase": np.array([phase], dtype=object)})
    assert _share_of_peak(name, rows) <= 1.0
