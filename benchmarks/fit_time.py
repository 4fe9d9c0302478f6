"""Fit the time calibrations that are delivered, from the measured operators beside the checkout.

usage: python benchmarks/fit_time.py [DATA_ROOT] [GPU ...]      default: ../shared/data, every GPU in it

Writes tracetool/hardware/calibrations/<gpu>.time.toml and prints each law's error on shapes held out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.calibrate.time import fit_time
from tracetool.calibrate.time_file import time_toml
from tracetool.hardware.load import load_gpu
from tracetool.workflows.tables import read_table

HERE = Path(__file__).resolve().parent.parent


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
        fit = fit_time(table.rows, seconds, gpu)
        about = {"command": "python benchmarks/fit_time.py", "data": "single operators, loops of replays"}
        text = time_toml(fit, about=about, source="aiconfigurator-perf")
        (HERE / "tracetool" / "hardware" / "calibrations" / f"{name}.time.toml").write_text(text)
        for law, found in fit.laws.items():
            print(
                f"{name:10s} {law:16s} {found.rows:6d} rows  held out MAPE {found.mape_percent:5.1f} % "
                f"MdAPE {found.mdape_percent:5.1f} %  interval holds {found.coverage_percent:5.1f} %",
                flush=True,
            )
        print(f"{name}: {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
