"""Norms and softmax as docs/families/rows.md writes them, one at a time, against the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.registry import count_work
from tracetool.families.rowwise.law import NORM, SOFTMAX
from tracetool.hardware.load import load_gpu

GPU = load_gpu("h100-sxm")
SMS = GPU.sm_count
C = {
    "launch_us": 2.1, "latency_clk": 1230.0, "row_clk": 910.0, "again": 0.7, "cache_share": 0.43,
    "l2_efficiency": 0.77, "dram_efficiency": 0.87, "overlap_norm": 2.9, "chain_clk": 17.0, "load_clk": 530.0,
    "kept": 0.37, "unrolled": 1.21,
}  # fmt: skip


def norm(p: float, *parts: float) -> float:
    return sum(part**p for part in parts) ** (1 / p)


@pytest.mark.parametrize("changes", [
    {}, {"rows": 3.0, "cols": 50000.0}, {"rows": 1e6, "cols": 256.0}, {"cols": 2000.0}, {"direction": "bwd"},
    {"rows": 20.0, "blocks": 20.0, "threads": 128.0}, {"access_pattern": "other", "rows": 300.0},
    {"row_loads": 2.0, "blocks": 9.0, "threads": 512.0}, {"reads_again": 2.0, "reads": 1.0},
])  # fmt: skip
@pytest.mark.parametrize("family", ["norm", "softmax"])
def test_rows_take_what_the_page_says(family: str, changes: dict[str, Any]) -> None:
    row: dict[str, Any] = {"rows": 5000.0, "cols": 4200.0, "dtype": "bf16", **changes}
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in row.items()}
    rows = OperatorColumns(np.array([family], dtype=object), columns)
    law = NORM if family == "norm" else SOFTMAX
    pieces, work = law.pieces(rows, GPU, C), count_work(rows, GPU)
    r, c = row["rows"], row["cols"]
    kept = family == "softmax" and c <= 1024  # a warp's registers hold the row
    long = 128 if family == "norm" else 1024
    threads = 32 if kept else min(max(2 ** math.ceil(math.log2(max(c / 4, 1))), 32), long)
    resident = GPU.max_threads_per_sm / threads
    flight = max(min(resident, GPU.max_blocks_per_sm) if threads > 32 else resident, 1) * SMS
    again = 0.0 if kept else C["again"] * (2 if row.get("direction") == "bwd" else 1)
    again = row.get("reads_again", again)
    more, cache = again * r * c * 2, C["cache_share"] * SMS * GPU.first_cache_bytes_per_sm
    missed = 1 / (1 + (cache / (min(flight, r) * c * 2)) ** 3)
    pipes = (work.fp32_flops[0] / GPU.rate("fp32") + work.int_ops[0] / GPU.rate("int")
             + work.sfu_ops[0] / GPU.sfu_per_clock_sm) / SMS  # fmt: skip
    passing = norm(4, pipes, (work.l2_bytes[0] + more) / (C["l2_efficiency"] * GPU.l2_bytes_per_clock))
    launched = row.get("blocks", 0.0) * row.get("threads", 0.0)
    each = r * c / launched if launched else 0.0
    waits = C["load_clk"] * row["row_loads"] * each if "row_loads" in row else (
        C["chain_clk"] * each if launched >= 32 * r else 0.0)  # fmt: skip
    moved = float(work.dram_bytes[0])
    left = C["kept"] / (1 + (moved / (0.7 * GPU.l2_bytes)) ** 3) if "access_pattern" in row else 0.0
    slower = C["unrolled"] if family == "norm" and math.ceil(c / 512) % 4 == 0 else 1.0
    core = norm(4, norm(4, passing, r / flight * C["row_clk"]), waits)
    assert pieces.core_cycles[0] == pytest.approx(core * slower)
    memory = (moved * (1 - left) + more * missed) / (C["dram_efficiency"] * GPU.dram_bytes_per_s)
    assert pieces.memory_s[0] == pytest.approx(memory * slower)
    assert pieces.active[0] == min(r / SMS, 1)
    assert (pieces.fixed_s[0], pieces.serial_cycles[0], pieces.norm[0]) == pytest.approx(
        (2.1e-6, 1230.0, 2.9)
    )


@pytest.mark.parametrize("passes", [(0.0, 0.0), (1.0, 1.0), (2.0, 1.0)])
def test_each_pass_over_rows_is_counted_and_one_over_none_is_a_number_a_row(
    passes: tuple[float, float],
) -> None:
    numbers = {"rows": 700.0, "cols": 900.0, "reads": passes[0], "writes": passes[1]}
    columns = {k: np.array([v]) for k, v in numbers.items()} | {"dtype": np.array(["fp32"], dtype=object)}
    work = count_work(OperatorColumns(np.array(["softmax"], dtype=object), columns), GPU)
    elements = 700 * (900 if sum(passes) else 1)
    assert work.dram_bytes[0] == sum(passes) * elements * 4
    assert work.int_ops[0] == elements
