"""Predictions from one or two measurements at other clocks and caps: error, coverage, recommended clock.

usage: python benchmarks/anchored_programs.py [DATA_ROOT] [PART OF A SET'S NAME]      default: ../shared/data

Each program or kernel is measured at the anchors alone and predicted everywhere else. Controls see the same,
and beside it all *other* programs of the set at all clocks, which the tool never sees: naive (time goes with
1/clock, energy stays), a simple fit (the mean curve of the others) and a black box (the curves of the three
others nearest in what was measured). Regret is the measured energy at the recommended clock over the least
of a smooth curve through the program's readings; one common clock is the best for the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from anchored_sets import CapSet, ClockSet, cap_sets, clock_sets

from tracetool.core.arrays import Floats
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions
from tracetool.replay.operating_points import least
from tracetool.replay.predict import predict_table

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
WANT = sys.argv[2] if len(sys.argv) > 2 else ""
#: A cap slowed a program that takes this much longer than without. [1]
SLOWED = 1.02
#: A cap held the power of a program that draws less than this share of what it draws without. [1]
HELD = 0.97
#: Clocks that a kernel is measured at where many were. [1]
FIVE = 5
QUANTITIES = ("time", "power", "energy")


def measured(of: ClockSet) -> pl.DataFrame:
    """Return what is to be predicted: time, power, energy and the smooth energy by kernel and clock."""
    rows = of.rows.select(
        "kernel",
        "clock_mhz",
        time=pl.col("duration_us"),
        power=pl.col("power_w"),
        energy=pl.col("duration_us") * pl.col("power_w") * 1e-3,
    )
    smooth = []
    for _, one in rows.group_by("kernel", maintain_order=True):
        x, y = np.log(one["clock_mhz"].to_numpy()), np.log(one["energy"].to_numpy())
        degree = min(4, max(1, one.height // 4)) if one.height > 4 else one.height - 1
        fit = np.polyval(np.polyfit(x - x.mean(), y, degree), x - x.mean())
        smooth.append(one.with_columns(pl.Series("smooth", np.exp(fit))))
    return pl.concat(smooth)


def nearest_clock(of: ClockSet, clock: float) -> pl.DataFrame:
    """Return each kernel's row nearest to a clock."""
    away = (pl.col("clock_mhz") - clock).abs()
    return of.rows.sort(away).group_by("kernel", maintain_order=True).first().sort("kernel")


def predicted(of: ClockSet, anchors: pl.DataFrame, assumed: Assumptions = NOTHING_ASSUMED) -> pl.DataFrame:
    """Return the tool's prediction of every kernel at every clock of the set."""
    clocks = sorted(of.rows["clock_mhz"].unique())
    table = predict_table(anchors, of.gpu, clocks, assumed=assumed)
    energy, clock = (table.frame[c].to_numpy() for c in ("energy_mj", "clock_mhz"))
    drawn = energy if table.usual_optimum is None else table.usual_optimum.cost(energy, clock)
    made = table.frame.with_columns(pl.Series("cost", drawn)).unique(
        ["kernel", "clock_mhz"], keep="first", maintain_order=True
    )
    names = {"duration": "time", "power": "power", "energy": "energy"}
    unit = {"duration": "us", "power": "w", "energy": "mj"}
    ends = {"": "", "_low": "_low", "_high": "_high"}
    return made.select(
        "kernel",
        "clock_mhz",
        "cost",
        *[
            pl.col(f"{stem}{end}_{unit[stem]}").alias(f"p_{name}{end}")
            for stem, name in names.items()
            for end in ends
        ],
    )


