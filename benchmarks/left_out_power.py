"""Power where nothing was fitted: operand patterns, metered products, a laptop's kernels; controls beside.

    python benchmarks/left_out_power.py ../shared/data

Kernels are predicted at all clocks from one measured row each. The controls are: time by the inverse of the
clock with power kept (naive), and time and power by one line each in the logarithm of the clock, fitted to
all other kernels of the same GPU (simple). The laptop is predicted by its own description and by another Ada
GPU's voltage.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import operand_power
import polars as pl
from anchored_sets import laptop_kernels

import tracetool.replay.predict_table as prediction
from tracetool.api.calibrate import calibrate
from tracetool.hardware.load import load_gpu
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions

KEYS = ["kernel", "clock_mhz"]
TRUTH = ("duration_us", "power_w", "energy_mj")


def metered(root: Path) -> pl.DataFrame:
    """Return the metered products: kernel, clocks, truth and chip temperature."""
    table = pl.read_parquet(root / "dvfs/rtx4000ada_gemm_variants_metered.parquet")
    renamed = table.rename({"variant": "kernel", "clock_actual_mhz": "ran_mhz", "meter_power_w": "power_w"})
    return _with_truth(renamed.with_columns(duration_us=pl.col("time_ms") * 1e3))


def laptop(root: Path) -> pl.DataFrame:
    """Return the laptop's kernels at the clocks they ran at: above what it reaches it runs at less."""
    table = laptop_kernels(root).rows.select(
        *KEYS, pl.col("clock_mhz").alias("ran_mhz"), "duration_us", "power_w"
    )
    return _with_truth(table)


def _with_truth(table: pl.DataFrame) -> pl.DataFrame:
    energy = (pl.col("power_w") * pl.col("duration_us") * 1e-3).alias("energy_mj")
    return table.with_columns(pl.col("clock_mhz").cast(pl.Float64), energy).sort(KEYS)


def _line(table: pl.DataFrame, start: pl.DataFrame, column: str) -> Any:
    """Return a column by one slope in the logarithm of the clock, each kernel's own rows left out of it."""
    joined = table.join(start, on="kernel", suffix="_start")
    octaves = np.log(joined["ran_mhz"] / joined["ran_mhz_start"]).to_numpy()
    change = np.log(joined[column] / joined[f"{column}_start"]).to_numpy()
    names = joined["kernel"].to_numpy()
    slopes = np.zeros(len(names))
    for name in np.unique(names):
        rest = names != name
        slopes[names == name] = (octaves[rest] @ change[rest]) / max(octaves[rest] @ octaves[rest], 1e-12)
    return joined[f"{column}_start"].to_numpy() * np.exp(slopes * octaves)


def _show(label: str, table: pl.DataFrame, predicted: dict[str, Any], bounds: dict[str, Any] | None) -> None:
    texts = []
    for column in TRUTH:
        truth = table[column].to_numpy()
        held = ""
        if bounds is not None:
            low, high = bounds[column]
            held = f" in {100 * ((low <= truth) & (truth <= high)).mean():3.0f} %"
        texts.append(
            f"{column.rpartition('_')[0]} {100 * np.abs(predicted[column] / truth - 1).mean():5.1f} %{held}"
        )
    print(f"  {label:34s} " + "  ".join(texts))


def from_one_clock(
    table: pl.DataFrame, gpu: Any, anchors: tuple[float, ...], label: str, extra: list[str]
) -> None:
    """Print the errors of all other clocks from each of some, beside the controls."""
    prediction.load_gpu = lambda _name: gpu
    clocks = table["clock_mhz"].unique().sort().to_list()
    for anchor in anchors:
        start = table.filter(pl.col("clock_mhz") == anchor)
        kernels = start.select(
            "kernel", pl.col("ran_mhz").alias("clock_mhz"), "duration_us", "power_w", *extra
        )
        frame = prediction.predict_table(kernels, gpu.name, clocks).frame.unique(KEYS)
        away = table.filter(pl.col("clock_mhz") != anchor)
        rest = away.join(start.select("kernel"), on="kernel", how="semi", maintain_order="left")
        ours = rest.select(KEYS).join(frame, on=KEYS, how="left", maintain_order="left")
        lows = (
            ("duration_low_us", "duration_high_us"),
            ("power_low_w", "power_high_w"),
            ("energy_low_mj", "energy_high_mj"),
        )
        bounds = {c: tuple(ours[b].to_numpy() for b in pair) for c, pair in zip(TRUTH, lows, strict=True)}
        _show(f"{label} from {anchor:g} MHz", rest, {c: ours[c].to_numpy() for c in TRUTH}, bounds)
        one = rest.join(start, on="kernel", suffix="_start")
        slower = (one["ran_mhz_start"] / one["ran_mhz"]).to_numpy()
        naive = {
            "duration_us": one["duration_us_start"].to_numpy() * slower,
            "power_w": one["power_w_start"].to_numpy(),
        }
        line = {c: _line(rest, start, c) for c in ("duration_us", "power_w")}
        for name, control in (("naive", naive), ("simple", line)):
            _show(
                f"  {name}",
                rest,
                control | {"energy_mj": control["duration_us"] * control["power_w"] * 1e-3},
                None,
            )


