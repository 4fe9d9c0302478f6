"""Kernels from one clock each, and what a few further rows of the same GPU teach of them.

usage: python benchmarks/drawn_rows.py [DATA_ROOT] [PART OF A SET'S NAME]      default: ../shared/data

Drawn: five rows of random kernels at random clocks stand in the table beside every kernel's row at one clock,
20 draws in turn; all other rows are predicted. Calibrated: `tracetool calibrate` is given five clocks of each
of five kernels, and the other kernels are predicted from one clock. Without and with, on the same rows.
In hindsight: no further rows, but every pair of a measured and a predicted clock corrected by what all
kernels err by there: the most that knowledge of the GPU alone could correct.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from anchored_programs import figures, measured, nearest_clock, predicted
from anchored_sets import ClockSet, clock_sets

from tracetool.api.calibrate import calibrate
from tracetool.replay.assumptions import Assumptions

WANT = sys.argv[2] if len(sys.argv) > 2 and Path(sys.argv[0]).stem == "drawn_rows" else ""
ROWS, DRAWS = 5, 20
KERNELS, TURNS = 5, 4
KEYS = ["kernel", "clock_mhz"]
#: Of more rows than this, every so-many-th kernel.
MANY = 1200


def five_clocks(of: ClockSet) -> list[float]:
    """Return five of a set's clocks, from the highest to the lowest. [MHz]"""
    clocks = sorted(of.rows["clock_mhz"].unique())
    return [float(clocks[int(i)]) for i in np.linspace(len(clocks) - 1, 0, 5)]


def drawn(of: ClockSet) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return all other rows and their predictions without and with some drawn rows of the GPU's own."""
    truth, starts = measured(of), five_clocks(of)
    random = np.random.default_rng(0)
    without, beside = [], []
    for draw in range(DRAWS):
        one = nearest_clock(of, starts[draw % len(starts)])
        others = of.rows.join(one, on=KEYS, how="anti", maintain_order="left")
        further = others[np.sort(random.choice(others.height, ROWS, replace=False)).tolist()]
        asked = truth.join(pl.concat([one, further]), on=KEYS, how="anti")
        without.append(asked.join(predicted(of, one), on=KEYS))
        beside.append(asked.join(predicted(of, pl.concat([one, further])), on=KEYS))
    return pl.concat(without), pl.concat(beside)


def in_hindsight(of: ClockSet) -> pl.DataFrame:
    """Return predictions from five clocks, each pair of clocks corrected alike for all kernels.

    The correction is the median over all kernels of what the prediction errs by there: no knowledge of the
    GPU that is not of a single kernel can do better by more than the difference of mean and median.
    """
    truth = measured(of)
    starts = five_clocks(of)
    every = pl.concat(
        truth.join(one, on=KEYS, how="anti").join(predicted(of, one), on=KEYS).with_columns(start=start)
        for start, one in ((start, nearest_clock(of, start)) for start in starts)
    )
    return every.with_columns(
        (pl.col(f"p_{q}") / (pl.col(f"p_{q}") / pl.col(q)).median().over("start", "clock_mhz")).alias(
            f"p_{q}"
        )
        for q in ("time", "power", "energy")
    )


def after_calibration(of: ClockSet) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return other kernels' rows and predictions without and with a calibration from five of the GPU's."""
    truth, clocks = measured(of), five_clocks(of)
    names = of.rows["kernel"].unique().sort().to_list()
    without, with_it = [], []
    with TemporaryDirectory() as folder:
        for turn in range(TURNS):
            first, apart = turn * len(names) // TURNS, max(1, len(names) // KERNELS)
            donors = [names[(first + i * apart) % len(names)] for i in range(KERNELS)]
            given = pl.concat([nearest_clock(of, clock) for clock in clocks]).unique(
                KEYS, maintain_order=True
            )
            given = given.filter(pl.col("kernel").is_in(donors))
            given.select(*KEYS, "duration_us", "power_w").write_csv(f"{folder}/five.csv")
            calibrate([f"{folder}/five.csv"], of.gpu).save(f"{folder}/five.toml")
            assumed = Assumptions.read([f"{folder}/five.toml"])
            for clock in clocks[::2]:
                one = nearest_clock(of, clock).filter(~pl.col("kernel").is_in(donors))
                asked = truth.join(one, on=KEYS, how="anti")
                without.append(asked.join(predicted(of, one), on=KEYS))
                with_it.append(asked.join(predicted(of, one, assumed), on=KEYS))
    return pl.concat(without), pl.concat(with_it)


def main() -> None:
    """Print every set."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    none = pl.DataFrame(schema={"kernel": pl.String, "clock_mhz": pl.Float64})
    print("error [%] of time/power/energy, coverage [%] of their 90 % intervals")
    for whole in clock_sets(root):
        if WANT not in whole.name:
            continue
        names = whole.rows["kernel"].unique().sort()[:: -(-whole.rows.height // MANY)]
        of = replace(whole, rows=whole.rows.filter(pl.col("kernel").is_in(names.to_list())))
        print(f"{of.name} ({of.gpu})")
        for what, scored in (("five drawn rows", drawn), ("five kernels calibrated", after_calibration)):
            without, beside = scored(of)
            print(f"  {what:24s} {figures(beside, none)}; without {figures(without, none)}", flush=True)
        best = in_hindsight(of).select(pl.exclude("^p_.*_(low|high)$"))
        print(f"  {'pairs of clocks corrected':24s} {figures(best, none)}", flush=True)


if __name__ == "__main__":
    main()
