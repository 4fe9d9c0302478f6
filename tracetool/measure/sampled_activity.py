"""Activity of SMs, tensor cores and DRAM that hardware counters sampled beside a run."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.number_text import counted, number

#: Column to what it is a share of.
SHARES: Final = {"act_sm": "SMs active", "act_tensor": "tensor cores", "act_dram": "DRAM bandwidth"}


def sampled_activity(telemetry: pl.DataFrame) -> str:
    """Return mean shares and clocks of one GPU's samples as text; empty where no sample has a share.

    Parameters
    ----------
    telemetry : DataFrame
        ``telemetry`` schema, one GPU; tables of earlier versions have no such columns.

    Notes
    -----
    Samples are taken at even spacing, so their mean is that of the time they span.
    """
    shares = {c: words for c, words in SHARES.items() if c in telemetry.columns}
    if not shares:
        return ""
    samples = telemetry.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in shares))
    if not samples.height:
        return ""
    means = samples.select(pl.col(c).mean() for c in shares).row(0, named=True)
    phrases = [
        f"{words} {number(100.0 * means[c], 3)} %" for c, words in shares.items() if means[c] is not None
    ]
    clocks = samples["clock_mhz"].drop_nulls()
    if len(clocks):
        low, high = (number(float(clocks.quantile(q) or 0.0)) for q in (0.05, 0.95))
        phrases.append(
            f"clock {low} MHz" if low == high else f"clock {low} to {high} MHz (5 to 95 % of samples)"
        )
    return f"{', '.join(phrases)}; mean of {counted(samples.height, 'sample')}"


def activity_notes(telemetry: pl.DataFrame) -> list[str]:
    """Return a sentence on the sampled activity of each GPU."""
    by_device = (
        telemetry.partition_by("device", as_dict=True, maintain_order=True) if telemetry.height else {}
    )
    sentences = {device: sampled_activity(samples) for (device,), samples in by_device.items()}
    shown = {d: s for d, s in sentences.items() if s}
    of = {d: f" of GPU {d}" if len(shown) > 1 else "" for d in shown}
    return [f"measured activity{of[d]}: {sentence}" for d, sentence in shown.items()]


def activity_by_signature(kernels: pl.DataFrame, telemetry: pl.DataFrame) -> pl.DataFrame:
    """Return the activity sampled while each signature ran alone.

    Parameters
    ----------
    kernels : DataFrame
        ``kernels`` of a run: ``device``, ``start_ns``, ``duration_ns`` and ``signature`` are read.
    telemetry : DataFrame
        ``telemetry`` schema.

    Returns
    -------
    DataFrame
        ``signature``, ``samples`` and the mean of each share that was sampled [1]; signatures without a
        sample of their own are left out.

    Notes
    -----
    A sample counts for a kernel that ran alone from one sampling period before its time to one after it:
    profilers stamp either end of the period. Kernels shorter than two periods have none.
    """
    shares = [c for c in SHARES if c in telemetry.columns]
    columns = {"signature": pl.Int64, "samples": pl.Int64, **dict.fromkeys(SHARES, pl.Float64)}
    empty = pl.DataFrame(schema=columns)
    if not shares:
        return empty
    alone_samples = []
    sampled = telemetry.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in shares))
    for (device,), samples in sampled.sort("device", "time_ns").group_by("device", maintain_order=True):
        ran = kernels.filter(pl.col("device") == device).sort("start_ns")
        period = samples["time_ns"].diff().drop_nulls().median()
        if not ran.height or not isinstance(period, float) or period <= 0:
            continue
        start = ran["start_ns"].to_numpy()
        end = start + ran["duration_ns"].to_numpy()
        time = samples["time_ns"].to_numpy()
        low, high = time - int(period), time + int(period)
        at = np.searchsorted(start, low, side="right") - 1
        inside = at >= 0
        kernel = np.maximum(at, 0)
        before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]])
        after = np.concatenate([start[1:], [np.iinfo(np.int64).max]])
        alone = inside & (end[kernel] >= high) & (before[kernel] <= low) & (after[kernel] >= high)
        signature = ran["signature"].cast(pl.Int64).gather(kernel[alone])
        alone_samples.append(
            samples.select(shares).filter(pl.Series(alone)).with_columns(signature=signature)
        )
    if not alone_samples:
        return empty
    means = pl.concat(alone_samples).group_by("signature", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("samples"), *(pl.col(c).mean() for c in shares)
    )  # fmt: skip
    return pl.concat([empty, means], how="diagonal").sort("signature")
