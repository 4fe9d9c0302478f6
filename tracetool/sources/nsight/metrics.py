"""Hardware metrics sampled on the GPUs of an export: clocks and activity."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.number_text import counted
from tracetool.sources.columns import clean_text
from tracetool.sources.nsight.store import Store

_I, _S = pl.Int64(), pl.String()
NAMES: Final = "TARGET_INFO_GPU_METRICS"
SAMPLES: Final = "GPU_METRICS"
#: No GPU clocks higher: beyond it a reading is an overflow, not a clock. [MHz]
CLOCK_LIMIT_MHZ = 4000.0
#: How the metrics read here begin, in all sets of metrics: units follow in brackets or not at all.
_READ: Final = {
    "clock": r"gpc clock frequency",
    "act_sm": r"^sms? active",
    "act_tensor": r"^tensor active(?: *\[|$)",
    "dram_read": r"^dram read (?:throughput|bandwidth)",
    "dram_write": r"^dram write (?:throughput|bandwidth)",
}
#: Names listed of the metrics that are not read.
_LISTED = 6


def read_metrics(store: Store, warnings: list[str]) -> pl.DataFrame:
    """Return ``time_ns``, ``gpu``, ``clock_mhz``, ``utilization`` and ``act_*``, empty without samples.

    Notes
    -----
    ``GPC Clock Frequency`` is in Hz in a signed 32-bit field: negative values are wrapped. Metric
    numbers mean nothing across files, so metrics are found by name. The others are percents of what is
    sustained at most; bytes read and written share one DRAM, so their shares add.
    """
    names = store.read(NAMES, {"typeId": _I, "metricId": _I, "metricName": _S}).drop("rowid")
    low = pl.col("metricName").str.to_lowercase()
    what = pl.coalesce(*[pl.when(low.str.contains(p)).then(pl.lit(w)) for w, p in _READ.items()])
    names = names.drop_nulls().with_columns(what=what).sort("typeId", "metricId")
    chosen = names.drop_nulls("what").unique(["typeId", "what"], keep="first")
    _name_unread(store, names, chosen, warnings)
    if not chosen.height:
        return pl.DataFrame()
    ids = chosen["metricId"].unique().to_list()
    columns = {"timestamp": _I, "typeId": _I, "metricId": _I, "value": pl.Float64()}
    rows = store.read(SAMPLES, columns, ("metricId", ids)).drop_nulls(["timestamp", "typeId", "value"])
    rows = rows.join(chosen.select("typeId", "metricId", "what"), on=["typeId", "metricId"])
    if not rows.height:
        return pl.DataFrame()
    # The highest of a metric's values at one time: the same whatever order the rows lie in.
    at_times = rows.group_by("typeId", "timestamp").agg(
        pl.col("value").filter(pl.col("what") == w).max().alias(w) for w in _READ
    )
    clock = (pl.col("clock").cast(_I, strict=False) & 0xFFFFFFFF) / 1e6
    at_times = at_times.with_columns(clock_mhz=clock)
    good = pl.col("clock_mhz").is_between(1.0, CLOCK_LIMIT_MHZ)
    if dropped := at_times.filter(~good).height:
        count = at_times["clock_mhz"].count()
        warnings.append(f"{dropped} of {count} clock samples are out of range and left out")
    return at_times.select(
        time_ns=pl.col("timestamp"),
        gpu=pl.col("typeId") & 0xFF,
        clock_mhz=pl.when(good).then("clock_mhz"),
        utilization=_share("act_sm"),
        act_sm=_share("act_sm"),
        act_tensor=_share("act_tensor"),
        act_dram=(pl.sum_horizontal(_share("dram_read"), _share("dram_write"), ignore_nulls=False)).clip(
            0, 1
        ),
    ).sort("gpu", "time_ns")


def _share(column: str) -> pl.Expr:
    return (pl.col(column) / 100).clip(0, 1)


def _name_unread(store: Store, names: pl.DataFrame, chosen: pl.DataFrame, warnings: list[str]) -> None:
    """Name the metrics that were sampled and are not read."""
    samples = store.count(SAMPLES)
    unread = names.join(chosen, on=["typeId", "metricId"], how="anti")["metricName"].unique().sort()
    if not samples or not len(unread):
        return
    listed = ", ".join(
        unread.head(_LISTED).to_frame().select(clean_text("metricName").str.head(60)).to_series()
    )
    more = f" and {len(unread) - _LISTED} more" if len(unread) > _LISTED else ""
    warnings.append(
        f"{SAMPLES} has {counted(samples, 'sample')}: clocks and activity of SMs, tensor cores and DRAM"
        f" are read, not {listed}{more}"
    )
