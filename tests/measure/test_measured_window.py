"""The measured energy of a run is that of the trace's window, however long the log goes on after it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracetool.measure.attribute import attribute_run
from tracetool.tables.run import Run


def measured_j(run: Run) -> float:
    return float(attribute_run(run).scopes["run"]["energy_j"])


def test_a_log_that_goes_on_adds_nothing(sample_run: Path) -> None:
    run = Run.open(sample_run)
    usual = measured_j(run)
    readings = run.telemetry.sort("time_ns")
    times = readings["time_ns"].unique().sort()
    step = int(times.diff().drop_nulls().to_numpy().mean())
    last = readings.filter(pl.col("time_ns") == times[-1])
    after = pl.concat(
        [last.with_columns(pl.col("time_ns") + step * i) for i in range(1, int(5e9 / step))]
    )  # five seconds more, idle
    longer = Run(run.path, run.info)
    longer.__dict__["telemetry"] = pl.concat([readings, after])
    assert measured_j(longer) == pytest.approx(usual, rel=0.02)
    kernels = run.kernels
    span_s = float((kernels["start_ns"] + kernels["duration_ns"]).max() - kernels["start_ns"].min()) / 1e9
    assert usual <= 700.0 * span_s * 1.02  # no more than the limit over the window
