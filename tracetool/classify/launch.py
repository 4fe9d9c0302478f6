"""What a launch tells: tiles times grid give m and n, blocks times elements per block give counts."""

from __future__ import annotations

import polars as pl

#: Elements one thread of a vectorized kernel handles besides its vector width (PyTorch's ``thread_work_size``).
_WORK_PER_THREAD = 4


def from_launch(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``grid_elements`` and ``launch_m``, ``launch_n``, ``launch_rows``, ... where name and grid tell them.

    Tiles are turned to the operator's view: libraries are column-major, so the name's first tile number
    runs along a framework's n.
    """
    threads, blocks = pl.col("threads"), pl.col("blocks")
    per_thread = (
        pl.when(pl.col("elements_per_thread").is_not_null())
        .then(pl.col("elements_per_thread"))
        .when(pl.col("vec").is_not_null())
        .then(pl.max_horizontal(pl.col("vec"), pl.lit(_WORK_PER_THREAD)))
        .otherwise(None)
    )
    whole = blocks * threads * per_thread
    # the last block is half full on average
    elements = pl.when(blocks > 1).then(whole - threads * per_thread / 2).otherwise(whole)
    absent = pl.lit(None, dtype=pl.Float64)
    swapped = pl.col("family").is_in(["gemm", "gemv", "moe", "conv"])
    return frame.with_columns(
        elements.cast(pl.Float64).alias("grid_elements"),
        *(
            absent.alias(f"launch_{c}")
            for c in ("m", "n", "k", "batch", "rows", "cols", "q_len", "kv_len", "heads")
        ),
        pl.when(swapped).then(pl.col("tile_n")).otherwise(pl.col("tile_m")).alias("tile_m"),
        pl.when(swapped).then(pl.col("tile_m")).otherwise(pl.col("tile_n")).alias("tile_n"),
    )
