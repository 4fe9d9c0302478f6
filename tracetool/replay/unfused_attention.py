"""Attention operator by operator, as a framework without fused attention runs it.

Operator tables name attention as one row. A fused kernel runs it as one; a framework that issues
every operator by itself runs two products, a scaling, a mask and a softmax, and moves the scores
through memory between them. A model that computes in FP32 anywhere (its table then holds FP32 rows:
norms taken apart, positions, masks) does so in its softmax too, and casts the scores for it.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.dtype import HALF
from tracetool.families import names
from tracetool.replay.operator_tables import InputTable, read_table


def with_score_traffic(frame: pl.DataFrame) -> pl.DataFrame:
    """Return an operator table with casts of scores as what they move, and with copies of heads.

    A row of FP32 between a product of 16 bits and a softmax of FP32 that names one tensor read and one
    written is a cast: what it reads has half the bytes. Queries, keys and values come from products of all
    heads side by side, and a batched product wants one head after the other: its operands but the scores
    are copied before it, its result after it. A table without such rows is returned as it is.

    Examples
    --------
    >>> scores = {"op": "gemm", "dtype": "bf16", "batch": 8, "m": 128, "n": 128, "k": 64}
    >>> frame = pl.DataFrame([{**scores, "rows": None}, {"op": "softmax", "dtype": "bf16", "rows": 1024}])
    >>> with_score_traffic(frame)["op"].to_list()
    ['elementwise', 'gemm', 'softmax']
    """
    if not {"op", "dtype", "batch", "m", "n", "k"} <= set(frame.columns):
        return frame
    softmax = pl.col("op") == names.SOFTMAX
    if frame.filter(softmax).is_empty():
        return frame
    return _with_copies(_with_casts(frame))


def _beside(column: str, *, before: bool) -> pl.Expr:
    """Return a column of the next row, before or after, that is neither elementwise nor a copy."""
    other_operators = pl.when(pl.col("op").is_in([names.ELEMENTWISE, names.COPY]).not_()).then(pl.col(column))
    return other_operators.shift(1).forward_fill() if before else other_operators.shift(-1).backward_fill()


def _with_casts(frame: pl.DataFrame) -> pl.DataFrame:
    if not {"reads", "writes"} <= set(frame.columns):
        return frame
    narrow = _beside("dtype", before=True)
    cast = (
        ((pl.col("op") == names.ELEMENTWISE) & (pl.col("dtype") == "fp32"))
        & ((pl.col("reads") == 1) & (pl.col("writes") == 1))
        & ((_beside("op", before=True) == names.GEMM) & (_beside("batch", before=True) > 1))
        & narrow.is_in(HALF)
        & ((_beside("op", before=False) == names.SOFTMAX) & (_beside("dtype", before=False) == "fp32"))
    ).fill_null(value=False)
    return frame.with_columns(
        pl.when(cast).then(narrow).otherwise(pl.col("dtype")).alias("dtype"),
        pl.when(cast).then(2).otherwise(pl.col("writes")).alias("writes"),
    )


def _with_copies(frame: pl.DataFrame) -> pl.DataFrame:
    beside = (_beside("op", before=False) == names.SOFTMAX) | (_beside("op", before=True) == names.SOFTMAX)
    many = (pl.col("op") == names.GEMM) & (pl.col("batch") > 1) & (pl.min_horizontal("m", "n", "k") > 1)
    placed = frame.with_row_index("_row").with_columns(pl.lit(1).alias("_step"))
    products = placed.filter((many & beside).fill_null(value=False))
    m, n, k = (pl.col(c).cast(pl.Int64, strict=False) for c in "mnk")
    moved = m * k + k * n + m * n - pl.max_horizontal(m * k, k * n, m * n)
    shared_columns = [c for c in ("_row", "dtype", "count") if c in placed.columns]
    copies = products.select(
        *shared_columns,
        pl.lit(names.ELEMENTWISE).alias("op"),
        (pl.col("batch").cast(pl.Int64, strict=False) * moved).alias("elements"),
        pl.lit(1, pl.Int64).alias("reads"),
        pl.lit(1, pl.Int64).alias("writes"),
        pl.lit(0).alias("_step"),
    )
    with_copies = pl.concat([placed, copies], how="diagonal_relaxed").sort("_row", "_step")
    return with_copies.drop("_row", "_step")


#: Steps of one attention row, in order: operator, and what differs between them.
_STEPS: Final = ("scores", "scale", "mask", "widen", "softmax", "values")


def unfused(table: InputTable) -> InputTable:
    """Return an operator table with each prefill attention row as the operators it is made of.

    The scores are widened to FP32 for the softmax if the table holds an FP32 row of another kind. Casts
    and copies beside the scores are those of
    :func:`tracetool.replay.unfused_attention.with_score_traffic`, also where the table itself states
    attention operator by operator. Other rows, and attention over a window or with one query token, stay
    as they are. ``count`` is kept; a table without attention is returned unchanged.
    """
    if table.kind != "operators":
        return table
    expanded = with_score_traffic(_expanded(table.frame))
    return table if expanded is table.frame else read_table(expanded)


def _expanded(frame: pl.DataFrame) -> pl.DataFrame:
    if not {"q_len", "heads", "head_dim"} <= set(frame.columns):
        return frame
    chosen = (pl.col("op") == names.ATTENTION) & (pl.col("q_len") > 1)
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
    step_rows = [_step(fused, number, name, wide=wide) for number, name in enumerate(steps)]
    other_rows = placed.filter(~chosen)
    return (
        pl.concat([other_rows, *step_rows], how="diagonal_relaxed")
        .sort("_row", "_step")
        .drop("_row", "_step")
    )


def _step(fused: pl.DataFrame, number: int, name: str, *, wide: bool) -> pl.DataFrame:
    """Return one operator of every attention row; ``wide``: the softmax is in FP32."""
    keys = pl.coalesce("kv_len", "q_len") if "kv_len" in fused.columns else pl.col("q_len")
    heads = (pl.col("batch").fill_null(1) * pl.col("heads")).alias("batch")
    queries, width = pl.col("q_len"), pl.col("head_dim")
    scores = pl.col("batch").fill_null(1) * pl.col("heads") * queries * keys
    columns = {
        "scores": [_op(names.GEMM), heads, queries.alias("m"), keys.alias("n"), width.alias("k")],
        "scale": [_op(names.ELEMENTWISE), scores.alias("elements"), _lit("reads", 1), _lit("writes", 1)],
        "mask": [_op(names.ELEMENTWISE), scores.alias("elements"), _lit("reads", 2), _lit("writes", 1)],
        "widen": [
            *(_op(names.ELEMENTWISE), pl.lit("fp32").alias("dtype"), scores.alias("elements")),
            *(_lit("reads", 1), _lit("writes", 1)),
        ],
        "softmax": [
            *(_op(names.SOFTMAX), *([pl.lit("fp32").alias("dtype")] if wide else []), keys.alias("cols")),
            (pl.col("batch").fill_null(1) * pl.col("heads") * queries).alias("rows"),
        ],
        "values": [_op(names.GEMM), heads, queries.alias("m"), width.alias("n"), keys.alias("k")],
    }[name]
    own_columns = {"dtype"} if wide and name in {"widen", "softmax"} else set()
    shared_columns = [
        pl.col(c) for c in ("_row", "dtype", "count") if c in fused.columns and c not in own_columns
    ]
    return fused.select(*shared_columns, *columns, pl.lit(number).alias("_step"))


def _op(name: str) -> pl.Expr:
    return pl.lit(name).alias("op")


def _lit(name: str, value: int) -> pl.Expr:
    return pl.lit(value).alias(name)
