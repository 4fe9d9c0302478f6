"""Power over a whole run, and the samples behind every curve, as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracetool.measure.fingrav.curves import FineProfile, RunTrend


def run_trends(profile: FineProfile) -> list[RunTrend]:
    """Return power over a run, of all and of each part the logger reports, where there are samples for it."""
    return [t for t in (profile.run_trend, *profile.component_trends) if len(t.time_s)]


def run_record(trend: RunTrend) -> dict[str, Any]:
    """Return how power begins, where it is highest and how it ends over a run, as plain values."""
    highest = int(np.argmax(trend.power_w))
    return {
        "component": trend.component,
        "length_ms": float(trend.time_s[-1]) * 1e3,
        "first_w": float(trend.power_w[0]),
        "highest_w": float(trend.power_w[highest]),
        "highest_at_ms": float(trend.time_s[highest]) * 1e3,
        "last_w": float(trend.power_w[-1]),
        "samples": len(trend.sample_w),
    }


def run_rows(kernel: str, trend: RunTrend) -> pl.DataFrame:
    """Return the trend of a run as rows of the ``profile`` table, of kind ``run``."""
    return pl.DataFrame(
        {
            "kernel": kernel,
            "kind": "run",
            "component": trend.component,
            "phase": trend.time_s / trend.time_s[-1],
            "time_us": trend.time_s * 1e6,
            "power_w": trend.power_w,
            "power_low_w": trend.low_w,
            "power_high_w": trend.high_w,
            "polynomial_w": trend.power_w,
        }
    )


def samples_of_interest(fine: FineProfile) -> pl.DataFrame:
    """Return the samples behind each curve, and when within an execution, or a run, each was taken."""
    taken = [(c.kind, c.component, c.sample_phase * fine.duration_s, c.sample_w) for c in fine.curves]
    taken += [("run", t.component, t.sample_time_s, t.sample_w) for t in run_trends(fine)]
    return pl.concat(
        [
            pl.DataFrame({"kind": kind, "component": component, "time_us": at_s * 1e6, "power_w": power_w})
            for kind, component, at_s, power_w in taken
        ]
    )
