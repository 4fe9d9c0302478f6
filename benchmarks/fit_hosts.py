"""Fit what the host pays to issue an operator, from whole models whose kernels leave the GPU idle.

    python benchmarks/fit_hosts.py [DATA_ROOT]

Prints the values for ``tracetool/replay/hosts.toml`` with their uncertainty, and the error on each
model when it is left out of the fit. Only runs whose kernels fill less than 3/4 of the measured time
take part: there the host sets the time, at every clock. Costs are positive (fitted as logarithms),
held to the priors in the file; models count alike, whatever the number of their runs.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.sequence import SequenceFactors
from tracetool.replay.host import HostCosts
from tracetool.replay.issue import issue
from tracetool.vocabulary.arrays import Floats
from tracetool.workflows.tables import read_table
from tracetool.workflows.unfused import unfused

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
HOSTS = Path(__file__).parents[1] / "tracetool/replay/hosts.toml"
COSTS = ("start", "gemm", "elementwise", "norm", "softmax")
#: ln of the factor within which a prior is believed (one standard deviation); noise of a run.
BELIEF = np.log(np.array([2.5, 1.7, 1.7, 1.7, 1.7]))
NOISE = 0.08
BUSY = 0.75


@dataclass(frozen=True)
class Run:
    """One model at one clock: each operator's family and time, and the time of all of them."""

    model: str
    families: np.ndarray
    kernel_s: Floats
    measured_s: float


def runs(factors: SequenceFactors | bool = True) -> list[Run]:
    """Return the runs bound by the host; ``factors`` of kernels among others, by default those delivered."""
    measured = pl.read_csv(ROOT / "workloads/measured.csv")
    operators = pl.read_parquet(ROOT / "workloads/operators.parquet")
    found = []
    for (name, gpu), group in measured.group_by(["workload", "gpu"], maintain_order=True):
        one = operators.filter(pl.col("workload") == name).sort("position").drop("workload", "position")
        table = unfused(read_table(one[[c.name for c in one if c.null_count() < one.height]]))
        clocks = group["clock_mhz"].cast(pl.Float64).to_numpy()
        timing = predict_rows(table.rows, load_gpu(str(gpu)), clocks, among_others=factors).timing
        for i, milliseconds in enumerate(group["measured_ms"]):
            kernel = timing.duration_s[table.index, i]
            if kernel.sum() < BUSY * milliseconds * 1e-3:
                families = table.rows.family[table.index].astype(str)
                found.append(Run(str(name).split("_")[0], families, kernel, milliseconds * 1e-3))
    return found


def errors(x: Floats, some: list[Run], latency_s: float) -> Floats:
    """Return ln(predicted / measured) of each run."""
    us = dict(zip(COSTS, np.exp(x), strict=True))
    costs = HostCosts(us["start"] * 1e-6, latency_s, 0.0, {k: v * 1e-6 for k, v in us.items()}, 1.0, 1.0, "")
    made = []
    for run in some:
        host = costs.issue_s(run.families)
        span = issue(run.kernel_s[:, None], np.ones(len(host)), host, costs).makespan_s[0]
        made.append(np.log(span / run.measured_s))
    return np.array(made)


def fit(some: list[Run], prior: Floats, latency_s: float) -> tuple[Floats, Floats]:
    """Return ln of the costs and its standard deviation."""
    models, count = np.unique([r.model for r in some], return_counts=True)
    weight = np.array([1 / np.sqrt(count[models == r.model][0]) for r in some])

    def residuals(x: Floats) -> Floats:
        miss = weight * errors(x, some, latency_s) / NOISE
        return np.concatenate([miss, (x - np.log(prior)) / BELIEF])

    made = least_squares(residuals, np.log(prior), loss="soft_l1", diff_step=1e-3)
    return made.x, np.sqrt(np.diag(np.linalg.inv(made.jac.T @ made.jac)))


def main() -> None:
    """Fit, leave each model out in turn, print."""
    eager = tomllib.loads(HOSTS.read_text("utf-8"))["eager"]
    prior = np.array([eager[f"{c}_us"]["prior"] for c in COSTS], dtype=np.float64)
    latency = eager["launch_latency_us"]["value"] * 1e-6
    every = runs()
    x, sd = fit(every, prior, latency)
    for name, value, spread in zip(COSTS, x, sd, strict=True):
        low, high = np.exp(value - 1.645 * spread), np.exp(value + 1.645 * spread)
        print(f"{name}_us = {np.exp(value):.0f}  (90 %: {low:.0f} to {high:.0f})")
    held = []
    for model in sorted({r.model for r in every}):
        some = [r for r in every if r.model == model]
        x_out, _ = fit([r for r in every if r.model != model], prior, latency)
        miss = np.expm1(errors(x_out, some, latency))
        held.append(np.abs(miss).mean())
        print(f"{model}: {len(some)} runs, left out {100 * held[-1]:.1f} % (mean {100 * miss.mean():+.1f} %)")
    inside = 100 * np.abs(np.expm1(errors(x, every, latency))).mean()
    print(f"held_out_error = {np.mean(held):.3f}; in the fit {inside:.1f} %, {len(every)} runs")


if __name__ == "__main__":
    main()
