"""Fit what a model's run adds to kernels' times in loops of their own, and what its host pays to issue them.

usage: python benchmarks/fit_sequence.py [DATA_ROOT]      default: ../shared/data

Both from whole models, together: where kernels fill a run they set its time, where they do not the host
does, and near par both count. Writes tracetool/hardware/calibrations/sequence.toml and the fitted values
of tracetool/replay/hosts.toml, and prints the error on models left out. Factors and costs are positive
(fitted as logarithms) and held to priors; models count alike, whatever the number of their runs.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.hardware.load import load_gpu
from tracetool.model.sequence import SequenceFactors, in_sequence
from tracetool.model.timing import time_rows
from tracetool.replay.host import HostCosts, host_costs
from tracetool.replay.operator_tables import read_table
from tracetool.replay.table_totals import issue
from tracetool.replay.unfused_attention import unfused

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
PACKAGE = Path(__file__).parents[1] / "tracetool"
OUT, HOSTS = PACKAGE / "hardware/calibrations/sequence.toml", PACKAGE / "replay/hosts.toml"
#: The GPU the models ran on.
GPU = "a100-pcie-40gb"
NAMES = ("product", "stream", "softmax", "efficiency_ratio")
#: What is expected of the factors, and the spread of that belief. [ln]
START = np.array([0.3, 1.3, 0.75, 1.0])
BELIEF = 0.3
COSTS = ("start", "gemm", "elementwise", "norm", "softmax")
#: Factor within which the prior of a cost is believed (one standard deviation). [ln]
HOST_BELIEF = np.array([np.log(2.0), 0.3, 0.3, 0.3, 0.3])
#: Scatter of a run; six runs of a model tell as much as all of them. [ln]
NOISE, WORTH = 0.06, 6.0
#: Spread of runs believed beforehand [ln], and how many models it is worth.
BELIEVED_SD, BELIEVED_MODELS = 0.06, 1
#: Kernels set a run's time where they take this many times as long as its host.
BUSY = 1.2
#: The GPU settles at 241 W under its limit.
CAP_W = 0.955 * 241.0


@dataclass(frozen=True)
class Runs:
    """One whole model at several clocks: its distinct rows, how often each is launched, and their time."""

    model: str
    rows: OperatorColumns
    counts: Floats
    timing: Timing
    clock_mhz: Floats
    measured_s: Floats
    half: Floats  # half the 90 % interval of each row by itself [ln]


def runs() -> list[Runs]:
    """Return the whole models at the clocks that the power limit did not lower."""
    measured = pl.read_csv(ROOT / "workloads/measured.csv").filter(pl.col("gpu") == GPU)
    operators = pl.read_parquet(ROOT / "workloads/operators.parquet")
    target, found = load_gpu(GPU), []
    measured = measured.filter(pl.col("measured_j") / pl.col("measured_ms") * 1e3 < CAP_W)
    for (name,), group in measured.group_by(["workload"], maintain_order=True):
        one = operators.filter(pl.col("workload") == name).sort("position").drop("workload", "position")
        table = unfused(read_table(one[[c.name for c in one if c.null_count() < one.height]]))
        counts = np.bincount(table.index, weights=table.counts, minlength=len(table.rows)).astype(np.float64)
        clocks = group["clock_mhz"].cast(pl.Float64).to_numpy()
        timing = time_rows(table.rows, target, clocks)
        model, seconds = str(name).split("_")[0], group["measured_ms"].to_numpy() / 1e3
        found.append(Runs(model, table.rows, counts, timing, clocks, seconds, np.log(timing.high[:, 0])))
    return found


def priors() -> Floats:
    """Return ln of what is expected of factors and costs; costs in microseconds."""
    eager = tomllib.loads(HOSTS.read_text("utf-8"))["eager"]
    costs = [float(eager[f"{c}_us"]["prior"]) for c in COSTS]
    return np.asarray(np.log(np.concatenate([START, costs])))


def meant(x: Floats) -> tuple[SequenceFactors, HostCosts]:
    """Return the factors and costs a point stands for."""
    product, stream, softmax, reach = (float(v) for v in np.exp(x[: len(NAMES)]))
    us = dict(zip(COSTS, np.exp(x[len(NAMES) :]) * 1e-6, strict=True))
    known = host_costs("eager")
    operators = {**known.operator_s, **{k: float(v) for k, v in us.items() if k != "start"}}
    costs = HostCosts(
        float(us["start"]), known.latency_s, known.gap_s, operators, known.low, known.high, known.source
    )
    return SequenceFactors(product, stream, softmax, reach, log_sd=0.0), costs


def times(x: Floats, some: Runs) -> tuple[Floats, Floats, float]:
    """Return the makespan at each clock, each row's time in it, (n, c), and the host's time. [s]"""
    factors, costs = meant(x)
    target = load_gpu(GPU)
    grid = np.broadcast_to(some.clock_mhz, (len(some.rows), len(some.clock_mhz)))
    timing = in_sequence(some.timing, some.rows, target, grid, factors)
    made = issue(timing.duration_s, some.counts, costs.issue_s(some.rows.family), costs)
    return made.makespan_s, some.counts[:, None] * timing.duration_s, made.host_s


def misses(x: Floats, some: list[Runs]) -> Floats:
    """Return ln(predicted / measured) of every run."""
    return np.concatenate([np.log(times(x, run)[0] / run.measured_s) for run in some])


def fit(some: list[Runs]) -> tuple[Floats, Floats]:
    """Return ln of factors and costs, and their standard deviations."""
    model = np.concatenate([[r.model] * len(r.clock_mhz) for r in some])
    _, place, count = np.unique(model, return_inverse=True, return_counts=True)
    weight = np.sqrt(WORTH**2 / count[place]) / NOISE
    prior = priors()
    belief = np.concatenate([np.full(len(NAMES), BELIEF), HOST_BELIEF])

    def residuals(x: Floats) -> Floats:
        return np.concatenate([weight * misses(x, some), (x - prior) / belief])

    made = least_squares(residuals, prior, loss="soft_l1", diff_step=1e-3, max_nfev=40)
    return made.x, np.sqrt(np.diag(np.linalg.inv(made.jac.T @ made.jac)))


@dataclass(frozen=True)
class Spread:
    """What runs err by in common [ln], the share kernels keep of their own error, and what that holds."""

    common: float
    own: float
    holds: float


def held_out(every: list[Runs], *, say: bool = False) -> tuple[Floats, Spread]:
    """Return what models left out miss by, and the spread of those whose kernels set the time.

    Kernels err each by itself and all of a run together; how much of either is what makes the misses
    likeliest. The part in common is then as wide as nine tenths of the misses need.
    """
    every_miss, miss, apart = [], [], []
    for model in sorted({r.model for r in every}):
        outside = [r for r in every if r.model == model]
        x, _ = fit([r for r in every if r.model != model])
        every_miss.append(misses(x, outside))
        for run in outside:
            span, each, host = times(x, run)
            busy = each.sum(0) > BUSY * host
            own = np.sqrt(((each * run.half[:, None]) ** 2).sum(0)) / each.sum(0)
            miss.append(np.log(span / run.measured_s)[busy])
            apart.append(own[busy] / Z90)
        if say:
            off = 100 * np.expm1(every_miss[-1])
            print(f"{model}: {len(off)} runs, left out {np.abs(off).mean():.1f} % (mean {off.mean():+.1f})")
    filled, own = np.concatenate(miss), np.concatenate(apart)

    def unlikely(kept: float, spread: float) -> float:
        sd = np.hypot(kept * own, spread)
        return float((np.log(sd) + 0.5 * (filled / sd) ** 2).mean())

    commons = np.linspace(0.005, 0.2, 40)
    kept = min((unlikely(a, s), float(a)) for a in np.linspace(0.0, 1.0, 11) for s in commons)[1]
    told = max(float(np.quantile((filled / Z90) ** 2 - (kept * own) ** 2, 0.9)), 0.0)
    # A handful of models tells little of a spread: it is held to that of single kernels on GPUs unseen.
    models = len(every_miss)
    spread = float(np.sqrt((models * told + BELIEVED_MODELS * BELIEVED_SD**2) / (models + BELIEVED_MODELS)))
    holds = float((np.abs(filled) <= Z90 * np.hypot(kept * own, spread)).mean())
    return np.concatenate(every_miss), Spread(spread, kept, holds)


def write_hosts(x: Floats, mape: float) -> None:
    """Put the fitted costs in their file, beside their priors."""
    text = HOSTS.read_text("utf-8")
    found = dict(zip(COSTS, np.exp(x[len(NAMES) :]), strict=True))
    # A convolution is issued as a linear layer is.
    for name, value in {**found, "conv": found["gemm"]}.items():
        text = re.sub(
            rf"(?m)^({name}_us +=  *{{ value = )[\d.]+", rf"\g<1>{float(f'{value:.3g}')}", text, count=1
        )
    HOSTS.write_text(
        re.sub(r"(?m)^held_out_error = .*", f"held_out_error = {mape / 100:.3f}", text, count=1), "utf-8"
    )


def main() -> None:
    """Fit, hold out each model in turn, and write."""
    every = runs()
    x, sd = fit(every)
    miss, spread = held_out(every, say=True)
    holds = 100 * spread.holds
    print(f"in common: {spread.common:.4f}, of their own {spread.own:.2f}; 90 % holds {holds:.0f} %")
    mape = 100 * np.abs(np.expm1(miss)).mean()
    print(f"all: left out {mape:.1f} %, in the fit {100 * np.abs(np.expm1(misses(x, every))).mean():.1f} %")
    for name, value, off in zip((*NAMES, *(f"{c}_us" for c in COSTS)), x, sd, strict=True):
        low, high = np.exp(value - Z90 * off), np.exp(value + Z90 * off)
        print(f"{name} = {np.exp(value):.3g}  (90 %: {low:.3g} to {high:.3g})")
    lines = [
        "[about]",
        'title = "Kernels in a model\'s run over kernels in a loop"',
        'command = "python benchmarks/fit_sequence.py"',
        f'gpu = "{GPU}"',
        f"held_out_percent = {mape:.2f}",
        f"runs = {len(miss)}",
        "",
        "[sequence]",
    ]
    found = np.exp(x[: len(NAMES)])
    for name, value in (
        *zip(NAMES, found, strict=True),
        ("log_sd", spread.common),
        ("own_share", spread.own),
    ):
        lines.append(
            f'{name} = {{ value = {value:.4g}, unit = "1", kind = "fitted", source = "public-dvfs-tables" }}'
        )
    OUT.write_text("\n".join(lines) + "\n", "utf-8")
    write_hosts(x, mape)


if __name__ == "__main__":
    main()
