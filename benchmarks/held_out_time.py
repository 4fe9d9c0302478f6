"""Errors of the delivered time calibrations on shapes held back, with what is asked of them beside.

usage: python benchmarks/held_out_time.py

``benchmarks/fit_time.py`` wrote them: each third of the shape groups told by a fit to the other two. A set of
several formats has several laws: its mean is that of all its rows, its medians are those of the laws.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

CALIBRATIONS = Path(__file__).resolve().parent.parent / "tracetool" / "hardware" / "calibrations"
#: Mean and median absolute error asked of rows no coefficient was fitted to. [%]
ASKED = {
    "h200-sxm": {"gemm": (7.5, 5.0), "prefill": (11.0, 7.0), "decode": (12.0, 6.0), "moe": (35.0, 22.0)},
    "h100-sxm": {"gemm": (9.0, 5.5), "prefill": (11.0, 7.0), "decode": (14.0, 9.0)},
    "b200-sxm": {"gemm": (11.0, 6.0), "prefill": (11.0, 7.0), "decode": (13.0, 8.0)},
    "a100-sxm": {"gemm": (8.0, 5.5), "prefill": (11.0, 7.0), "decode": (14.0, 6.0)},
}


def main() -> None:
    print(f"{'gpu':10s} {'set':8s} {'rows':>6s} {'MAPE':>6s} {'MdAPE':>16s} {'asked':>11s}  intervals hold")
    for gpu, sets in ASKED.items():
        about = tomllib.loads((CALIBRATIONS / f"{gpu}.time.toml").read_text())["about"]
        for name, (mean, median) in sets.items():
            laws = [k[5:] for k in about if k.startswith("rows_") and k[5:].split("_")[0] == name]
            rows = np.array([about[f"rows_{law}"] for law in laws], np.float64)
            off, middle, holds = (
                np.array([about[f"{what}_percent_{law}"] for law in laws])
                for what in ("held_out_mape", "held_out_mdape", "interval_holds")
            )
            mape, holding = rows @ off / rows.sum(), rows @ holds / rows.sum()
            medians = " ".join(f"{m:.1f}" for m in middle)
            said = f"{gpu:10s} {name:8s} {rows.sum():6.0f} {mape:6.1f} {medians:>16s}"
            print(f"{said} {mean:6.1f}/{median:4.1f} {holding:6.1f} %")


if __name__ == "__main__":
    main()
