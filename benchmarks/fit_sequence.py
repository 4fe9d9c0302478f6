"""Fit what a model's run adds to kernels' times in loops of their own, from whole models.

usage: python benchmarks/fit_sequence.py [DATA_ROOT]      default: ../shared/data

Writes tracetool/hardware/calibrations/sequence.toml and prints the error on models left out.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import minimize

from tracetool.hardware.load import load_gpu
from tracetool.model.sequence import SequenceFactors, sequence_ratio
from tracetool.model.timing import time_rows
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.interval import Z90
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.workflows.tables import read_table
from tracetool.workflows.unfused import unfused

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
OUT = Path(__file__).parents[1] / "tracetool/hardware/calibrations/sequence.toml"
#: The board the models ran on.
GPU = "a100-pcie-40gb"
NAMES = ("product", "batched", "stream", "softmax", "reach_ratio")
START = np.array([1.2, 1.1, 1.1, 1.0, 1.0])
#: How far from the start a factor may go: a doubling costs a quarter of a per cent of error.
RIDGE = 0.005
#: Spread of runs believed beforehand [ln], and how many models that belief is worth.
BELIEVED_SD, BELIEVED_MODELS = 0.08, 2
#: Kernels must fill this share of a run's time, or its host hides them.
BUSY = 0.6
#: The board settles at 241 W under its limit.
CAP_W = 0.955 * 241.0


@dataclass(frozen=True)
class Run:
    """One whole model at one clock."""

    model: str
    rows: OperatorColumns
    counts: Floats
    fixed_s: Floats
    moving_s: Floats
    clock_mhz: float
    measured_s: float
    half: Floats  # half the 90 % interval of each kernel by itself [ln]


def runs() -> list[Run]:
    """Return the runs whose time is that of their kernels."""
    measured = pl.read_csv(ROOT / "workloads/measured.csv")
    operators = pl.read_parquet(ROOT / "workloads/operators.parquet")
    found = []
    for (name, gpu), group in measured.group_by(["workload", "gpu"], maintain_order=True):
        board = load_gpu(str(gpu))
        one = operators.filter(pl.col("workload") == name).sort("position").drop("workload", "position")
        table = unfused(read_table(one[[c.name for c in one if c.null_count() < one.height]]))
        counts = np.bincount(table.index, weights=table.counts, minlength=len(table.rows))
        clocks = group["clock_mhz"].cast(pl.Float64).to_numpy()
        timing = time_rows(table.rows, board, clocks)
        fixed = np.minimum(timing.fixed_s[:, None], timing.duration_s)
        for i, row in enumerate(group.iter_rows(named=True)):
            seconds = row["measured_ms"] / 1e3
            kernels = float(counts @ timing.duration_s[:, i])
            if kernels > BUSY * seconds and row["measured_j"] / seconds < CAP_W:
                moving = timing.duration_s[:, i] - fixed[:, i]
                model = str(name).split("_")[0]
                half = np.log(timing.high)
                found.append(Run(model, table.rows, counts, fixed[:, i], moving, clocks[i], seconds, half))
    return found


def kernels_s(x: Floats, run: Run) -> Floats:
    """Return the time of all launches of each kernel in the run. [s]"""
    factors = SequenceFactors(*(float(v) for v in x), log_sd=0.0)
    board = load_gpu(GPU)
    ratio = sequence_ratio(run.rows, board, np.full((len(run.rows), 1), run.clock_mhz), factors)[:, 0]
    return np.asarray(run.counts * (run.fixed_s + run.moving_s * ratio))


def errors(x: Floats, some: list[Run]) -> Floats:
    """Return ln(predicted / measured) of each run."""
    return np.array([np.log(kernels_s(x, run).sum() / run.measured_s) for run in some])


def own_halves(x: Floats, some: list[Run]) -> Floats:
    """Return the half-width of each run's 90 % interval if each kernel erred by itself. [ln]"""
    times = [kernels_s(x, run) for run in some]
    return np.array([np.sqrt(((t * r.half) ** 2).sum()) / t.sum() for t, r in zip(times, some, strict=True)])


def fit(some: list[Run]) -> Floats:
    """Return the factors with the least mean absolute error, held to their start."""

    def loss(x: Floats) -> float:
        if (x <= 0).any():
            return 9.0
        return float(np.abs(errors(x, some)).mean() + RIDGE * ((np.log(x / START)) ** 2).sum())

    return np.asarray(minimize(loss, START, method="Nelder-Mead", options={"maxfev": 600}).x)


def held_out(every: list[Run], *, say: bool = False) -> tuple[Floats, float, float, float]:
    """Return what models left out miss by, its spread in common, the share kept of their own, and the hold.

    Kernels err each by itself and all of a run together; how much of either is what makes the misses
    likeliest. The part in common is then as wide as nine tenths of the misses need.
    """
    held, own = [], []
    for model in sorted({r.model for r in every}):
        outside = [r for r in every if r.model == model]
        others = fit([r for r in every if r.model != model])
        held.append(errors(others, outside))
        own.append(own_halves(others, outside))
        if say:
            off = 100 * np.abs(np.expm1(held[-1])).mean()
            print(f"{model}: {len(outside)} runs, held out {off:.1f} %")
    miss, apart = np.concatenate(held), np.concatenate(own) / Z90

    def unlikely(kept: float, spread: float) -> float:
        sd = np.hypot(kept * apart, spread)
        return float((np.log(sd) + 0.5 * (miss / sd) ** 2).mean())

    commons = np.linspace(0.005, 0.2, 40)
    kept = min((unlikely(a, s), float(a)) for a in np.linspace(0.0, 1.0, 11) for s in commons)[1]
    told = max(float(np.quantile((miss / Z90) ** 2 - (kept * apart) ** 2, 0.9)), 0.0)
    # A handful of models tells little of a spread: it is held to that of single kernels on boards unseen.
    models = len(held)
    spread = float(np.sqrt((models * told + BELIEVED_MODELS * BELIEVED_SD**2) / (models + BELIEVED_MODELS)))
    return miss, spread, kept, float((np.abs(miss) <= Z90 * np.hypot(kept * apart, spread)).mean())


def main() -> None:
    """Fit, hold out each model in turn, and write."""
    every = runs()
    found = fit(every)
    miss, spread, kept, inside = held_out(every, say=True)
    print(f"in common: {spread:.4f}, of their own {kept:.2f}; 90 % holds {100 * inside:.0f} %")
    mape = 100 * np.abs(np.expm1(miss)).mean()
    print(
        f"all: held out {mape:.1f} %, in the fit {100 * np.abs(np.expm1(errors(found, every))).mean():.1f} %"
    )
    lines = [
        "[about]",
        'title = "Kernels in a model\'s run over kernels in a loop"',
        'command = "python benchmarks/fit_sequence.py"',
        f'gpu = "{GPU}"',
        f"held_out_percent = {mape:.2f}",
        f"runs = {len(every)}",
        "",
        "[sequence]",
    ]
    for name, value in (*zip(NAMES, found, strict=True), ("log_sd", spread), ("own_share", kept)):
        lines.append(
            f'{name} = {{ value = {value:.4g}, unit = "1", kind = "fitted", source = "public-dvfs-tables" }}'
        )
    OUT.write_text("\n".join(lines) + "\n", "utf-8")
    print(dict(zip(NAMES, found.round(3), strict=True)))


if __name__ == "__main__":
    main()
