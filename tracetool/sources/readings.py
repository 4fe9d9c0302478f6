"""Readings of a log put in order: repeats, steps back, gaps and absurd values are reported, not hidden."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.sources.columns import TIME_LIMIT_NS, rejected_rows
from tracetool.sources.format import Trace

#: No GPU draws more, no sensor reads less. [W]
POWER_RANGE_W = (0.0, 20_000.0)
#: A pause this many times the usual spacing is a gap.
GAP_SPACINGS = 10.0


def tidy_readings(trace: Trace, path: Path) -> Trace:
    """Sort a source's readings by device and time, drop exact repeats, reject absurd ones, in place."""
    frame = trace.telemetry
    if not frame.height:
        return trace
    absurd = ~pl.col("time_ns").is_between(-TIME_LIMIT_NS, TIME_LIMIT_NS)
    if "power_w" in frame.columns:
        absurd = absurd | ~pl.col("power_w").is_between(*POWER_RANGE_W).fill_null(value=True)
    bad = frame.filter(absurd.fill_null(value=True))
    if bad.height:
        kept = bad.head(1000)
        texts = [
            str(r) for r in kept.select("time_ns", "power_w" if "power_w" in bad.columns else "device").rows()
        ]
        trace.rejected.append(
            rejected_rows(path.name, [path.name] * kept.height, "impossible reading", texts)
        )
        frame = frame.filter(~absurd.fill_null(value=True))
    own = ["device", *[c for c in ("field",) if c in frame.columns]]
    back = frame.select((pl.col("time_ns").diff().over(own) < 0).sum()).item()
    if back:
        trace.warnings.append(f"{back} readings stand out of order in the log: sorted by time")
    tidy = frame.unique(maintain_order=True)
    if repeats := frame.height - tidy.height:
        trace.warnings.append(f"{repeats} readings repeat an earlier one of the same time: kept once")
    tidy = tidy.sort("device", "time_ns", maintain_order=True)
    if gap := _longest_gap(tidy):
        trace.warnings.append(gap)
    trace.telemetry = tidy
    return trace


def _longest_gap(frame: pl.DataFrame) -> str:
    step = frame.select(pl.col("time_ns").diff().over("device").alias("step")).filter(pl.col("step") > 0)[
        "step"
    ]
    usual = step.median()
    if not isinstance(usual, float) or len(step) < 20:
        return ""
    gaps = step.filter(step > max(GAP_SPACINGS * usual, 2e9))
    if not len(gaps):
        return ""
    longest = gaps.max()
    seconds = longest / 1e9 if isinstance(longest, int) else 0.0
    return f"the log has {len(gaps)} gaps, the longest {seconds:.1f} s: energy there is not measured"
