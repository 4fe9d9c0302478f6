"""Activations that are alive at once, by hand."""

from __future__ import annotations

import pytest

from tracetool.forecast.memory import activation_bytes, largest_batch
from tracetool.forecast.pricing import Row


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("fp64", 8), ("fp32", 4), ("tf32", 4), ("bf16", 2), ("fp8", 2), ("nvfp4", 2), ("int4_wo", 2), ("sq", 2)],
)
def test_activations_have_the_width_of_what_flows_between_layers(dtype: str, width: int) -> None:
    product: Row = {"op": "gemm", "dtype": dtype, "m": 16.0, "n": 96.0, "k": 32.0}
    assert activation_bytes([product]) == 2 * width * 16 * (96 + 32)
    assert activation_bytes([{**product, "batch": 8.0}]) == 2 * width * 8 * 16 * (96 + 32)
    experts: Row = {"op": "moe", "dtype": dtype, "tokens": 10.0, "hidden": 64.0, "top_k": 3.0}
    assert activation_bytes([experts]) == 2 * width * 10 * 64 * (1 + 3)


def test_requests_that_keep_nothing_have_no_largest_batch() -> None:
    assert largest_batch(80e9, 20e9, 0.0) is None
    assert largest_batch(80e9, 80e9, 1e9) == 0.0
