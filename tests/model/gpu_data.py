"""Rows the power tests ask about."""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns


def texts(*values: str) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, dtype=object)


def operators() -> OperatorColumns:
    """A matrix product, a stream over memory and a softmax."""
    nan = np.nan
    return OperatorColumns(
        texts("gemm", "elementwise", "softmax"),
        {
            "dtype": texts("bf16", "bf16", "fp32"),
            "m": np.array([4096.0, nan, nan]),
            "n": np.array([4096.0, nan, nan]),
            "k": np.array([4096.0, nan, nan]),
            "batch": np.array([1.0, nan, nan]),
            "elements": np.array([nan, 3e8, nan]),
            "reads": np.array([nan, 2.0, nan]),
            "writes": np.array([nan, 1.0, nan]),
            "rows": np.array([nan, nan, 65536.0]),
            "cols": np.array([nan, nan, 2048.0]),
            "shape_source": texts("operator", "operator", "operator"),
        },
    )


def monitored(count: int = 1, **columns: object) -> OperatorColumns:
    """Kernels measured with their activity, the same unless told otherwise."""
    made = {
        "name": texts(*["kernel"] * count),
        "duration_us": np.full(count, 900.0),
        "recorded_clock_mhz": np.full(count, 1380.0),
        "power_w": np.full(count, 180.0),
        "act_sm": np.full(count, 0.97),
        "act_dram": np.full(count, 0.4),
        "act_fp32": np.full(count, 0.3),
    }
    made |= {k: np.asarray(v) for k, v in columns.items()}
    return OperatorColumns(texts(*["unknown"] * count), made)
