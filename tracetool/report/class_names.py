"""Names of classes of kernels as a table and a chart show them."""

from __future__ import annotations

import polars as pl


def with_distinct_names(classes: pl.DataFrame) -> pl.DataFrame:
    """Return measured classes, those of one kernel in several shapes named with their signature.

    Parameters
    ----------
    classes : DataFrame
        Rows of the ``energy`` table: ``class`` and ``signature``.

    >>> two = {"class": ["gemm", "gemm", "norm"], "signature": [0, 7, 2]}
    >>> with_distinct_names(pl.DataFrame(two))["class"].to_list()
    ['gemm #0', 'gemm #7', 'norm']
    """
    repeated = pl.col("class").is_duplicated() & pl.col("signature").is_not_null()
    numbered = pl.format("{} #{}", "class", "signature")
    return classes.with_columns(pl.when(repeated).then(numbered).otherwise("class").alias("class"))