def curves(truth: pl.DataFrame, anchors: pl.DataFrame, control: str) -> pl.DataFrame:
    """Return a control's prediction of every kernel from its first anchor and all other kernels."""
    made = []
    by_name = {str(k[0]): g for k, g in truth.group_by("kernel")}
    firsts = {r["kernel"]: r for r in anchors.iter_rows(named=True)}
    table = {
        name: {q: dict(zip(g["clock_mhz"], g[q], strict=True)) for q in ("time", "power")}
        for name, g in by_name.items()
    }
    for name, own in by_name.items():
        start = firsts[name]
        f0, t0, p0 = start["clock_mhz"], start["duration_us"], start["power_w"]
        f = own["clock_mhz"].to_numpy()
        if control == "naive":
            time, power = t0 * f0 / f, p0 * f / f0
        else:
            others = [n for n in by_name if n != name and f0 in table[n]["time"]]
            if control == "black box":
                others = sorted(others, key=lambda n: _apart(table[n], firsts[n], start, f0))[:3]
            ratio = {
                q: np.array([_mean_ratio([table[n][q] for n in others], f0, c) for c in f])
                for q in ("time", "power")
            }
            time, power = t0 * ratio["time"], p0 * ratio["power"]
        made.append(
            pl.DataFrame(
                {"kernel": [name] * len(f), "clock_mhz": f, "p_time": time, "p_power": power}
            ).with_columns(p_energy=pl.col("p_time") * pl.col("p_power") * 1e-3)
        )
    return pl.concat(made)


def _apart(one: dict[str, dict[float, float]], first: dict, start: dict, f0: float) -> float:
    """Return how far another kernel is in power and monitored shares at the anchor."""
    away = np.log(one["power"][f0] / start["power_w"]) ** 2
    for column, value in start.items():
        if column.startswith(("act_", "mix_")) and value is not None and first[column] is not None:
            away += (first[column] - value) ** 2
    return float(away)


def _mean_ratio(values: list[dict[float, float]], f0: float, f: float) -> float:
    ratios = [v[f] / v[f0] for v in values if f in v]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0


def regret(
    joined: pl.DataFrame, kernel_clock: dict[str, float] | None = None, paid: str = "smooth"
) -> tuple[Floats, Floats]:
    """Return each kernel's smooth energy at the recommended clock over the least, less 1, and that clock.

    With ``paid`` another column of energies counts, such as single readings.
    """
    lost, clocks = [], []
    for (name,), one in joined.sort("clock_mhz").group_by(["kernel"], maintain_order=True):
        energy = one[paid].to_numpy()
        if kernel_clock is None:
            cost = one["cost" if "cost" in one.columns else "p_energy"].to_numpy()
            at = least(cost, one["p_time"].to_numpy())
        else:
            at = int(np.argmin(np.abs(one["clock_mhz"].to_numpy() - kernel_clock[str(name)])))
        lost.append(energy[at] / energy.min() - 1.0)
        clocks.append(float(one["clock_mhz"][at]))
    return np.asarray(lost), np.asarray(clocks)


def common_clock(truth: pl.DataFrame, paid: str = "smooth") -> dict[str, float]:
    """Return for each kernel the one clock that costs all others the least."""
    relative = truth.with_columns(over=(pl.col(paid) / pl.col(paid).min().over("kernel")).log())
    total = relative.group_by("clock_mhz").agg(pl.col("over").sum(), pl.len())
    total = total.filter(pl.col("len") >= 0.8 * truth["kernel"].n_unique())
    chosen = {}
    for name in truth["kernel"].unique():
        own = relative.filter(pl.col("kernel") == name).select("clock_mhz", mine="over")
        left = total.join(own, on="clock_mhz", how="left").with_columns(
            (
                (pl.col("over") - pl.col("mine").fill_null(0.0))
                / (pl.col("len") - pl.col("mine").is_not_null())
            ).alias("m")
        )
        chosen[str(name)] = float(left.sort("m", "clock_mhz")["clock_mhz"][0])
    return chosen


