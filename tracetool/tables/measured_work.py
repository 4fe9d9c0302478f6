"""Operations and bytes that a profiler counted, beside those counted from shapes."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.number_text import counted
from tracetool.tables.run import Run

#: What is compared: in words, the model's column, the profiler's, and that of the error.
COMPARED: Final = (
    ("operations", "flops", "measured_flops", "flops_error_pct"),
    ("DRAM bytes", "dram_bytes", "measured_dram_bytes", "dram_error_pct"),
)


def work_by_signature(run: Run) -> pl.DataFrame:
    """Return the counted work of one launch of each signature; empty where nothing was counted.

    Returns
    -------
    DataFrame
        ``signature``, ``measured_flops`` [FLOP] and ``measured_dram_bytes`` [B]: means over the launches that
        were counted.
    """
    work = run.table("measured_work").drop_nulls("signature")
    return work.group_by("signature").agg(
        pl.col("flops").mean().alias("measured_flops"),
        pl.col("dram_bytes").mean().alias("measured_dram_bytes"),
    )


def with_errors_of_work(rows: pl.DataFrame, of_model: str = "") -> pl.DataFrame:
    """Return rows with the errors of the model's counts, null where either is not known.

    Parameters
    ----------
    rows : DataFrame
        With the columns of :data:`COMPARED`, and ``predicted_from``: only counts that rest on shapes are
        compared.
    of_model : str
        What follows the names of the model's columns.

    Notes
    -----
    An error is the model's count over the profiler's, minus one.
    """
    errors = []
    for _, modeled, measured, error in COMPARED:
        model = pl.col(f"{modeled}{of_model}")
        comparable = (
            (pl.col(measured) > 0) & (model > 0) & model.is_finite() & (pl.col("predicted_from") == "shapes")
        )
        errors.append(pl.when(comparable).then(100.0 * (model / pl.col(measured) - 1.0)).alias(error))
    return rows.with_columns(errors)


def work_notes(rows: pl.DataFrame) -> list[str]:
    """Return a sentence for each count on how far the model's is off, of rows with their errors."""
    notes = []
    for words, _, _, column in COMPARED:
        errors = rows[column].drop_nulls()
        if not len(errors):
            continue
        low, middle, high = (f"{errors.quantile(q, 'linear') or 0.0:+.3g}" for q in (0.1, 0.5, 0.9))
        spread = f"; 80 % of {counted(len(errors), 'row')} from {low} to {high} %" if len(errors) > 1 else ""
        notes.append(
            f"{words} counted from shapes are {middle} % off those a profiler counted (median{spread})"
        )
    return notes
