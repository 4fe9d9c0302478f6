"""Weights converted to 16 bits on the way to the tensor cores: what that counts."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.timing import row_pieces


def _rows(op: str, dtype: str, **numbers: float) -> OperatorColumns:
    texts = {"dtype": np.array([dtype], dtype=object), "stack": np.array(["vllm 0.24.0"], dtype=object)}
    return OperatorColumns(
        np.array([op], dtype=object), {**{k: np.array([v]) for k, v in numbers.items()}, **texts}
    )


def _conversions(op: str, dtype: str, gpu: str, **numbers: float) -> float:
    """Return the instructions of a row that no pipe's count holds: each costs what an instruction costs."""
    return float(row_pieces(_rows(op, dtype, **numbers), load_gpu(gpu)).pieces.work.instructions[0])


@pytest.mark.parametrize("dtype", ["int4_wo", "int8_wo"])
def test_a_product_converts_each_weight_for_every_tile_of_rows(dtype: str) -> None:
    few, many = (_conversions("gemm", dtype, "h100-sxm", m=m, n=4096.0, k=4096.0) for m in (16.0, 4096.0))
    weights = 4096.0 * 4096.0
    assert 0.2 * weights < few - _conversions("gemm", "bf16", "h100-sxm", m=16.0, n=4096.0, k=4096.0)
    assert many > 8.0 * few  # 4096 rows are many tiles


def test_experts_convert_their_weights_where_the_gpu_cannot_multiply_them() -> None:
    layer = {"tokens": 64.0, "hidden": 2880.0, "intermediate": 2880.0, "top_k": 4.0, "experts": 32.0}
    converted = _conversions("moe", "w4a16_mxfp4", "h100-sxm", **layer)
    assert converted > 1.9 * 32 * 3 * 2880.0**2
    assert _conversions("moe", "bf16", "h100-sxm", **layer) < 0.01 * converted
    assert _conversions("moe", "nvfp4", "b200-sxm", **layer) < 0.01 * converted


def test_a_conversion_costs_an_instruction_s_energy() -> None:
    """Experts in 4 bits draw, for each weight they convert, what two fused multiply-adds do."""
    layer = {"tokens": 64.0, "hidden": 2880.0, "intermediate": 2880.0, "top_k": 4.0, "experts": 32.0}
    rows, gpu = _rows("moe", "w4a16_mxfp4", **layer), load_gpu("h100-sxm")
    predicted = predict_rows(rows, gpu, np.array([1755.0]), power_cap_w=1e9)
    conversions = _conversions("moe", "w4a16_mxfp4", "h100-sxm", **layer)
    assert predicted.parts_j["compute"][0, 0] / conversions > 5e-12  # [J]; 7.6 pJ were measured
