"""Fit the power calibrations that are delivered, from the measured tables beside the checkout.

usage: python benchmarks/fit_power.py [DATA_ROOT]      default: ../shared/data

Writes tracetool/hardware/calibrations/<gpu>.power.toml and prints each fit's error, held out by group.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from sustained_power import hold_to, sustained_rows

from tracetool.calibrate.power_file import Fitted, calibration_toml
from tracetool.calibrate.power_fit import PowerFit, fit_power
from tracetool.calibrate.power_rows import PowerRows, rows_of_activity, rows_of_sum
from tracetool.calibrate.power_sweep import SweepRows, fit_sweep, with_base
from tracetool.calibrate.power_validation import baselines, held_out
from tracetool.calibrate.tables import read_measured
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.activity import OCCUPANCY
from tracetool.model.memory_efficiency import MemoryEfficiency
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import prior_calibration
from tracetool.model.sequence import SequenceFactors, in_sequence, sequence_factors
from tracetool.model.thermal import thermal_resistance_c_per_w
from tracetool.model.timing import time_rows
from tracetool.replay.host import HostCosts, host_costs
from tracetool.replay.operator_tables import read_table
from tracetool.replay.table_totals import issue
from tracetool.replay.unfused_attention import unfused

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
OUT = Path(__file__).parents[1] / "tracetool/hardware/calibrations"
SOURCE = "public-dvfs-tables"
#: The governor of this GPU settles at 241 W under a limit of 250 W.
CAP_SHARE = 0.965
#: Kernels that fill more than this of a run set its time.
FILLED = 0.9
#: What a FLOP or a byte on constant data costs beside one on usual data: operands make 0.6 to 1, and these
#: two tables alone say 0.6. The middle serves kernels whose data nobody states.
CONSTANT_DATA = 0.8
ACTIVITY = ("act_sm", "act_dram", "act_tensor", "act_fp16", "act_fp32", "act_fp64")


def activity_rows(name: str, gpu: Gpu) -> PowerRows:
    """Return a table of monitored programs as rows of a fit."""
    frame = pl.read_parquet(ROOT / "dvfs" / f"{name}.parquet")
    frame = frame.with_columns(pl.col(pl.Float64).fill_null(0.0))
    columns = {
        # Inputs of one microbenchmark are one program: they differ in a loop count.
        "name": frame["kernel"].str.replace(r"/input\d+$", "").to_numpy().astype(object),
        "duration_us": frame["time_s"].to_numpy() * 1e6,
        "recorded_clock_mhz": frame["clock_mhz"].cast(pl.Float64).to_numpy(),
        "power_w": frame["power_w"].to_numpy(),
        **{c: frame[c].to_numpy() for c in ACTIVITY},
        OCCUPANCY: frame["occupancy"].to_numpy(),
    }
    return rows_of_activity(OperatorColumns(np.full(frame.height, "unknown", dtype=object), columns), gpu)


def sweep_rows(name: str, every: int) -> SweepRows:
    """Return kernels timed and metered at many clocks, every so many of them."""
    frame = pl.read_parquet(ROOT / "dvfs" / f"{name}.parquet")
    frame = frame.filter(pl.col("clock_mhz") >= 510)  # below, the GPU runs in another memory state
    kept = frame["clock_mhz"].unique().sort()[::every].to_list()
    frame = frame.filter(pl.col("clock_mhz").is_in(kept))
    group = frame.select(pl.concat_str("kernel", "size", "num-iters", separator="|"))["kernel"]
    return SweepRows(
        (frame["energy_j"] / frame["time_s"]).to_numpy(),
        frame["clock_mhz"].cast(pl.Float64).to_numpy(),
        frame["time_s"].to_numpy(),
        group.to_numpy().astype(object),
    )


def two_domain_rows(name: str, gpu: Gpu) -> SweepRows:
    """Return kernels timed and metered over core and memory clocks."""
    frame = pl.read_parquet(ROOT / "dvfs" / f"{name}.parquet")
    return SweepRows(
        frame["power_w"].to_numpy(),
        frame["clock_mhz"].cast(pl.Float64).to_numpy(),
        frame["time_s"].to_numpy(),
        frame["kernel"].to_numpy().astype(object),
        frame["mem_clock_mhz"].cast(pl.Float64).to_numpy() / gpu.memory_clock_mhz,
    )


def on_constant_data(rows: PowerRows) -> PowerRows:
    """Return rows whose operands toggle little, their counts lowered to what they cost beside others.

    Microbenchmarks fill their arrays with one value. Applications beside them set the level of usual data.
    """
    return replace(
        rows,
        rates=CONSTANT_DATA * rows.rates,
        dram_bytes_per_s=CONSTANT_DATA * rows.dram_bytes_per_s,
    )


def monitored(
    name: str,
    rows: PowerRows,
    *,
    voltage: VoltageCurve | None = None,
    efficiency: MemoryEfficiency | None = None,
    as_read: PowerRows | None = None,
    beside: Mapping[str, Fitted] | None = None,
) -> None:
    """Fit and write the coefficients of monitored counts, and sections that stand beside them."""
    gpu = load_gpu(name)
    prior = prior_calibration(gpu).monitored
    assert prior is not None
    fit = fit_power(rows, prior, voltage or gpu.voltage, fit_voltage=voltage is None, scattered=True)
    curve = fit.calibration.voltage or voltage or gpu.voltage
    held = held_out(rows, prior, curve, scattered=True, as_read=as_read)
    fit = replace(fit, calibration=replace(fit.calibration, voltage=curve, relative_sd=held.relative_sd))
    report(name, "monitored programs", fit, held.mape)
    write(name, fit, "monitor", {"held_out_percent": round(100 * held.mape, 2)}, efficiency, beside)


def workload_rows(
    gpu: Gpu, cap_w: float, factors: SequenceFactors | None = None, costs: HostCosts | None = None
) -> PowerRows:
    """Return whole models with their measured time and power, counts from their operators.

    Rows at the cap are left out: their clock is not the one asked for. Where kernels fill a run, its
    counts are taken per second predicted, as a prediction takes them: a run that lasts longer than its
    kernels is one of more kernels than the table names, not of thinner ones. Where the host sets the
    time, they are taken per second measured.
    """
    measured = pl.read_csv(ROOT / "workloads/measured.csv").filter(pl.col("gpu") == gpu.name)
    operators = pl.read_parquet(ROOT / "workloads/operators.parquet")
    parts = []
    factors, costs = factors or sequence_factors(), costs or host_costs("eager")
    for (name,), runs in measured.group_by(["workload"], maintain_order=True):
        one = operators.filter(pl.col("workload") == name).sort("position").drop("workload", "position")
        table = unfused(read_table(one[[c.name for c in one if c.null_count() < one.height]]))
        seconds = runs["measured_ms"].to_numpy() / 1e3
        power = runs["measured_j"].to_numpy() / seconds
        clock = runs["clock_mhz"].cast(pl.Float64).to_numpy()
        counts = np.bincount(table.index, weights=table.counts, minlength=len(table.rows))
        alone = time_rows(table.rows, gpu, clock)
        grid = np.broadcast_to(clock, alone.duration_s.shape)
        timing = in_sequence(alone, table.rows, gpu, grid, factors)
        group = np.full(len(seconds), str(name).split("_")[0], dtype=object)
        host = costs.issue_s(table.rows.family)[table.index]
        issued = issue(timing.duration_s[table.index], np.asarray(table.counts, float), host, costs)
        filled = issued.kernel_s > FILLED * issued.makespan_s
        span = np.where(filled, issued.makespan_s, seconds)
        rows = rows_of_sum(timing, table.rows, gpu, clock, counts=counts, seconds=span)
        kept = power < cap_w
        parts.append(replace(rows, power_w=power, group=group).take(kept))
    return PowerRows.concat(parts)


def on_idle_curve(gpu: Gpu) -> tuple[PowerCalibration, float]:
    """Return the prior with the base of the GPU's idle curve, and how its leakage should grow. [1/W]"""
    prior = prior_calibration(gpu)
    base = fit_sweep(idle_rows("a100_voltage_idle"), prior, gpu.voltage, fit_voltage=False)
    prior = with_base(prior, base)
    return prior, prior.leakage_per_k * thermal_resistance_c_per_w(gpu)


