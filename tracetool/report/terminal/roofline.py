"""How achieved rates look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracetool.core.number_text import number
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from tracetool.replay.roofline import Roofline


def print_achieved(
    source: Roofline, rows: pl.DataFrame, written: Sequence[str | os.PathLike[str]], *, gemm: bool
) -> None:
    """Print operators, or matrix products, the highest energy first."""
    screen = open_console()
    say(screen, f"Achieved on {source.gpu}, against its roofline at {number(source.clock_mhz)} MHz", "bold")
    size = pl.format("{}x{}x{}", "m", "n", "k")
    # rows of one operator differ by shape alone
    shape = pl.when(pl.col("m").is_not_null()).then(size).otherwise(pl.col("shape").str.strip_chars())
    table = rows.select(
        pl.concat_str("operator", pl.when(shape != "").then(shape), separator=" ", ignore_nulls=True).alias(
            "name"
        ),
        "energy_j",
        (100.0 * pl.col("share")).alias("share_pct"),
        "time_ms",
        pl.col("tflops").alias("TFLOP/s"),
        *_counted(rows),
        (100.0 * pl.col("roofline_share")).alias("of roof_pct"),
        pl.col("gflop_per_joule").alias("GFLOP/J"),
        pl.col("tbps").alias("TB/s"),
        pl.col("flop_per_byte").alias("FLOP/B"),
        "dtype",
        *(["layout", "batch"] if gemm else []),
        "launches",
        "source",
    )
    if table.height:
        show_table(table, console=screen, about=["TFLOP/s", "of roof_pct"])
    else:
        say(screen, "no matrix product of known shape ran" if gemm else "no operator ran")
    for note in source.notes:
        say(screen, f"note: {note}", "dim")
    for path in written:
        say(screen, f"wrote {path}")


def _counted(rows: pl.DataFrame) -> list[pl.Expr]:
    """Return the columns of what a profiler counted, where it did."""
    columns = {
        "flops_error_pct": "FLOP err_pct", "dram_error_pct": "bytes err_pct",
        "measured_tflops": "counted TFLOP/s", "measured_tbps": "counted TB/s",
    }  # fmt: skip
    return [pl.col(c).alias(title) for c, title in columns.items() if rows[c].count()]
