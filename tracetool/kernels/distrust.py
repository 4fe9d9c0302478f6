"""Operators that cannot have launched the kernel they are recorded with."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.families import names

#: A grid this many times too small for its operator's tiles belongs to another operator.
_TOO_MANY: Final = 16.0
#: Blocks from which on a grid is as tall as a library makes it: taller products are launched in pieces.
_TALLEST: Final = 16_384


def distrust_calls(frame: pl.DataFrame) -> pl.DataFrame:
    """Set aside a product's operator where its tiles cannot lie on the grid: it launched another kernel.

    Kernels named by a fixed tile have a block per tile. Where the operator's result takes many times the
    blocks that ran (a profiler's wrong correlation, a size hint in place of a size), ``m``, ``n``, ``k``
    and ``batch`` become null and ``main`` false: the grid then tells them. Of a product launched in pieces,
    each as tall as a grid may be, a kernel keeps the rows of its piece.
    """
    tall = (
        pl.col("main")
        & (pl.col("family") == names.GEMM)
        & pl.col("name").str.contains("gemm_[0-9]+x[0-9]+")
        & (pl.col("grid_y") >= _TALLEST)
        & (pl.col("tiles") > pl.col("blocks"))
        & (pl.col("m") > pl.col("n"))
    ).fill_null(value=False)
    piece = (pl.col("m") * pl.col("blocks") / pl.col("tiles")).round()
    frame = frame.with_columns(
        pl.when(tall).then(piece).otherwise("m").alias("m"),
        pl.when(tall).then("blocks").otherwise("tiles").alias("tiles"),
    )
    wrong = (
        pl.col("main")
        & pl.col("family").is_in([names.GEMM, names.GEMV])
        & pl.col("name").str.contains("gemm_[0-9]+x[0-9]+")
        & (pl.col("tiles") > _TOO_MANY * pl.col("blocks"))
    ).fill_null(value=False)
    return frame.with_columns(
        *(
            pl.when(~wrong).then(c).alias(c)
            for c in ("m", "n", "k", "batch", "grid_fits", "persistent", "split_k")
        ),
        pl.when(wrong).then("blocks").otherwise("tiles").alias("tiles"),
        (pl.col("main") & ~wrong).alias("main"),
    )
