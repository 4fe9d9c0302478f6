"""Operands whose rows do not begin at 16 bytes are loaded element by element."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.gemm.problem import gemm_products
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows

GPU = load_gpu("a100-sxm")


def _rows(k: float, dtype: str = "tf32", align: float = np.nan) -> OperatorColumns:
    numbers = {"batch": 1.0, "m": 4096.0, "n": 4096.0, "k": k, "align": align}
    columns = {name: np.array([value]) for name, value in numbers.items()}
    words = np.array([dtype], dtype=object)
    return OperatorColumns(np.array(["gemm"], dtype=object), {**columns, "dtype": words})


def _seconds(rows: OperatorColumns) -> float:
    return float(time_rows(rows, GPU, np.array([GPU.clock_boost_mhz])).duration_s[0, 0])


@pytest.mark.parametrize(
    ("k", "dtype", "align", "loads"),
    [
        (1024.0, "tf32", np.nan, None),
        (1025.0, "tf32", np.nan, 1.0),
        (1026.0, "tf32", np.nan, 0.5),
        (1028.0, "bf16", np.nan, 0.25),
        (1025.0, "tf32", 4.0, None),  # the name knows better
        (1024.0, "tf32", 1.0, 1.0),
        (1025.0, "nvfp4", np.nan, None),
        (1025.0, "fp8", np.nan, None),  # padded by whoever calls the library
    ],
)
def test_loads_follow_the_alignment(k: float, dtype: str, align: float, loads: float | None) -> None:
    found = gemm_products(_rows(k, dtype, align), GPU).loads
    assert (None if found is None else found[0]) == loads


def test_odd_rows_take_longer() -> None:
    assert _seconds(_rows(4097.0)) > 1.4 * _seconds(_rows(4096.0))
    assert _seconds(_rows(4098.0)) < _seconds(_rows(4097.0))
