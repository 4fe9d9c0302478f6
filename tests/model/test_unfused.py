"""Attention taken apart: the same products and scores, through memory."""

from __future__ import annotations

import polars as pl

from tracetool.workflows.tables import read_table
from tracetool.workflows.unfused import unfused

TABLE = pl.DataFrame(
    {
        "op": ["norm", "attention", "attention"],
        "dtype": ["bf16", "bf16", "bf16"],
        "rows": [64, None, None],
        "cols": [128, None, None],
        "phase": [None, "prefill", "decode"],
        "batch": [None, 2, 2],
        "q_len": [None, 32, 1],
        "kv_len": [None, 48, 48],
        "heads": [None, 4, 4],
        "head_dim": [None, 16, 16],
        "count": [1, 3, 1],
    }
)


def test_prefill_becomes_its_operators_in_place() -> None:
    whole = unfused(read_table(TABLE)).frame
    assert whole["op"].to_list() == [
        "norm",
        "gemm",
        "elementwise",
        "elementwise",
        "softmax",
        "gemm",
        "attention",
    ]
    first, last = whole.row(1, named=True), whole.row(5, named=True)
    assert (first["batch"], first["m"], first["n"], first["k"]) == (8, 32, 48, 16)
    assert (last["batch"], last["m"], last["n"], last["k"]) == (8, 32, 16, 48)
    assert whole["count"].to_list() == [1, 3, 3, 3, 3, 3, 1]
    softmax = whole.row(4, named=True)
    assert (softmax["rows"], softmax["cols"], softmax["dtype"]) == (8 * 32, 48, "fp32")


def test_a_table_without_attention_is_returned_as_it_is() -> None:
    table = read_table(TABLE.filter(pl.col("op") == "norm"))
    assert unfused(table) is table
