"""Operators of the public latency set beside the checkout: FP32, a framework's, on several GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.operators import OperatorColumns
from tracetool.hardware.load import match_gpu
from tracetool.kernels.classify import classify_names
from tracetool.replay.operator_tables import as_columns

#: Operands each elementwise operator reads; a name that ends in u takes a constant.
READS = {"add": 2, "mul": 2, "div": 2, "pow": 2}


def _operators(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    if "bmm" in name or "linear" in name:
        # the set writes (b, m, n) x (b, n, k), and the library lays its tiles along columns first
        named = classify_names(frame["kernel"].to_list())
        return frame.select(
            pl.lit("gemm").alias("family"),
            pl.col("b").alias("batch"),
            "m",
            pl.col("k").alias("n"),
            pl.col("n").alias("k"),
            named["tile_n"].alias("tile_m"),
            named["tile_m"].alias("tile_n"),
            (pl.col("grid_z") / pl.col("b")).clip(1.0).alias("split_k"),
            pl.lit(float("linear" in name)).alias("bias"),
        )
    if name in ("softmax", "ln"):
        op = "norm" if name == "ln" else "softmax"
        return frame.select(pl.lit(op).alias("family"), pl.col("b").alias("rows"), pl.col("h").alias("cols"))
    return frame.select(
        pl.lit("elementwise").alias("family"),
        (pl.col("b") * pl.col("h")).alias("elements"),
        pl.col("op").replace_strict(READS, default=1).alias("reads"),
        pl.lit(1).alias("writes"),
    )


def latency_tables(folder: Path) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield GPU, set and operators with ``measured_us``; GPUs that are not known are left out."""
    for path in sorted(folder.glob("*.parquet")):
        frame = pl.read_parquet(path)
        for (device,), part in frame.group_by("device", maintain_order=True):
            gpu = match_gpu(str(device))
            if gpu is None:
                continue
            table = _operators(path.stem, part).with_columns(
                pl.lit("fp32").alias("dtype"), (part["measured_ms"] * 1e3).alias("measured_us")
            )
            yield gpu, path.stem, table


def latency_rows(table: pl.DataFrame) -> OperatorColumns:
    """Return one of these tables as columns of the model."""
    return as_columns(table.drop("family", "measured_us"), table["family"])


def without_tiles(rows: OperatorColumns) -> OperatorColumns:
    """Return rows without what their kernels' names say of tiles."""
    blank = np.full(len(rows), np.nan)
    return OperatorColumns(rows.family, {**rows.columns, "tile_m": blank, "tile_n": blank, "split_k": blank})
