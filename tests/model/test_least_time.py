"""No interval of time reaches below what the units need at their peak."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.hardware.load import load_gpu


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm", "b200-sxm", "l40s"])
def test_no_exchange_is_faster_than_its_link(gpu: str) -> None:
    sheet, ranks = load_gpu(gpu), 4
    kinds = {"all_gather": (ranks - 1) / ranks, "all_to_all": (ranks - 1) / ranks, "all_reduce": 1.0}
    rows = [
        {"op": "collective", "kind": kind, "ranks": ranks, "bytes": 2.0**power, "dtype": "bf16"}
        for kind in kinds
        for power in (20, 26, 30, 33)
    ]
    predicted = tt.predict(pl.DataFrame(rows), gpu=gpu).frame  # by no library: the widest interval
    joined = ranks <= sheet.link_ranks
    rate = sheet.link_rate(np.array([float(ranks)]))[0] if joined else sheet.pcie_bytes_per_s
    for row in predicted.to_dicts():
        least_us = 1e6 * kinds[row["kind"]] * row["bytes"] / rate
        assert (
            least_us * (1 - 1e-9) <= row["duration_low_us"] <= row["duration_us"] <= row["duration_high_us"]
        )
        assert row["energy_low_mj"] <= row["energy_mj"] <= row["energy_high_mj"]


@pytest.mark.parametrize("clock", [None, 1200.0])
@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm", "l40s", "rtx-4090", "mi300x"])
def test_no_product_is_faster_than_the_matrix_units(gpu: str, clock: float | None) -> None:
    sheet = load_gpu(gpu)
    peak = sheet.rate("tensor_bf16") * sheet.sm_count * sheet.clock_max_mhz * 1e6
    rows = [{"op": "gemm", "m": m, "n": 8192, "k": 8192, "dtype": "bf16"} for m in (128, 1024, 8192, 32768)]
    predicted = tt.predict(pl.DataFrame(rows), gpu=gpu, clock=clock).frame
    for row in predicted.to_dicts():
        assert row["flops"] / peak <= row["duration_low_us"] * 1e-6 * (1 + 1e-9)
