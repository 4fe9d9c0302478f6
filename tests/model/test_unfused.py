"""Attention taken apart: the same products and scores, through memory."""

from __future__ import annotations

import polars as pl

from tracetool.replay.operator_tables import read_table
from tracetool.replay.unfused_attention import unfused, with_score_traffic

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
    # Copies of queries and keys, scores, scaling, mask, softmax, copies of values and of the result.
    between = ["elementwise", "gemm", "elementwise", "elementwise", "softmax", "elementwise", "gemm"]
    assert whole["op"].to_list() == ["norm", *between, "attention"]
    first, last = whole.row(2, named=True), whole.row(7, named=True)
    assert (first["batch"], first["m"], first["n"], first["k"]) == (8, 32, 48, 16)
    assert (last["batch"], last["m"], last["n"], last["k"]) == (8, 32, 16, 48)
    assert whole["count"].to_list() == [1, *[3] * 7, 1]
    softmax = whole.row(5, named=True)
    assert (softmax["rows"], softmax["cols"], softmax["dtype"]) == (8 * 32, 48, "bf16")
    assert whole["elements"].to_list()[1] == whole["elements"].to_list()[6] == 8 * (32 + 48) * 16


def test_a_model_with_fp32_rows_widens_its_scores() -> None:
    wide = pl.concat([TABLE[:1].with_columns(dtype=pl.lit("fp32")), TABLE[1:]])
    whole = unfused(read_table(wide)).frame
    cast, softmax = whole.row(5, named=True), whole.row(6, named=True)
    # It reads 2 bytes of each score and writes 4.
    assert (cast["dtype"], cast["reads"], cast["writes"]) == ("bf16", 1, 2)
    assert (softmax["rows"], softmax["cols"], softmax["dtype"]) == (8 * 32, 48, "fp32")


def test_a_cast_named_by_the_table_moves_what_a_cast_moves() -> None:
    scores = {"op": "elementwise", "dtype": "fp32", "elements": 8 * 32 * 48, "reads": 1, "writes": 1}
    softmax = {"op": "softmax", "dtype": "fp32", "rows": 8 * 32, "cols": 48}
    product = {"op": "gemm", "dtype": "bf16", "batch": 8, "m": 32, "n": 48, "k": 16}
    lone = {**product, "batch": 1}
    columns = [*product, "elements", "reads", "writes", "rows", "cols"]
    table = pl.DataFrame(
        [{c: row.get(c) for c in columns} for row in (product, scores, softmax, lone, scores, softmax)]
    )
    whole = unfused(read_table(table)).frame
    # One batched product, with its copies before it; the lone one is a layer like any other.
    assert whole["op"].to_list()[:3] == ["elementwise", "gemm", "elementwise"]
    assert whole["dtype"].to_list() == ["bf16", "bf16", "bf16", "fp32", "bf16", "fp32", "fp32"]
    assert whole["writes"].to_list() == [1, None, 2, None, None, 1, None]


def test_a_table_without_attention_is_returned_as_it_is() -> None:
    table = read_table(TABLE.filter(pl.col("op") == "norm"))
    assert unfused(table) is table


def test_a_cast_of_scores_reads_half_the_bytes_and_batched_products_take_copies() -> None:
    """FP32 between a batched 16-bit product and an FP32 softmax: read in 16 bits, written as two of them."""
    scores = {"op": "gemm", "dtype": "bf16", "batch": 8, "m": 128, "n": 96, "k": 64}
    cast = {"op": "elementwise", "dtype": "fp32", "elements": 8 * 128 * 96, "reads": 1, "writes": 1}
    added = {**cast, "dtype": "fp32", "reads": 2}
    rows = [
        scores,
        cast,
        added,
        {"op": "softmax", "dtype": "fp32", "rows": 1024, "cols": 96},
        {**scores, "n": 64, "k": 96},
    ]
    whole = with_score_traffic(pl.DataFrame(rows, infer_schema_length=None))
    assert whole["op"].to_list() == [
        "elementwise",
        "gemm",
        "elementwise",
        "elementwise",
        "softmax",
        "elementwise",
        "gemm",
    ]
    # all operands but the scores, the largest: queries and keys before, values and the result after
    assert whole["elements"][0] == 8 * (128 * 64 + 64 * 96)
    assert whole["elements"][5] == 8 * (96 * 64 + 128 * 64)
    assert whole.select("dtype", "reads", "writes").rows()[2:4] == [("bf16", 1, 2), ("fp32", 2, 1)]
    assert whole["dtype"][4] == "fp32"
