"""Loops over graphs of one operator, where a GPU begins graphs on steps: whole ones beside a loop's start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.model.operators import rows_of
from tracetool.calibrate.law_fit import LawRows, misfits, residuals
from tracetool.core.operators import OperatorColumns
from tracetool.families.loops import (
    LOOP_START_US,
    SCAN_LOOP,
    SGLANG_LOOP,
    SHORT_LOOP,
    graph_steps_s,
    on_steps,
)
from tracetool.families.pieces import Pieces, duration_s
from tracetool.families.pricing import laws, split_by_law
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table

STEP_US = 2.0
B200 = replace(load_gpu("b200-sxm"), graph_step_us=STEP_US)
DECODE = laws()["decode"]


def _rows(**told: Any) -> OperatorColumns:
    shape = {"batch": 4, "q_len": 1, "heads": 8, "kv_heads": 1, "head_dim": 128, "kv_len": 512, "causal": 1}
    rows = rows_of("attention", phase="decode", **shape)
    columns = {name: np.array([value], dtype=object) for name, value in told.items()}
    return OperatorColumns(rows.family, {**rows.columns, **columns})


def _stepped(total_us: float, operators: float, vary: float = 0.0) -> float:
    given = (np.array([us * 1e-6]) for us in (total_us, STEP_US, LOOP_START_US / operators))
    return float(on_steps(*given, np.array([vary]))[0] * 1e6)


def _pieces(rows: OperatorColumns, **coefficients: float) -> Pieces:
    return DECODE.pieces(rows, B200, coefficients)


def test_all_operators_but_the_last_take_whole_steps() -> None:
    """In a loop of 20, 10.25 us of which the loop's start is 0.25: 19 of 10.0, and the last one."""
    assert _stepped(10.25, 20.0) == pytest.approx(10.25, abs=0.02)
    assert _stepped(10.75, 20.0) == pytest.approx(0.25 + 0.95 * 10.0 + 0.05 * 10.5, abs=0.04)
    assert _stepped(11.75, 20.0) == pytest.approx(0.25 + 0.95 * 12.0 + 0.05 * 11.5, abs=0.04)
    # between two steps a loop holds operators of either
    assert _stepped(11.25, 20.0) == pytest.approx(11.25, abs=0.02)


def test_long_operators_vary_by_more_than_a_step() -> None:
    for total in (600.25, 600.75, 601.25):
        assert _stepped(total, 20.0) == pytest.approx(total, abs=0.01)


def test_a_time_that_is_not_known_well_is_not_counted_in_steps() -> None:
    assert _stepped(10.75, 20.0, vary=0.2) == pytest.approx(10.75, abs=0.01)
    assert _stepped(10.75, 20.0, vary=0.01) == pytest.approx(_stepped(10.75, 20.0), abs=0.01)
    rows = _rows(stack="sglang 0.5.14")
    pieces = _pieces(rows)
    known, guessed = pieces.known_within((-0.1, 0.1)), pieces.known_within((-0.6, 0.6))
    times = [duration_s(p, np.full((1, 1), 1.9e9))[0, 0] for p in (pieces, known, guessed)]
    assert times[1] == pytest.approx(times[0], rel=1e-3)
    assert times[2] != pytest.approx(times[0], rel=1e-3)


def test_steps_are_of_loops_and_of_gpus_that_have_them() -> None:
    in_a_loop = graph_steps_s(_rows(stack="sglang 0.5.14"), B200)
    assert in_a_loop["graph_step_s"][0] == pytest.approx(STEP_US * 1e-6)
    assert in_a_loop["loop_s"][0] == pytest.approx(LOOP_START_US / SGLANG_LOOP * 1e-6)
    for other in ({"loop_operators": float("inf")}, {"access_pattern": "wide"}):
        assert graph_steps_s(_rows(**other), B200)["graph_step_s"][0] == 0.0
    assert graph_steps_s(_rows(), load_gpu("h100-sxm")) == {}
    assert load_gpu("b200-sxm").graph_step_us == load_gpu("gb200").graph_step_us > 0.0


FP4 = {"op": "gemm", "dtype": "nvfp4", "m": 64, "n": 4096, "k": 4096}
DELTA = {
    "op": "gdn", "dtype": "bf16", "implementation": "chunk_gated_delta_rule", "phase": "context", "batch": 1,
    "num_tokens": 512, "seq_len": 512, "num_k_heads": 4, "head_k_dim": 128, "num_v_heads": 8,
    "head_v_dim": 128,
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "row", "library", "other", "operators"),
    [
        ("gemm", FP4, "vllm 0.24.0", "sglang 0.5.14", SHORT_LOOP),
        ("ssm", DELTA, "trtllm 1.3.0rc20", "vllm 0.24.0", SCAN_LOOP),
    ],
)
def test_other_loops_launch_a_graph_for_each_operator_in_one_library_alone(
    family: str, row: dict[str, object], library: str, other: str, operators: float
) -> None:
    def steps(stack: str) -> Pieces:
        rows = read_table(pl.DataFrame([{**row, "stack": stack}])).rows
        ((law, _),) = split_by_law(family, rows, B200)
        return law.pieces(rows, B200, {})

    assert steps(other).graph_step_s[0] == 0.0
    assert steps(library).graph_step_s[0] == pytest.approx(STEP_US * 1e-6)
    assert steps(library).loop_s[0] == pytest.approx(LOOP_START_US / operators * 1e-6)


def test_what_is_fitted_has_a_slope_where_the_stated_time_has_none() -> None:
    rows = _rows(stack="sglang 0.5.14")
    launches = np.arange(4.0, 16.0, 0.1)
    measured = 0.25e-6 + 6 * STEP_US * 1e-6
    data = LawRows(rows, np.array([measured]), np.full((1, 1), B200.clock_boost_mhz * 1e6), np.zeros(1))
    values = {name: one.value for name, one in DECODE.priors.items()}
    off, stated = (
        np.array([find(DECODE, data, B200, {**values, "launch_us": us})[0] for us in launches])
        for find in (misfits, residuals)
    )
    assert np.diff(off).min() > 0.004
    assert np.sort(np.diff(stated))[: len(launches) // 4].max() < 0.003
    # and both agree in the middle of a step
    middle = int(np.abs(off).argmin())
    assert off[middle] == pytest.approx(stated[middle], abs=0.01)
