"""Fit the time calibrations that are delivered, from the measured operators beside the checkout.

usage: python benchmarks/fit_time.py [DATA_ROOT] [GPU ...]      default: ../shared/data, every GPU in it

Writes tracetool/hardware/calibrations/<gpu>.time.toml and prints each law's error on shapes held out.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from latency_tables import latency_rows, latency_tables

from tracetool.calibrate.time import LawFit, TimeFit, fit_time
from tracetool.calibrate.time_file import time_toml
from tracetool.hardware.load import load_gpu
from tracetool.model.laws.registry import laws
from tracetool.model.predict import predict_rows
from tracetool.workflows.tables import read_table

HERE = Path(__file__).resolve().parent.parent
CALIBRATIONS = HERE / "tracetool" / "hardware" / "calibrations"
#: What the latency set adds to every row: its host waits between the marks. Not the kernels' own.
OVERHEAD = ("launch_us", "floor_us")


def say(gpu: str, fit: TimeFit) -> None:
    for law, found in fit.laws.items():
        print(
            f"{gpu:14s} {law:16s} {found.rows:6d} rows  held out MAPE {found.mape_percent:5.1f} % "
            f"MdAPE {found.mdape_percent:5.1f} %  interval holds {found.coverage_percent:5.1f} %",
            flush=True,
        )


def without_overhead(law: str, found: LawFit) -> LawFit:
    """Return a fit with the set's own overhead put back to the law's prior."""
    prior = {k: laws()[law].priors[k].value for k in OVERHEAD if k in found.values}
    bounds = {
        k: {n: v for n, v in side.items() if n not in OVERHEAD}
        for k, side in (("low", found.low), ("high", found.high))
    }
    return replace(found, values={**found.values, **prior}, low=bounds["low"], high=bounds["high"])


def fit_latency(root: Path, wanted: set[str]) -> None:
    """Fit the boards of the latency set: FP32 products, rows and streams."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for gpu, _, table in latency_tables(root / "latency"):
        tables.setdefault(gpu, []).append(table)
    for name, frames in tables.items():
        if wanted and name not in wanted:
            continue
        frame = pl.concat(frames, how="diagonal_relaxed")
        gpu, rows = load_gpu(name), latency_rows(frame)
        clock = predict_rows(rows, gpu, np.array([gpu.clock_boost_mhz])).clock_mhz[:, 0]
        fit = fit_time(rows, frame["measured_us"].to_numpy() * 1e-6, gpu, clock)
        say(name, fit)
        kept = TimeFit(name, {law: without_overhead(law, found) for law, found in fit.laws.items()})
        about = {
            "command": "python benchmarks/fit_time.py",
            "data": "FP32 operators of a framework; coefficients leave out the set's host overhead",
        }
        (CALIBRATIONS / f"{name}.time.toml").write_text(
            time_toml(kept, about=about, source="neusight-labels")
        )


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "shared" / "data")
    wanted = set(sys.argv[2:])
    tables: dict[str, list[pl.DataFrame]] = {}
    for path in sorted((root / "ops").glob("*.parquet")):
        frame = pl.read_parquet(path)
        tables.setdefault(frame["gpu"][0], []).append(frame.drop("measured_w", "power_limit_w", strict=False))
    for name, frames in tables.items():
        if wanted and name not in wanted:
            continue
        began = time.time()
        gpu = load_gpu(name)
        frame = pl.concat(frames, how="diagonal_relaxed").with_columns(pl.int_range(pl.len()).alias("count"))
        table = read_table(frame.drop("measured_us", "gpu", "count"))
        # rows that say the same are one: the median of what was measured of them
        measured = frame.with_columns(pl.Series("place", table.index)).group_by("place", maintain_order=True)
        seconds = measured.agg(pl.col("measured_us").median()).sort("place")["measured_us"].to_numpy() * 1e-6
        # what the power cap leaves of the boost clock, by the calibrations delivered so far
        clock = predict_rows(table.rows, gpu, np.array([gpu.clock_boost_mhz])).clock_mhz[:, 0]
        fit = fit_time(table.rows, seconds, gpu, clock)
        about = {"command": "python benchmarks/fit_time.py", "data": "single operators, loops of replays"}
        text = time_toml(fit, about=about, source="aiconfigurator-perf")
        (CALIBRATIONS / f"{name}.time.toml").write_text(text)
        say(name, fit)
        print(f"{name}: {time.time() - began:.0f} s", flush=True)
    fit_latency(root, wanted)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
