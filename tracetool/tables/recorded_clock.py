"""The core clock a run was recorded at, from its readings."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.number_text import counted
from tracetool.tables.run import Run

#: A reading counts as one under load from this utilization on. [1] By definition.
_LOADED: Final = 0.5


def recorded_clock(run: Run) -> tuple[float, str] | None:
    """Return the core clock a run was recorded at and a sentence on its source. [MHz]"""
    readings = run.telemetry.filter(pl.col("clock_mhz").is_not_null() & (pl.col("clock_mhz") > 0))
    kernels = run.table("kernels", ("start_ns", "duration_ns"))
    if not (readings.height and kernels.height):
        return None
    ends = (kernels["start_ns"] + kernels["duration_ns"]).max()
    inside = readings.filter(pl.col("time_ns").is_between(kernels["start_ns"].min(), ends))
    loaded = inside.filter(pl.col("utilization").fill_null(1.0) >= _LOADED)
    for group in (loaded, inside):
        if group.height:
            clock = float(np.median(group["clock_mhz"].to_numpy()))
            return clock, f"recorded clock: {clock:g} MHz, median of {counted(group.height, 'reading')}"
    return None
