"""GPU metrics sampled by Nsight Systems: a clock and utilization log inside the trace."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

Read = Callable[..., pl.DataFrame]
_I = pl.Int64()
#: No GPU clocks higher: beyond it a reading is an overflow, not a clock. [MHz]
CLOCK_LIMIT_MHZ = 4000.0


def read_metrics(read: Read, warnings: list[str]) -> pl.DataFrame:
    """Return ``time_ns``, ``gpu``, ``clock_mhz`` and ``utilization``; empty where nothing was sampled.

    Notes
    -----
    ``GPC Clock Frequency`` is in Hz in a signed 32-bit field: negative values are wrapped. Metric
    numbers mean nothing across files, so metrics are found by name.
    """
    names = read("TARGET_INFO_GPU_METRICS", {"typeId": _I, "metricId": _I, "metricName": pl.String()}).drop(
        "rowid"
    )
    low = pl.col("metricName").str.to_lowercase()
    chosen = names.with_columns(
        what=pl.when(low.str.contains("gpc clock frequency"))
        .then(pl.lit("clock"))
        .when(low.str.contains(r"^(?:sm active|sms active)"))
        .then(pl.lit("busy"))
    ).filter(pl.col("what").is_not_null())
    chosen = chosen.unique(["typeId", "what"], keep="first")
    if not chosen.height:
        return pl.DataFrame()
    ids = chosen["metricId"].drop_nulls().unique().to_list()
    rows = read(
        "GPU_METRICS",
        {"timestamp": _I, "typeId": _I, "metricId": _I, "value": pl.Float64()},
        ("metricId", ids),
    ).drop_nulls(["timestamp", "typeId", "value"])
    if not rows.height:
        return pl.DataFrame()
    rows = rows.join(chosen.select("typeId", "metricId", "what"), on=["typeId", "metricId"])
    clock = rows.filter(pl.col("what") == "clock").select(
        "typeId", "timestamp", clock_mhz=(pl.col("value").cast(_I, strict=False) & 0xFFFFFFFF) / 1e6
    )
    good = clock.filter(pl.col("clock_mhz").is_between(1.0, CLOCK_LIMIT_MHZ))
    if dropped := clock.height - good.height:
        warnings.append(f"{dropped} of {clock.height} clock samples are out of range and left out")
    busy = rows.filter(pl.col("what") == "busy").select(
        "typeId", "timestamp", utilization=(pl.col("value") / 100).clip(0, 1)
    )
    both = good.join(busy, on=["typeId", "timestamp"], how="full", coalesce=True)
    return both.select(
        time_ns=pl.col("timestamp"),
        gpu=pl.col("typeId") & 0xFF,
        clock_mhz="clock_mhz",
        utilization="utilization",
    ).sort("gpu", "time_ns")
