"""Errors and coverage of whole models nothing was fitted to: each left out of every fit in turn.

usage: python benchmarks/held_out_workloads.py [DATA_ROOT]      default: ../shared/data

Sequence factors, host costs and power coefficients are fitted without a model, then predict it from its
operators alone. Time laws of single operators come from other tables and stay. The first lines are of the
delivered coefficients, which saw these models; the clock recommended for least energy follows.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import fit_power
import fit_sequence
import numpy as np
import polars as pl

from tracetool.calibrate.power_fit import fit_power as fit_coefficients
from tracetool.hardware.load import load_gpu
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.sequence import SequenceFactors, sequence_factors
from tracetool.replay.host import HostCosts, host_costs
from tracetool.replay.operating_points import least
from tracetool.replay.operator_tables import read_table
from tracetool.replay.table_totals import sequence_totals
from tracetool.replay.unfused_attention import unfused

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
GPU = load_gpu("a100-pcie-40gb")
#: What a prediction is fitted with: kernels among others, the host, power.
Fitted = tuple[SequenceFactors, HostCosts, PowerCalibration]


def without(model: str) -> Fitted:
    """Return coefficients fitted to all models but one."""
    inside = [r for r in fit_sequence.runs() if r.model != model]
    x, _ = fit_sequence.fit(inside)
    _, spread = fit_sequence.held_out(inside)
    factors, costs = fit_sequence.meant(x)
    factors = replace(factors, log_sd=spread.common, own_share=spread.own, fitted_on=GPU.name)
    start, heating = fit_power.on_idle_curve(GPU)
    cap_w = fit_power.CAP_SHARE * GPU.power_limit_w
    rows = fit_power.workload_rows(GPU, 0.985 * cap_w, factors, costs)
    rows = rows.take(rows.group != model)
    fit = fit_coefficients(rows, start, GPU.voltage, known_base=True, heating_per_w=heating)
    held = fit_power.held_out(rows, start, GPU.voltage, known_base=True, heating_per_w=heating)
    power = fit.calibration
    own = power_calibration_of(GPU)
    power = replace(power, relative_sd=held.relative_sd, cap_share=own.cap_share)
    return factors, costs, power


def delivered() -> Fitted:
    """Return the coefficients that the package holds."""
    return sequence_factors(), host_costs("eager"), power_calibration_of(GPU)


def judged(fitted: dict[str, Fitted]) -> pl.DataFrame:
    """Return predicted and measured time and energy of every run, each model by its own coefficients."""
    measured = pl.read_csv(ROOT / "workloads/measured.csv").filter(pl.col("gpu") == GPU.name)
    operators = pl.read_parquet(ROOT / "workloads/operators.parquet")
    rows = []
    for (name,), runs in measured.group_by(["workload"], maintain_order=True):
        one = operators.filter(pl.col("workload") == name).sort("position").drop("workload", "position")
        table = unfused(read_table(one[[c.name for c in one if c.null_count() < one.height]]))
        factors, costs, power = fitted[str(name).split("_")[0]]
        clocks = np.unique(runs["clock_mhz"].cast(pl.Float64).to_numpy())
        launches = np.bincount(table.index, table.counts, len(table.rows)).astype(np.float64)
        made = predict_rows(
            table.rows, GPU, clocks, among_others=factors, launches=launches, power_calibration=power
        )
        totals = {
            t["clock_mhz"]: t
            for t in sequence_totals(
                table.rows, made, table, costs, run_sd=factors.log_sd, own_share=factors.own_share
            )
        }
        for run in runs.iter_rows(named=True):
            total = totals[float(run["clock_mhz"])]
            rows.append({**run, **{k: v for k, v in total.items() if isinstance(v, float)}})
    return pl.DataFrame(rows)


def show(title: str, frame: pl.DataFrame) -> None:
    """Print errors and coverage by set, and the loss of energy at the clock recommended."""

    def off(a: pl.Series, b: pl.Series) -> float:
        return 100 * float(np.abs(a.to_numpy() / b.to_numpy() - 1.0).mean())

    def inside(g: pl.DataFrame, what: str, low: str, high: str) -> float:
        return 100 * float(((g[what] >= g[low]) & (g[what] <= g[high])).mean())

    print(title)
    parts = [(str(s), g) for (s,), g in frame.group_by(["set"], maintain_order=True)]
    for name, g in [*parts, ("all", frame)]:
        power, watt = g["energy_j"] / g["makespan_ms"], g["measured_j"] / g["measured_ms"]
        time = inside(g, "measured_ms", "makespan_low_ms", "makespan_high_ms")
        energy = inside(g, "measured_j", "energy_low_j", "energy_high_j")
        print(
            f"  {name:5s} time {off(g['makespan_ms'], g['measured_ms']):.1f} %, energy "
            f"{off(g['energy_j'], g['measured_j']):.1f} %, power {off(power, watt):.1f} %; "
            f"90 % hold time {time:.0f} %, energy {energy:.0f} %"
        )
    losses: list[float] = []
    for (_,), g in frame.filter(pl.col("set") == "dvfs").group_by(["workload"], maintain_order=True):
        at = least(g["energy_j"].to_numpy(), g["makespan_ms"].to_numpy())
        losses.append(100 * float(g["measured_j"][at] / g["measured_j"].min() - 1.0))
    if not losses:
        return
    good = sum(loss <= 2.0 for loss in losses)
    print(f"  recommended clock within 2 % of least energy: {good} of {len(losses)}", np.round(losses, 1))


def main() -> None:
    """Judge the delivered coefficients, then each model by coefficients that never saw it."""
    measured = pl.read_csv(ROOT / "workloads/measured.csv")
    models = sorted({w.split("_")[0] for w in measured["workload"]})
    show("delivered (fitted to these models)", judged(dict.fromkeys(models, delivered())))
    fitted = {}
    for model in models:
        fitted[model] = without(model)
        print(f"without {model}: {fitted[model][0]}")
    apart = judged(fitted)
    show("each model left out of sequence factors, host costs and power", apart)
    for (model,), g in apart.group_by(pl.col("workload").str.split("_").list.get(0), maintain_order=True):
        show(f"of these, {model}", g)


if __name__ == "__main__":
    main()