def figures(joined: pl.DataFrame, anchor_clocks: pl.DataFrame) -> str:
    """Return errors, and coverage where there are intervals, away from the anchors."""
    away = joined.join(anchor_clocks, on=["kernel", "clock_mhz"], how="anti")
    errors = [100 * ((away[f"p_{q}"] / away[q]) - 1).abs().mean() for q in QUANTITIES]
    text = "/".join(f"{e:5.1f}" for e in errors)
    if "p_time_low" not in away.columns:
        return f"{text}            "
    inside = [
        100 * ((away[q] >= away[f"p_{q}_low"]) & (away[q] <= away[f"p_{q}_high"])).mean() for q in QUANTITIES
    ]
    return f"{text}  {'/'.join(f'{i:3.0f}' for i in inside)}"


def line(label: str, text: str, chosen: tuple[Floats, Floats] | None) -> None:
    """Print one line of the table: errors, coverage, and regret and clocks of what is recommended."""
    tail = ""
    if chosen is not None:
        lost, clocks = chosen
        low, middle, high = np.quantile(clocks, [0.1, 0.5, 0.9])
        tail = (
            f"   {100 * lost.mean():5.2f} {100 * lost.max():6.1f}   {middle:5.0f} ({low:.0f} to {high:.0f})"
        )
    print(f"  {label:34s} {text}{tail}")


def judge_clocks(of: ClockSet) -> None:
    """Print a set over clocks."""
    truth = measured(of)
    print(f"{of.name} ({of.gpu}), {truth['kernel'].n_unique()} x {truth['clock_mhz'].n_unique()} clocks")
    for anchor in of.anchors:
        one = nearest_clock(of, anchor)
        joined = truth.join(predicted(of, one), on=["kernel", "clock_mhz"])
        line(f"from {anchor:g} MHz", figures(joined, one), regret(joined))
    two = pl.concat([nearest_clock(of, clock) for clock in of.pair])
    joined = truth.join(predicted(of, two), on=["kernel", "clock_mhz"])
    line(f"from {of.pair[0]:g} and {of.pair[1]:g} MHz", figures(joined, two), regret(joined))
    clocks = of.rows["clock_mhz"].unique().sort()
    if len(clocks) > 2 * FIVE:
        spread = [clocks[int(i)] for i in np.linspace(1, len(clocks) - 2, FIVE)]
        five = pl.concat([nearest_clock(of, clock) for clock in spread]).unique()
        joined = truth.join(predicted(of, five), on=["kernel", "clock_mhz"])
        line(f"from {FIVE} clocks each", figures(joined, five), regret(joined))
    one = nearest_clock(of, of.anchors[0])
    for control in ("naive", "simple fit", "black box"):
        joined = truth.join(curves(truth, one, control), on=["kernel", "clock_mhz"])
        line(f"{control}, from {of.anchors[0]:g} MHz", figures(joined, one), regret(joined))
    line("one common clock", " " * 30, regret(truth, common_clock(truth)))


def under_caps(of: CapSet) -> pl.DataFrame:
    """Return every row of a set beside its prediction from the program's row under the highest cap."""
    top = of.rows.sort("cap_w", "clock_mhz").group_by("kernel", maintain_order=True).last().sort("kernel")
    anchors = top.select("kernel", "duration_us", "power_w", clock_mhz=pl.lit(of.top_mhz))
    columns = [
        pl.col(f"{stem}{end}_{unit}").alias(f"p_{name}{end}")
        for stem, name, unit in (
            ("duration", "time", "us"),
            ("power", "power", "w"),
            ("energy", "energy", "mj"),
        )
        for end in ("", "_low", "_high")
    ]
    joined = []
    for (cap, clock), rows in of.rows.group_by(["cap_w", "clock_mhz"], maintain_order=True):
        table = predict_table(anchors, of.gpu, [float(clock)], power_cap_w=float(cap)).frame
        joined.append(rows.join(table.select("kernel", "throttled", *columns), on="kernel"))
    rows = pl.concat(joined).with_columns(
        time=pl.col("duration_us"),
        power=pl.col("power_w"),
        energy=pl.col("duration_us") * pl.col("power_w") * 1e-3,
    )
    highest = rows.sort("cap_w").group_by("kernel", "clock_mhz").last()
    rows = rows.join(
        highest.select("kernel", "clock_mhz", free="time", free_power="power"), on=["kernel", "clock_mhz"]
    )
    rows = rows.join(anchors.select("kernel", t0="duration_us", p0="power_w"), on="kernel")
    anchor = (pl.col("cap_w") == pl.col("cap_w").max().over("kernel")) & (pl.col("clock_mhz") == of.top_mhz)
    return rows.filter(~anchor)


