"""Attention as a framework issues it operator by operator: scores written out, softmax apart.

Operator tables name attention as one row. A fused kernel runs it as one; a framework that issues
every operator by itself runs two products, a mask, a cast and a softmax, and moves the scores
through memory between them.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.workflows.tables import InputTable, read_table

#: Steps of one attention row, in order: operator, and what differs between them.
_STEPS: Final = ("scores", "mask", "widen", "softmax", "values")


def unfused(table: InputTable) -> InputTable:
    """Return an operator table with each prefill attention row as the operators it is made of.

    Other rows, and attention over a window or with one query token, stay as they are. ``count`` is
    kept; a table without such rows is returned unchanged.
    """
    frame = table.frame
    if table.kind != "operators" or not {"q_len", "heads", "head_dim"} <= set(frame.columns):
        return table
    chosen = (pl.col("op") == "attention") & (pl.col("q_len") > 1)
    if "phase" in frame.columns:
        chosen &= pl.col("phase").fill_null("prefill") == "prefill"
    if "window" in frame.columns:
        chosen &= pl.col("window").fill_null(0) <= 0
    placed = frame.with_row_index("_row").with_columns(pl.lit(0).alias("_step"))
    fused = placed.filter(chosen)
    if not fused.height:
        return table
    parts = [_step(fused, number, name) for number, name in enumerate(_STEPS)]
    rest = placed.filter(~chosen)
    whole = pl.concat([rest, *parts], how="diagonal_relaxed").sort("_row", "_step").drop("_row", "_step")
    return read_table(whole)


def _step(fused: pl.DataFrame, number: int, name: str) -> pl.DataFrame:
    """Return one operator of every attention row."""
    keys = pl.coalesce("kv_len", "q_len") if "kv_len" in fused.columns else pl.col("q_len")
    heads = (pl.col("batch").fill_null(1) * pl.col("heads")).alias("batch")
    queries, width = pl.col("q_len"), pl.col("head_dim")
    scores = pl.col("batch").fill_null(1) * pl.col("heads") * queries * keys
    columns = {
        "scores": [_op("gemm"), heads, queries.alias("m"), keys.alias("n"), width.alias("k")],
        "mask": [_op("elementwise"), scores.alias("elements"), _lit("reads", 2), _lit("writes", 1)],
        "widen": [
            *(_op("elementwise"), pl.lit("fp32").alias("dtype"), scores.alias("elements")),
            *(_lit("reads", 1), _lit("writes", 1)),
        ],
        "softmax": [
            *(_op("softmax"), pl.lit("fp32").alias("dtype"), keys.alias("cols")),
            (pl.col("batch").fill_null(1) * pl.col("heads") * queries).alias("rows"),
        ],
        "values": [_op("gemm"), heads, queries.alias("m"), width.alias("n"), keys.alias("k")],
    }[name]
    own = {"dtype"} if name in {"widen", "softmax"} else set()
    kept = [pl.col(c) for c in ("_row", "dtype", "count") if c in fused.columns and c not in own]
    return fused.select(*kept, *columns, pl.lit(number).alias("_step"))


def _op(name: str) -> pl.Expr:
    return pl.lit(name).alias("op")


def _lit(name: str, value: int) -> pl.Expr:
    return pl.lit(value).alias(name)
