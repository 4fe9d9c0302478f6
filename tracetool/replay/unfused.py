"""Attention as a framework issues it operator by operator: scores written out, softmax apart.

Operator tables name attention as one row. A fused kernel runs it as one; a framework that issues
every operator by itself runs two products, a scaling, a mask and a softmax, and moves the scores
through memory between them. A model that computes in FP32 anywhere (its table then holds FP32 rows:
norms taken apart, positions, masks) does so in its softmax too, and casts the scores for it.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.replay.operator_tables import InputTable, read_table
from tracetool.replay.unfused_scores import with_score_traffic

#: Steps of one attention row, in order: operator, and what differs between them.
_STEPS: Final = ("scores", "scale", "mask", "widen", "softmax", "values")


def unfused(table: InputTable) -> InputTable:
    """Return an operator table with each prefill attention row as the operators it is made of.

    The scores are widened to FP32 for the softmax if the table holds an FP32 row of another kind. Casts
    and copies beside the scores are those of
    :func:`tracetool.replay.unfused_scores.with_score_traffic`, also where the table itself states
    attention operator by operator. Other rows, and attention over a window or with one query token, stay
    as they are. ``count`` is kept; a table without attention is returned unchanged.
    """
    if table.kind != "operators":
        return table
    whole = with_score_traffic(_expanded(table.frame))
    return table if whole is table.frame else read_table(whole)


def _expanded(frame: pl.DataFrame) -> pl.DataFrame:
    if not {"q_len", "heads", "head_dim"} <= set(frame.columns):
        return frame
    chosen = (pl.col("op") == "attention") & (pl.col("q_len") > 1)
    if "phase" in frame.columns:
        chosen &= pl.col("phase").fill_null("prefill") == "prefill"
    if "window" in frame.columns:
        chosen &= pl.col("window").fill_null(0) <= 0
    chosen = chosen.fill_null(value=False)
    placed = frame.with_row_index("_row").with_columns(pl.lit(0).alias("_step"))
    fused = placed.filter(chosen)
    if not fused.height:
        return frame
    wide = "dtype" in frame.columns and not frame.filter(~chosen & (pl.col("dtype") == "fp32")).is_empty()
    steps = [s for s in _STEPS if wide or s != "widen"]
    parts = [_step(fused, number, name, wide=wide) for number, name in enumerate(steps)]
    rest = placed.filter(~chosen)
    return pl.concat([rest, *parts], how="diagonal_relaxed").sort("_row", "_step").drop("_row", "_step")


def _step(fused: pl.DataFrame, number: int, name: str, *, wide: bool) -> pl.DataFrame:
    """Return one operator of every attention row; ``wide``: the softmax is in FP32."""
    keys = pl.coalesce("kv_len", "q_len") if "kv_len" in fused.columns else pl.col("q_len")
    heads = (pl.col("batch").fill_null(1) * pl.col("heads")).alias("batch")
    queries, width = pl.col("q_len"), pl.col("head_dim")
    scores = pl.col("batch").fill_null(1) * pl.col("heads") * queries * keys
    columns = {
        "scores": [_op("gemm"), heads, queries.alias("m"), keys.alias("n"), width.alias("k")],
        "scale": [_op("elementwise"), scores.alias("elements"), _lit("reads", 1), _lit("writes", 1)],
        "mask": [_op("elementwise"), scores.alias("elements"), _lit("reads", 2), _lit("writes", 1)],
        "widen": [
            *(_op("elementwise"), pl.lit("fp32").alias("dtype"), scores.alias("elements")),
            *(_lit("reads", 1), _lit("writes", 1)),
        ],
        "softmax": [
            *(_op("softmax"), *([pl.lit("fp32").alias("dtype")] if wide else []), keys.alias("cols")),
            (pl.col("batch").fill_null(1) * pl.col("heads") * queries).alias("rows"),
        ],
        "values": [_op("gemm"), heads, queries.alias("m"), width.alias("n"), keys.alias("k")],
    }[name]
    own = {"dtype"} if wide and name in {"widen", "softmax"} else set()
    shared_columns = [pl.col(c) for c in ("_row", "dtype", "count") if c in fused.columns and c not in own]
    return fused.select(*shared_columns, *columns, pl.lit(number).alias("_step"))


def _op(name: str) -> pl.Expr:
    return pl.lit(name).alias("op")


def _lit(name: str, value: int) -> pl.Expr:
    return pl.lit(value).alias(name)
