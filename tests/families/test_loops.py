"""What the loop that measured an operator adds to it, and what it leaves out: products and experts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.families.loops import (
    EXPERT_LOOPS,
    LOOP_START_US,
    NEXT_US,
    ONE_WEIGHT_LOOPS,
    PRODUCT_LOOPS,
)
from tracetool.families.pieces import Pieces, combined, duration_s
from tracetool.families.pricing import split_by_law
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table

GPU = load_gpu("h100-sxm")
HERTZ = np.full((1, 1), GPU.clock_boost_mhz * 1e6)
PRODUCT = {"op": "gemm", "dtype": "bf16", "m": 64, "n": 4096, "k": 4096}
BLOCKS = {**PRODUCT, "dtype": "fp8_block"}
EXPERTS = {"op": "moe", "dtype": "bf16", "tokens": 64, "hidden": 2048, "intermediate": 1024, "top_k": 4,
           "experts": 64}  # fmt: skip


def _pieces(row: dict[str, object], values: dict[str, float] | None = None, **stated: object) -> Pieces:
    rows = read_table(pl.DataFrame([{**row, **stated}])).rows
    ((law, _),) = split_by_law(str(rows.family[0]), rows, GPU)
    return law.pieces(rows, GPU, values or {})


@pytest.mark.parametrize(
    ("row", "stack", "usual"),
    [
        (PRODUCT, "vllm 0.24.0", PRODUCT_LOOPS["vllm"]),
        (PRODUCT, "trtllm 1.3.0rc20", PRODUCT_LOOPS["trtllm"]),
        (BLOCKS, "vllm 0.24.0", ONE_WEIGHT_LOOPS["vllm"]),
        (EXPERTS, "vllm 0.24.0", EXPERT_LOOPS["vllm"]),
    ],
)
def test_a_longer_loop_shares_its_start_among_more(row: dict[str, object], stack: str, usual: float) -> None:
    values = {"launch_us": 20.0}
    plain, long, same = (
        _pieces(row, values, stack=stack, **told).fixed_s[0]
        for told in ({}, {"loop_operators": 1_000_000_000}, {"loop_operators": int(usual)})
    )
    assert plain - long == pytest.approx(1e-6 * LOOP_START_US / usual, rel=1e-3)
    assert same == pytest.approx(plain)


@pytest.mark.parametrize("row", [PRODUCT, EXPERTS])
def test_the_loops_of_other_libraries_are_not_known(row: dict[str, object]) -> None:
    plain, long = (
        _pieces(row, stack="torch 2.9", **told).fixed_s[0] for told in ({}, {"loop_operators": 10**9})
    )
    assert long == pytest.approx(plain)


def test_a_loop_that_is_given_the_experts_runs_no_router() -> None:
    values = {"launch_us": 20.0}
    timed, given = (_pieces(EXPERTS, values, router=router).fixed_s[0] for router in (True, False))
    assert timed - given == pytest.approx(NEXT_US * 1e-6)
    assert _pieces(EXPERTS, values).fixed_s[0] == timed


def test_a_host_that_issues_one_by_one_waits_for_the_last_operator_of_its_loop() -> None:
    """vLLM's loop over products with scales by blocks records no graph: six operators, then an event."""
    values = {"floor_us": 90.0, "launch_us": 4.0}

    def took(stack: str, **told: object) -> float:
        return float(duration_s(_pieces(BLOCKS, values, stack=stack, **told), HERTZ)[0, 0])

    kernels = took("vllm 0.24.0", loop_operators=10**9)  # the host's time alone
    alone = float(duration_s(_pieces(BLOCKS, {**values, "floor_us": 0.1}, stack="vllm 0.24.0"), HERTZ)[0, 0])
    assert kernels == pytest.approx(90e-6, rel=1e-3)
    assert took("vllm 0.24.0") == pytest.approx(90e-6 + alone / ONE_WEIGHT_LOOPS["vllm"], rel=1e-2)
    # graphs of other libraries' loops wait for no host
    assert took("sglang 0.5.14") == pytest.approx(90e-6, rel=1e-3)


def test_an_operator_longer_than_its_host_takes_hardly_longer() -> None:
    pieces = _pieces(BLOCKS, {"floor_us": 20.0, "launch_us": 200.0}, stack="vllm 0.24.0")
    long = _pieces(BLOCKS, {"floor_us": 0.1, "launch_us": 200.0}, stack="vllm 0.24.0")
    alone, took = (duration_s(one, HERTZ) for one in (long, pieces))
    host = 20e-6 + alone / ONE_WEIGHT_LOOPS["vllm"]
    assert took == pytest.approx(combined(alone, host, 12.0), rel=1e-3)
    assert took[0, 0] < 1.001 * alone[0, 0]
