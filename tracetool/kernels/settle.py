"""Work per thread of newer streaming kernels, which names do not state: settled once for a run.

PyTorch's vectorized kernels handle 4 elements per thread in most releases, 8 in some and 16 for single bytes, under the
same name. A run was made with one release, so either kernels with known operators show the factor, or the memory does: at
the right factor large kernels stream near, and never beyond, what the memory can.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.dtype import BYTES
from tracetool.hardware.gpu import Gpu

#: Kernels whose work per thread depends on the release.
_OPEN: Final = "vectorized_elementwise_kernel|vectorized_templated"
#: Factors on 4 elements per thread.
_FACTORS: Final = (1.0, 2.0, 4.0)
#: Fewest large kernels that settle it.
_LEAST: Final = 3


def settle_work(frame: pl.DataFrame, boards: dict[str | None, Gpu]) -> pl.DataFrame:
    """Multiply ``launch_elements`` of vectorized kernels by the factor their run shows, per device.

    ``frame`` holds ``launch_elements``, ``elements`` (from operators), ``operands``, ``dtype``, ``duration_us``.
    """
    factors = []
    for device in frame["device_name"].unique(maintain_order=True).to_list():
        factor = _factor(frame.filter(pl.col("device_name").eq_missing(pl.lit(device))), boards.get(device))
        if factor != 1.0:
            factors.append((device, factor))
    if not factors:
        return frame
    wide = pl.lit(1.0)
    for device, factor in factors:
        wide = pl.when(pl.col("device_name").eq_missing(pl.lit(device))).then(factor).otherwise(wide)
    vectorized = _is_open()
    return frame.with_columns(
        pl.when(vectorized)
        .then(pl.col("launch_elements") * wide)
        .otherwise("launch_elements")
        .alias("launch_elements")
    )


def _is_open() -> pl.Expr:
    return pl.col("name").str.contains(_OPEN) & (pl.col("vec").fill_null(16) <= 4)


def _factor(frame: pl.DataFrame, gpu: Gpu | None) -> float:
    rows = frame.filter(_is_open() & (pl.col("launch_elements") > 0))
    if not rows.height:
        return 1.0
    measured = rows.filter(pl.col("elements").is_not_null() & (pl.col("blocks") >= 64))
    if measured.height:
        ratio = measured.select((pl.col("elements") / pl.col("launch_elements")).median()).item()
        return min(_FACTORS, key=lambda f: abs(f - ratio))
    if gpu is None:
        return 1.0
    size = pl.col("dtype").replace_strict(BYTES, default=4.0, return_dtype=pl.Float64)
    moved = pl.col("launch_elements") * pl.col("operands").fill_null(2) * size
    large = rows.select(moved.alias("moved"), (pl.col("duration_us") * 1e-6).alias("seconds")).filter(
        (pl.col("moved") > 2.0 * gpu.l2_bytes) & (pl.col("seconds") > 0)
    )
    if large.height < _LEAST:
        return 1.0
    fastest = float(large.select((pl.col("moved") / pl.col("seconds")).quantile(0.9)).item())
    room = gpu.dram_bytes_per_s / fastest
    return max((f for f in _FACTORS if f <= room), default=1.0)
