"""Times of programs from one clock, the constants of their division fitted without the program.

usage: python benchmarks/left_out_division.py [DATA_ROOT]      default: ../shared/data

The host's share, what idle SMs add to it, the memory share that sets the time alone, and the norm of core and
memory were fitted to all programs of the table. Here each program is predicted by constants fitted to the
others, from each of four clocks; intervals are those of the tool.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from anchored_sets import clock_sets
from scipy.optimize import minimize

from tracetool.core.interval import Z90
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.memory_efficiency import memory_efficiency

START = (
    prior_number("monitor.host_share"),
    prior_number("monitor.host_per_idle"),
    prior_table("monitor.full_memory")["program"],
    prior_table("monitor.overlap")["program"],
)


def ratios(x: Any, rows: dict[str, Any], efficiency: Any, top_mhz: float) -> Any:
    """Return predicted over measured time of pairs of clocks; ``x``: host, idle, memory, norm."""
    host, per_idle, full, norm = x[0], x[1], x[2], x[3]
    share = host * (1.0 - np.clip(rows["pipe"], 0.0, 1.0) ** prior_number("monitor.host_sharpness"))
    share = share + (1.0 - share) * per_idle * (1.0 - np.clip(rows["sm"], 0.0, 1.0))
    fixed = share / (share + (1.0 - share) * top_mhz / rows["from_mhz"])
    start, there = efficiency.at(rows["from_mhz"]), efficiency.at(rows["mhz"])
    memory = np.minimum(1.0, rows["dram"] * start / full)
    core = (1.0 - memory**norm) ** (1.0 / norm)
    parts = (core * rows["from_mhz"] / rows["mhz"]) ** norm + (memory * there / start) ** norm
    moving = parts ** (1.0 / norm)
    return (fixed + (1.0 - fixed) * moving) * rows["from_us"] / rows["us"]


def pairs(table: pl.DataFrame, anchors: tuple[float, ...]) -> pl.DataFrame:
    """Return each program's rows beside its row at each of some clocks."""
    start = table.filter(pl.col("clock_mhz").is_in(anchors)).with_columns(
        pipe=pl.max_horizontal("act_tensor", "act_fp64")
    )
    start = start.select(
        "kernel", "pipe", sm="act_sm", dram="act_dram", from_mhz="clock_mhz", from_us="duration_us"
    )
    rows = table.select("kernel", mhz="clock_mhz", us="duration_us").join(start, on="kernel")
    return rows.filter(pl.col("mhz") != pl.col("from_mhz")).drop_nulls()


def main() -> None:
    """Print errors and coverage with the delivered constants and with those of the other programs."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    of = clock_sets(root)[0]
    gpu = load_gpu(of.gpu)
    efficiency = memory_efficiency(gpu)
    rows = pairs(of.rows, of.anchors)
    data = {c: rows[c].to_numpy() for c in rows.columns}
    names = data.pop("kernel")
    apart = np.zeros(len(names))
    for name in np.unique(names):
        held = names == name
        rest = {c: v[~held] for c, v in data.items()}

        def loss(x: Any, rest: dict[str, Any] = rest) -> float:
            x = np.clip(x, [0.0, 0.0, 0.2, 1.0], [0.9, 1.0, 2.0, 8.0])
            return float(np.abs(np.log(ratios(x, rest, efficiency, gpu.clock_max_mhz))).mean())

        best = minimize(loss, START, method="Nelder-Mead", options={"maxiter": 200, "xatol": 0.01}).x
        best = np.clip(best, [0.0, 0.0, 0.2, 1.0], [0.9, 1.0, 2.0, 8.0])
        apart[held] = ratios(best, {c: v[held] for c, v in data.items()}, efficiency, gpu.clock_max_mhz)
    delivered = ratios(np.array(START), data, efficiency, gpu.clock_max_mhz)
    octaves = np.abs(np.log2(data["mhz"] / data["from_mhz"]))
    per_octave, reading = (
        prior_table(f"{key}")["program"] for key in ("monitor.sd_per_octave", "anchor.reading")
    )
    half = Z90 * np.hypot(per_octave * octaves, reading)
    for label, off in (("delivered", delivered), ("the program left out", apart)):
        held = np.abs(np.log(off)) <= half
        near, far = (100 * held[part].mean() for part in (octaves <= 0.7, octaves > 0.7))
        error, inside = 100 * np.abs(off - 1).mean(), 100 * held.mean()
        print(
            f"{label}: time {error:.1f} %, in the 90 % interval {inside:.0f} % "
            f"(within 0.7 octaves {near:.0f}, beyond {far:.0f})"
        )


if __name__ == "__main__":
    main()
