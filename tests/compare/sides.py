"""Sides of made-up runs: kernels in a sequence that repeats step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracetool.compare.sides import RunClasses, Side, make_side, run_classes
from tracetool.tables.schema import load_schema

#: name, family, operator, shapes, microseconds, watts
Kernel = tuple[str, str, str, str, float, float]
STEP: tuple[Kernel, ...] = (
    ("gemm_qkv", "gemm", "aten::mm", "[[8,8]]", 100.0, 400.0),
    ("softmax", "softmax", "aten::softmax", "[[8]]", 20.0, 250.0),
    ("gemm_out", "gemm", "aten::mm", "[[8,4]]", 80.0, 400.0),
    ("add", "elementwise", "aten::add", "[[8]]", 10.0, 200.0),
    ("mul", "elementwise", "aten::mul", "[[8]]", 10.0, 200.0),
    ("norm", "norm", "aten::layer_norm", "[[8]]", 15.0, 220.0),
)


def make_run(
    step: Sequence[Kernel] = STEP,
    steps: int = 10,
    *,
    label: str = "run",
    ranges: bool = True,
    operators: bool = True,
    factor: float | dict[str, float] = 1.0,
    gpu: str = "a100-sxm",
    gap_s: float = 1e-3,
) -> RunClasses:
    """Return a run; ``factor`` multiplies energies, of all kernels or by family."""
    rows = [k for _ in range(steps) for k in step]
    n = len(rows)
    distinct = list(dict.fromkeys(rows))
    places = {k: i for i, k in enumerate(distinct)}
    number = np.array([places[k] for k in rows])
    length = np.array([k[4] * 1e3 for k in rows]).astype(np.int64)
    start = np.cumsum(length + 1000) - length
    kernels = pl.DataFrame(
        {
            "start_ns": start,
            "duration_ns": length,
            "device": np.zeros(n, np.int32),
            "kind": ["kernel"] * n,
            "name": [k[0] for k in rows],
            "operator": np.arange(n) if operators else [None] * n,
            "range": np.arange(n) // len(step) if ranges else [None] * n,
            "signature": number,
        }
    )
    table = pl.DataFrame(
        {
            "signature": range(len(distinct)),
            "kind": ["kernel"] * len(distinct),
            "name": [k[0] for k in distinct],
            "operator_name": [k[2] if operators else None for k in distinct],
            "input_dims": [k[3] if operators else None for k in distinct],
            "launches": [int((number == i).sum()) for i in range(len(distinct))],
            "duration_ns": [int(length[number == i].sum()) for i in range(len(distinct))],
            "duration_median_ns": [k[4] * 1e3 for k in distinct],
        }
    )
    steps_table = pl.DataFrame(
        {"range": range(steps), "name": [f"ProfilerStep#{i}" for i in range(steps)], "start_ns": [0] * steps,
         "duration_ns": [1] * steps, "depth": [0] * steps}
    )  # fmt: skip
    scale = [factor.get(k[1], 1.0) if isinstance(factor, dict) else factor for k in distinct]
    joules = np.array([k[4] * 1e-6 * k[5] for k in distinct]) * np.array(scale)
    each = pl.DataFrame(
        {"signature": range(len(distinct)), "family": [k[1] for k in distinct], "each_j": joules,
         "each_low_j": 0.9 * joules, "each_high_j": 1.1 * joules,
         "each_s": pl.Series([None] * len(distinct), dtype=pl.Float64)}
    )  # fmt: skip
    schema = load_schema
    classes, sequence = run_classes(
        schema("kernels").conform(kernels),
        schema("signatures").conform(table),
        schema("ranges").conform(steps_table) if ranges else schema("ranges").empty(),
        each,
    )
    busy = float(length.sum()) / 1e9
    return RunClasses(label, classes.drop("signature"), sequence, gap_s, 60.0 * gap_s, busy + gap_s,
                      steps if ranges else 0, {"GPU": gpu}, 1410.0)  # fmt: skip


def side(*runs: RunClasses, per_step: bool = True) -> Side:
    """Return a side of runs."""
    return make_side(runs, per_step=per_step)


NO_CLOCKS = pl.DataFrame(
    schema={"side": pl.String, "class": pl.Int64, "clock_time_ratio": pl.Float64,
            "clock_power_ratio": pl.Float64, "work_s": pl.Float64}
)  # fmt: skip
