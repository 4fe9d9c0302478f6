"""Programs under caps, and names at two clocks, against measurements: errors and coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.replay.predict import predict_table

pytestmark = pytest.mark.data


def _under_caps(frame: pl.DataFrame, gpu: str, top_mhz: float) -> pl.DataFrame:
    rows = frame.group_by("kernel", "cap_w").agg(pl.col("time_s", "power_w").median()).sort("kernel", "cap_w")
    highest = rows.group_by("kernel", maintain_order=True).last()
    anchors = highest.select(
        "kernel", "power_w", duration_us=pl.col("time_s") * 1e6, clock_mhz=pl.lit(top_mhz)
    )
    joined = []
    for (cap,), measured in rows.group_by(["cap_w"], maintain_order=True):
        predicted = predict_table(anchors, gpu, [top_mhz], power_cap_w=float(str(cap))).frame
        columns = ("duration_us", "energy_mj", "energy_low_mj", "energy_high_mj", "throttled")
        joined.append(measured.join(predicted.select("kernel", *columns), on="kernel"))
    free = highest.select("kernel", free_s="time_s")
    return pl.concat(joined).join(free, on="kernel").filter(pl.col("time_s") > 1.02 * pl.col("free_s"))


@pytest.mark.parametrize(
    ("name", "gpu", "top_mhz", "time_error", "energy_error"),
    [
        ("a100_altis_caps", "a100-pcie-40gb", 1410.0, 3.5, 6.0),
        ("v100_training_caps", "v100-pcie", 1380.0, 4.9, 6.0),
    ],
)
def test_programs_that_a_cap_slows(
    data: Path, name: str, gpu: str, top_mhz: float, time_error: float, energy_error: float
) -> None:
    frame = pl.read_parquet(data / f"dvfs/{name}.parquet")
    if "kind" in frame.columns:
        frame = frame.filter(pl.col("kind") == "single_cap/gpu")
    slowed = _under_caps(frame, gpu, top_mhz)
    energy_mj = slowed["time_s"] * slowed["power_w"] * 1e3
    assert 100 * (slowed["duration_us"] / slowed["time_s"] / 1e6 - 1).abs().mean() < time_error
    assert 100 * (slowed["energy_mj"] / energy_mj - 1).abs().mean() < energy_error
    inside = (energy_mj >= slowed["energy_low_mj"]) & (energy_mj <= slowed["energy_high_mj"])
    assert inside.mean() >= 0.85
    assert slowed["throttled"].mean() >= 0.8


def test_two_clocks_tell_how_a_time_divides_without_counters(data: Path) -> None:
    frame = pl.read_parquet(data / "dvfs/v100_applications_activity.parquet")
    clock = pl.col("clock_mhz").cast(pl.Float64)
    frame = frame.select("kernel", "power_w", clock, duration_us=pl.col("time_s") * 1e6)
    anchors = frame.filter(pl.col("clock_mhz").is_in([600.0, 1237.0]))
    clocks = sorted(float(c) for c in frame["clock_mhz"].unique())
    predicted = predict_table(anchors, "v100-pcie", clocks).frame.unique(["kernel", "clock_mhz"])
    joined = frame.join(
        predicted.select("kernel", "clock_mhz", predicted_us="duration_us"), on=["kernel", "clock_mhz"]
    )
    away = joined.filter(~pl.col("clock_mhz").is_in([600.0, 1237.0]))
    error = np.abs(away["predicted_us"].to_numpy() / away["duration_us"].to_numpy() - 1)
    assert error.mean() < 0.04