def workloads(gpu: Gpu, rows: PowerRows) -> None:
    """Fit and write the coefficients of operator counts, idle curve and whole models together."""
    prior, heating = on_idle_curve(gpu)
    fit = fit_power(rows, prior, gpu.voltage, known_base=True, heating_per_w=heating)
    held = held_out(rows, prior, gpu.voltage, known_base=True, heating_per_w=heating)
    clocks = replace(rows, group=rows.clock_mhz.astype(int).astype(str).astype(object))
    other = held_out(clocks, prior, gpu.voltage, known_base=True, heating_per_w=heating)
    print(
        f"  leakage grows by {fit.calibration.leakage_per_w:.2g}/W; clock held out {100 * other.mape:.2f} %"
    )
    plain = baselines(rows)
    report(gpu.name, f"{len(rows)} whole models", fit, held.mape)
    print("  baselines:", ", ".join(f"{b.name} {100 * b.mape:.1f} %" for b in plain))
    calibration = replace(fit.calibration, relative_sd=held.relative_sd, cap_share=CAP_SHARE)
    write(
        gpu.name,
        replace(fit, calibration=calibration),
        "power",
        {"held_out_percent": round(100 * held.mape, 2)},
        None,
    )


def idle_rows(name: str) -> SweepRows:
    """Return an idle curve; the reading at the lowest clock is taken out where it stands far off."""
    frame = pl.read_csv(ROOT / "dvfs" / f"{name}.csv", infer_schema_length=None)
    power = frame["idle_w"].to_numpy()
    frame = frame.filter(np.abs(power / np.median(power[:9]) - 1.0) < 0.9)
    count = frame.height
    return SweepRows(
        frame["idle_w"].to_numpy(),
        frame["clock_mhz"].cast(pl.Float64).to_numpy(),
        np.full(count, np.nan),
        np.full(count, "(idle)", dtype=object),
    )