def cap_controls(bound: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the controls' predictions of rows that a cap slowed."""
    plain = bound.select("kernel", "clock_mhz", "cap_w", *QUANTITIES, "t0", "p0")
    held = pl.min_horizontal("p0", "cap_w")
    naive = plain.with_columns(p_time=pl.col("t0") * pl.col("p0") / held, p_power=held)
    # One network at another batch or with another optimizer is no other program.
    ratios = plain.with_columns(
        slower=pl.col("time") / pl.col("t0"),
        weaker=pl.col("power") / pl.col("p0"),
        program=pl.col("kernel").str.split("/").list.get(0),
    )

    def others(column: str) -> pl.Expr:
        own = ("cap_w", "program")
        total = pl.col(column).sum().over("cap_w") - pl.col(column).sum().over(own)
        return total / (pl.len().over("cap_w") - pl.len().over(own))

    fit = ratios.with_columns(p_time=pl.col("t0") * others("slower"), p_power=pl.col("p0") * others("weaker"))
    controls = {"naive: time x power / cap": naive, "simple fit: mean of the others": fit}
    energy = (pl.col("p_time") * pl.col("p_power") * 1e-3).alias("p_energy")
    return {
        name: rows.filter(pl.col("p_time").is_finite()).with_columns(energy)
        for name, rows in controls.items()
    }


def _called(rows: pl.DataFrame) -> str:
    return f"{100 * float(rows['throttled'].mean() or 0.0):.0f} % of {rows.height}"


def judge_caps(of: CapSet) -> None:
    """Print a set over caps: all rows, and the ones a cap slowed."""
    rows = under_caps(of)
    slowed = pl.col("time") > SLOWED * pl.col("free")
    bound = rows.filter(slowed)
    none = rows.clear().select("kernel", "clock_mhz")
    print(f"{of.name} ({of.gpu}), {rows['kernel'].n_unique()} programs, {rows.height} rows")
    line("all rows", figures(rows, none), None)
    line(f"{bound.height} rows a cap slowed", figures(bound, none), None)
    lower = pl.col("power") < pl.col("free_power") / SLOWED
    held = pl.col("power") < HELD * pl.col("free_power")
    for label, was in (("longer", slowed), ("longer at less power", slowed & lower), ("held", held)):
        print(f"  called throttled of {label} rows: {_called(rows.filter(was))}", end=";  ")
        print(f"of the others: {_called(rows.filter(~was))}")
    print(f"  called throttled of rows neither longer nor held: {_called(rows.filter(~slowed & ~held))}")
    # What is each program's own, at every cap alike, is what a row under one cap would tell.
    off = (pl.col("p_time") / pl.col("time")).log()
    alike = bound.with_columns(p_time=pl.col("time") * (off - off.mean().over("kernel")).exp())
    line("time less each program's own error", figures(alike, none), None)
    for name, control in cap_controls(bound).items():
        line(name, figures(control, none), None)


def main() -> None:
    """Print every set."""
    print(
        "  error [%] of time/power/energy, coverage [%] of their 90 % intervals, regret [%] mean and worst,"
    )
    print("  recommended clock [MHz]: median (10 to 90 % of the kernels)")
    for clock_set in clock_sets(ROOT):
        if WANT in clock_set.name:
            judge_clocks(clock_set)
    for cap_set in cap_sets(ROOT):
        if WANT in cap_set.name:
            judge_caps(cap_set)


if __name__ == "__main__":
    main()