def five_rows(root: Path, kernels: int, *, calibrated: bool = True) -> pl.DataFrame:
    """Return truth and prediction of the laptop's kernels from one clock each, of five clocks in turn.

    Before, a calibration sees five rows of each of some other kernels, seven draws of them in turn. Without
    it the same kernels are predicted.
    """
    of = laptop_kernels(root)
    measured = ["kernel", "clock_mhz", "duration_us", "power_w"]
    table = of.rows.with_columns((pl.col("power_w") * pl.col("duration_us") * 1e-3).alias("energy_mj"))
    clocks = table["clock_mhz"].unique().sort()
    five = [float(clocks[i]) for i in np.linspace(1, len(clocks) - 2, 5).round().astype(int).tolist()]
    names = table["kernel"].unique().sort().to_list()
    scored = []
    with TemporaryDirectory() as folder:
        for first in range(0, len(names), 4):
            donors = (names + names)[first : first + kernels]
            assumed = NOTHING_ASSUMED
            if calibrated:
                near = [
                    table.filter(pl.col("kernel") == donor)
                    .sort((pl.col("clock_mhz") - clock).abs())
                    .select(measured)[0]
                    for donor in donors
                    for clock in five
                ]
                pl.concat(near).unique(KEYS, maintain_order=True).write_csv(f"{folder}/five.csv")
                calibrate([f"{folder}/five.csv"], of.gpu).save(f"{folder}/five.toml")
                assumed = Assumptions.read([f"{folder}/five.toml"])
            others = table.filter(~pl.col("kernel").is_in(donors))
            for anchor in five:
                start = others.filter(pl.col("clock_mhz") == anchor).select(measured)
                predicted = prediction.predict_table(start, of.gpu, clocks.to_list(), assumed=assumed).frame
                away = others.filter(pl.col("clock_mhz") != anchor)
                scored.append(away.join(predicted, on=KEYS, suffix="_p"))
    return pl.concat(scored)


def own_rows(root: Path) -> None:
    """Print the laptop's errors from one clock each, before and after five rows of some others."""
    lows = (
        ("duration_low_us", "duration_high_us"),
        ("power_low_w", "power_high_w"),
        ("energy_low_mj", "energy_high_mj"),
    )
    for kernels in (1, 2, 3, 5, 10):
        for who, calibrated in (("five rows of each of", True), ("the same without", False)):
            pooled = five_rows(root, kernels, calibrated=calibrated)
            bounds = {
                c: tuple(pooled[b].to_numpy() for b in pair) for c, pair in zip(TRUTH, lows, strict=True)
            }
            predicted = {c: pooled[f"{c}_p"].to_numpy() for c in TRUTH}
            _show(f"{who} {kernels} others", pooled, predicted, bounds)


def main() -> None:
    """Print every section."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    print("metered: 282 variants of a product, RTX 4000 Ada, external meter, temperature of one row stated")
    from_one_clock(metered(root), load_gpu("rtx-4000-ada"), (1485, 1665, 1815), "Ada", ["temperature_c"])
    print("laptop: 28 kernels, RTX 4050")
    own, other = load_gpu("rtx-4050-laptop"), load_gpu("rtx-4000-ada")
    anchors = (765, 1305, 1845, 2385, 2520)
    from_one_clock(laptop(root), replace(own, voltage=other.voltage), anchors, "RTX 4000 Ada's voltage", [])
    prediction.load_gpu = load_gpu
    own_rows(root)
    operand_power.report(root)


if __name__ == "__main__":
    main()
