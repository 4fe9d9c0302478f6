"""Controls for ``power_acceptance.py``: what needs no physics, from the rows of all other groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats

#: Others that a black box averages over. [1]
NEIGHBORS = 3
#: Peak of an A100's tensor cores and of its FP32 pipes, and its memory's bandwidth. [FLOP/s], [B/s]
PEAK = {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12}
BANDWIDTH = 1.555e12
BOOST_MHZ = 1410.0


def most_alike(features: Floats, values: Floats, own: Bools) -> Floats:
    """Return for each row the mean of ``values`` over the nearest rows that ``own`` (n, n) does not mark.

    Features (n, k) count by their spread.
    """
    scaled = (features - features.mean(0)) / np.maximum(features.std(0), 1e-12)
    away = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(-1)
    away[own] = np.inf
    nearest = np.argsort(away, axis=1, kind="stable")[:, :NEIGHBORS]
    return np.asarray(values[nearest].mean(axis=1))


def most_alike_under_caps(bound: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return rows under caps by what the cap did to the other programs nearest in power and time."""
    parts = []
    for _, rows in bound.group_by(["cap_w", "clock_mhz"], maintain_order=True):
        # One network at another batch or with another optimizer is no other program.
        program = rows["kernel"].str.split("/").list.get(0).to_numpy()
        own = program[:, None] == program[None, :]
        if (~own).sum(axis=1).min() < NEIGHBORS:
            continue
        features = np.log(rows.select("p0", "t0").to_numpy())
        slower, weaker = (
            np.exp(most_alike(features, np.log((rows[a] / rows[b]).to_numpy()), own))
            for a, b in (("time", "t0"), ("power", "p0"))
        )
        made = rows.select("kernel", "clock_mhz", "cap_w", "time", "power", "energy", "t0", "p0")
        made = made.with_columns(
            p_time=pl.col("t0") * pl.Series(slower), p_power=pl.col("p0") * pl.Series(weaker)
        )
        parts.append(made.with_columns(p_energy=pl.col("p_time") * pl.col("p_power") * 1e-3))
    return {"black box: three most alike": pl.concat(parts)} if parts else {}


def most_alike_patterns(table: pl.DataFrame, shares: Sequence[str]) -> dict[str, Floats]:
    """Return the power of operand patterns by the three other patterns whose bits are most alike."""
    pipe = (table["device"] + table["dtype"]).to_numpy()
    pattern = table["expt"].to_numpy()
    own = (pattern[:, None] == pattern[None, :]) | (pipe[:, None] != pipe[None, :])
    features = table.select(shares).to_numpy()
    return {"black box: three most alike": most_alike(features, table["power_w"].to_numpy(), own)}


def as_quantities(judged: pl.DataFrame) -> pl.DataFrame:
    """Return runs of whole models with measured and predicted time, power and energy. [ms], [W], [J]"""
    return judged.select(
        "set",
        "workload",
        "clock_mhz",
        time="measured_ms",
        energy="measured_j",
        power=pl.col("measured_j") / pl.col("measured_ms") * 1e3,
        p_time="makespan_ms",
        p_time_low="makespan_low_ms",
        p_time_high="makespan_high_ms",
        p_energy="energy_j",
        p_energy_low="energy_low_j",
        p_energy_high="energy_high_j",
        p_power=pl.col("energy_j") / pl.col("makespan_ms") * 1e3,
    )


def work_of_models(root: Path) -> pl.DataFrame:
    """Return operations, bytes, operators and least time of each workload, counted from its operators."""
    rows = pl.read_parquet(root / "workloads/operators.parquet").with_columns(
        size=pl.when(pl.col("dtype") == "fp32").then(4.0).otherwise(2.0), batch=pl.col("batch").fill_null(1)
    )
    product = 2.0 * pl.col("batch") * pl.col("m") * pl.col("n") * pl.col("k")
    attention = 4.0 * pl.col("batch") * pl.col("heads") * pl.col("q_len")
    attention = attention * pl.col("kv_len") * pl.col("head_dim")
    m, n, k = (pl.col(c).cast(pl.Float64) for c in "mnk")
    moved = pl.col("batch") * (m * k + k * n + m * n)
    streamed = pl.col("elements") * (pl.col("reads") + pl.col("writes"))
    squares = pl.col("rows").cast(pl.Float64) * pl.col("cols") * 2
    rows = rows.with_columns(
        operations=pl.coalesce(product, attention, pl.lit(0.0)),
        bytes=pl.coalesce(moved, streamed, squares, pl.lit(0.0)) * pl.col("size"),
        peak=pl.col("dtype").replace_strict(PEAK, default=PEAK["bf16"], return_dtype=pl.Float64),
    )
    work = rows.group_by("workload").agg(
        pl.col("operations", "bytes").sum(),
        operators=pl.len(),
        peak_s=(pl.col("operations") / pl.col("peak")).sum(),
    )
    return work.with_columns(memory_s=pl.col("bytes") / BANDWIDTH)


def whole_models(runs: pl.DataFrame, work: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return runs of whole models by each control, the model itself left out of it."""
    joined = runs.select("set", "workload", "clock_mhz", "time", "power", "energy").join(
        work, on="workload", maintain_order="left"
    )
    model = joined["workload"].str.split("_").list.get(0).to_numpy()
    own = model[:, None] == model[None, :]
    clock = joined["clock_mhz"].cast(pl.Float64).to_numpy()
    features = np.log(np.column_stack([joined.select("operations", "bytes", "operators").to_numpy(), clock]))
    made = {}
    targets = {q: np.log(joined[q].to_numpy()) for q in ("time", "power")}
    mean_power = np.array([targets["power"][model != one].mean() for one in model])
    peak_s, memory_s = (joined[c].to_numpy() for c in ("peak_s", "memory_s"))
    made["naive: peaks, mean power of the others"] = (
        np.log((peak_s * BOOST_MHZ / clock + memory_s) * 1e3), mean_power
    )  # fmt: skip
    design = np.column_stack([np.ones(len(model)), features])
    made["simple fit: straight line in logarithms"] = tuple(
        np.concatenate([
            design[model == one] @ np.linalg.lstsq(design[model != one], target[model != one], rcond=None)[0]
            for one in dict.fromkeys(model)
        ])[np.argsort(np.concatenate([np.flatnonzero(model == one) for one in dict.fromkeys(model)]))]
        for target in targets.values()
    )  # fmt: skip
    made["black box: three most alike"] = tuple(
        most_alike(features, target, own) for target in targets.values()
    )
    return {
        name: joined.with_columns(
            p_time=pl.Series(np.exp(time)), p_power=pl.Series(np.exp(power))
        ).with_columns(p_energy=pl.col("p_time") * pl.col("p_power") * 1e-3)
        for name, (time, power) in made.items()
    }
