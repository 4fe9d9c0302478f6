"""What the loop that measured an operator adds to it, and what it leaves out: products and experts."""

from __future__ import annotations

import polars as pl
import pytest

from tracetool.families.loops import (
    EXPERT_LOOPS,
    LOOP_START_US,
    NEXT_US,
    PRODUCT_LOOPS,
)
from tracetool.families.pieces import Pieces
from tracetool.families.pricing import split_by_law
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table

GPU = load_gpu("h100-sxm")
PRODUCT = {"op": "gemm", "dtype": "bf16", "m": 64, "n": 4096, "k": 4096}
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