def swept(name: str, rows: SweepRows, *, fit_voltage: bool) -> None:
    """Fit and write a GPU's base and voltage curve."""
    gpu = load_gpu(name)
    fit = fit_sweep(rows, prior_calibration(gpu), gpu.voltage, fit_voltage=fit_voltage)
    rmse = float(np.sqrt(np.mean((fit.residual * rows.power_w) ** 2)))
    print(
        f"{name}: sweep: {100 * fit.error:.2f} %, {rmse:.2f} W RMSE, base {fit.base.round(2)}, {fit.voltage}"
    )
    about = {"title": f"Power of {name}", "basis": "calibrated", "sweep_percent": round(100 * fit.error, 2)}
    (OUT / f"{name}.power.toml").write_text(
        calibration_toml(about=about, source=SOURCE, fits={}, sweep=fit), "utf-8"
    )


def report(name: str, what: str, fit: PowerFit, mape: float) -> None:
    print(f"{name}: {what}: held out {100 * mape:.2f} %, voltage {fit.calibration.voltage}")


def sustained(gpu: Gpu, table: str, rows: PowerRows, fitted_on: Gpu) -> dict[str, Fitted]:
    """Return a section that holds energies fitted on whole models to what another GPU sustains.

    Whole models hardly fill the tensor cores, so that these coefficients alone say too much of products.
    """
    prior, heating = on_idle_curve(fitted_on)
    limits = sustained_rows(ROOT / "ops" / table, gpu, prior, CAP_SHARE)
    fit = hold_to(limits, rows, prior, fitted_on.voltage, heating)
    return {} if fit is None else {"sustained": Fitted(fit, core_only=True)}


def write(
    name: str,
    fit: PowerFit,
    section: str,
    figures: Mapping[str, float],
    efficiency: MemoryEfficiency | None,
    beside: Mapping[str, Fitted] | None = None,
) -> None:
    about = {"title": f"Power of {name}", "basis": "calibrated", **figures}
    curve = fit.calibration.voltage
    text = calibration_toml(
        about=about,
        source=SOURCE,
        fits={section: Fitted(fit), **(beside or {})},
        voltage=curve,
        efficiency=efficiency,
    )
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.power.toml").write_text(text, "utf-8")


def main() -> None:
    """Fit and write every calibration."""
    v100 = load_gpu("v100-pcie")
    applications = activity_rows("v100_applications_activity", v100)
    prior = prior_calibration(v100).monitored
    assert prior is not None
    # Applications keep to their program's level within 2.5 %, microbenchmarks within 7 %.
    curve = fit_power(applications, prior, v100.voltage, fit_voltage=True, scattered=True).calibration.voltage
    assert curve is not None
    loops = activity_rows("v100_microbenchmarks_activity", v100)
    monitored(
        "v100-pcie",
        PowerRows.concat([on_constant_data(loops), applications]),
        voltage=curve,
        efficiency=MemoryEfficiency(930.0, 407.0, 0.336),
        as_read=PowerRows.concat([loops, applications]),
    )
    a100 = load_gpu("a100-sxm")
    pcie = load_gpu("a100-pcie-40gb")
    models = workload_rows(pcie, CAP_SHARE * pcie.power_limit_w * 0.985)
    monitored(
        a100.name,
        activity_rows("a100_programs_activity", a100),
        efficiency=MemoryEfficiency(758.0),
        beside=sustained(a100, "a100-sxm_vllm_gemm.parquet", models, pcie),
    )
    swept("v100-sxm2-16gb", sweep_rows("v100_microbenchmarks", 6), fit_voltage=True)
    workloads(pcie, models)
    pascal = load_gpu("gtx-1080-ti")
    swept(pascal.name, two_domain_rows("gtx1080ti_two_domains", pascal), fit_voltage=True)
    maxwell = load_gpu("gtx-titan-x")
    measured = read_measured(ROOT / "dvfs/titanx_microbenchmarks.parquet", maxwell)
    assert measured.power is not None
    monitored(maxwell.name, measured.power)
    swept("h100-sxm", idle_rows("h100_voltage_idle"), fit_voltage=True)


if __name__ == "__main__":
    main()
