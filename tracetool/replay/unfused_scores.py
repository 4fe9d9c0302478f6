"""What moves beside the scores of attention issued operator by operator: casts, and copies no table names.

A table that takes attention apart has a batched product, operators on its scores, a softmax and another
batched product, in this order.
"""

from __future__ import annotations

from typing import Final

import polars as pl

_HALF: Final = ("bf16", "fp16")


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
    softmax = pl.col("op") == "softmax"
    if frame.filter(softmax).is_empty():
        return frame
    return _with_copies(_with_casts(frame))


def _beside(column: str, *, before: bool) -> pl.Expr:
    """Return a column of the next row, before or after, that is neither elementwise nor a copy."""
    other = pl.when(pl.col("op").is_in(["elementwise", "copy"]).not_()).then(pl.col(column))
    return other.shift(1).forward_fill() if before else other.shift(-1).backward_fill()


def _with_casts(frame: pl.DataFrame) -> pl.DataFrame:
    if not {"reads", "writes"} <= set(frame.columns):
        return frame
    narrow = _beside("dtype", before=True)
    cast = (
        ((pl.col("op") == "elementwise") & (pl.col("dtype") == "fp32"))
        & ((pl.col("reads") == 1) & (pl.col("writes") == 1))
        & ((_beside("op", before=True) == "gemm") & (_beside("batch", before=True) > 1))
        & narrow.is_in(_HALF)
        & ((_beside("op", before=False) == "softmax") & (_beside("dtype", before=False) == "fp32"))
    ).fill_null(value=False)
    return frame.with_columns(
        pl.when(cast).then(narrow).otherwise(pl.col("dtype")).alias("dtype"),
        pl.when(cast).then(2).otherwise(pl.col("writes")).alias("writes"),
    )


def _with_copies(frame: pl.DataFrame) -> pl.DataFrame:
    beside = (_beside("op", before=False) == "softmax") | (_beside("op", before=True) == "softmax")
    many = (pl.col("op") == "gemm") & (pl.col("batch") > 1) & (pl.min_horizontal("m", "n", "k") > 1)
    placed = frame.with_row_index("_row").with_columns(pl.lit(1).alias("_step"))
    products = placed.filter((many & beside).fill_null(value=False))
    m, n, k = (pl.col(c).cast(pl.Int64, strict=False) for c in "mnk")
    moved = m * k + k * n + m * n - pl.max_horizontal(m * k, k * n, m * n)
    shared_columns = [c for c in ("_row", "dtype", "count") if c in placed.columns]
    copies = products.select(
        *shared_columns,
        pl.lit("elementwise").alias("op"),
        (pl.col("batch").cast(pl.Int64, strict=False) * moved).alias("elements"),
        pl.lit(1, pl.Int64).alias("reads"),
        pl.lit(1, pl.Int64).alias("writes"),
        pl.lit(0).alias("_step"),
    )
    whole = pl.concat([placed, copies], how="diagonal_relaxed").sort("_row", "_step")
    return whole.drop("_row", "_step")
