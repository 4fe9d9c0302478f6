"""Sizes inferred from a duration: the law that prices them gives that duration back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows
from tracetool.replay.sizes_by_law import sizes_by_law

#: One row a family, by the size that its duration tells.
ROWS = {
    "gemm k": {"m": 4096.0, "n": 4096.0, "k": 2048.0, "dtype": "fp16"},
    "norm cols": {"rows": 64.0, "cols": 100_352.0, "row_loads": 2.0, "dtype": "bf16"},
    "softmax cols": {"rows": 8192.0, "cols": 4096.0, "dtype": "fp16"},
    "attention kv_len": {"batch": 32.0, "q_len": 1.0, "kv_len": 8192.0, "heads": 32.0, "kv_heads": 8.0,
                         "head_dim": 128.0, "dtype": "fp16"},
}  # fmt: skip


def _rows(case: str, gpu: str, off: float, **more: float) -> tuple[OperatorColumns, str, float]:
    """Return a row whose size is wrong by a factor beside the time of the true one, its name and value."""
    family, size = case.split()
    sizes = {"shape_source": "grid", "inferred": size, "inferred_low": 0.25, "inferred_high": 1.5}
    sizes |= ROWS[case]
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in sizes.items()}
    rows = OperatorColumns(np.array([family], dtype=object), columns)
    sheet = load_gpu(gpu)
    true = float(sizes[size])  # type: ignore[arg-type]
    took_us = time_rows(rows, sheet, np.array([[sheet.clock_boost_mhz]])).duration_s[:, 0] * 1e6
    wrong = {size: np.array([round(true * off)], dtype=float), "duration_us": took_us}
    wrong |= {name: np.array([value]) for name, value in more.items()}
    return replace(rows, columns={**columns, **wrong}), size, true


@pytest.mark.parametrize("gpu", ["mi210", "h100-sxm", "rtx-4090"])
@pytest.mark.parametrize("off", [0.5, 1.9])
@pytest.mark.parametrize("case", ROWS)
def test_the_law_gives_the_measured_time_back(case: str, off: float, gpu: str) -> None:
    rows, size, true = _rows(case, gpu, off)
    sheet = load_gpu(gpu)
    found = sizes_by_law(rows, sheet, sheet.clock_boost_mhz)
    took_us = time_rows(found, sheet, np.array([[sheet.clock_boost_mhz]])).duration_s[0, 0] * 1e6
    assert took_us == pytest.approx(rows.number("duration_us")[0], rel=0.05)
    assert found.number(size)[0] == pytest.approx(true, rel=0.15)
    assert found.number("inferred_low")[0] <= 1.0 <= found.number("inferred_high")[0]
    # the interval is that of the size, not of how it was found
    low, high = rows.number("inferred_low")[0] * rows.number(size)[0], rows.number("inferred_high")[0]
    assert found.number("inferred_low")[0] * found.number(size)[0] == pytest.approx(min(low, true), rel=0.15)
    assert found.number("inferred_high")[0] * found.number(size)[0] == pytest.approx(
        max(high * rows.number(size)[0], true), rel=0.15
    )


def test_a_launch_alone_tells_no_size() -> None:
    rows, _, _ = _rows("softmax cols", "h100-sxm", 0.5)
    short = replace(rows, columns={**rows.columns, "rows": np.array([1.0]), "duration_us": np.array([0.5])})
    found = sizes_by_law(short, load_gpu("h100-sxm"), 1980.0)
    assert found.number("cols")[0] == short.number("cols")[0]


def test_sizes_that_the_trace_states_stay() -> None:
    rows, size, _ = _rows("gemm k", "mi210", 0.5)
    stated = replace(rows, columns={**rows.columns, "inferred_low": np.array([np.nan])})
    assert sizes_by_law(stated, load_gpu("mi210"), 1700.0) is stated
    assert stated.number(size)[0] == 1024.0


def test_keys_that_are_taken_to_be_the_queries_stay() -> None:
    rows, _, _ = _rows("attention kv_len", "h100-sxm", 0.5)
    itself = replace(rows, columns={**rows.columns, "q_len": rows.number("kv_len")})
    assert sizes_by_law(itself, load_gpu("h100-sxm"), 1980.0) is itself
