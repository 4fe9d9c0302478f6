"""Power of products by what their operands hold: each pattern left out of the fit in turn.

    python benchmarks/operand_power.py ../shared/data

Of each pipe of each GPU two numbers are fitted (power without switching, power of random operands); the four
weights of the switching are common to all. Readings at the cap bound the fit from below only. The controls
are one number a pipe, and a straight line over the share of bits that change between neighbors.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from operand_patterns import activity
from scipy.optimize import least_squares, nnls

from tracetool.core.interval import Z90

SHARES = ("neighbor", "along_k", "result", "live")
CAP_W, AT_CAP_W = 299.0, 295.0


def measured(root: Path) -> pl.DataFrame:
    """Return mean power by GPU, pipe and pattern beside the shares of the pattern's bits."""
    table = pl.read_parquet(root / "dvfs/gemm_operand_patterns.parquet")
    keys = ["device", "dtype", "expt", "pat"]
    mean = table.group_by(keys).agg(pl.col("p").cast(pl.Float64).mean().alias("power_w")).sort(keys)
    cached: dict[Any, list[float]] = {}
    rows = []
    for dtype, pattern, parameter in mean.select("dtype", "expt", "pat").iter_rows():
        key = (dtype.removesuffix("-t"), pattern, parameter)
        if key not in cached:
            one = activity(key[0], pattern, float(parameter or 0.0))
            cached[key] = [getattr(one, share) for share in SHARES]
        rows.append(cached[key])
    return mean.with_columns(*(pl.Series(s, [r[i] for r in rows]) for i, s in enumerate(SHARES)))


def _power(numbers: Any, shares: Any, pipe: Any, pipes: int) -> Any:
    weights = numbers[2 * pipes :] / numbers[2 * pipes :].sum()
    return numbers[pipe] + numbers[pipes + pipe] * (shares @ weights)


def fit(shares: Any, power_w: Any, pipe: Any, start: Any = None) -> Any:
    """Return floor and slope of each pipe, then the weights."""
    pipes = int(pipe.max()) + 1

    def off(numbers: Any) -> Any:
        model = _power(numbers, shares, pipe, pipes)
        bounded = (power_w >= AT_CAP_W) & (model > power_w)
        return np.r_[np.where(bounded, 0.0, model / power_w - 1.0), 1e-3 * (numbers[2 * pipes :].sum() - 1)]

    first = np.r_[np.full(pipes, 190.0), np.full(pipes, 200.0), np.full(4, 0.25)] if start is None else start
    return least_squares(off, first, bounds=(0.0, np.r_[np.full(2 * pipes, 900.0), np.full(4, 5.0)])).x


def left_out(table: pl.DataFrame) -> tuple[Any, Any]:
    """Return the power and the switching below random of each row, its pattern not in the fit."""
    shares, power_w = table.select(SHARES).to_numpy(), table["power_w"].to_numpy()
    names, pipe = np.unique((table["device"] + " " + table["dtype"]).to_numpy(), return_inverse=True)
    pattern = table["expt"].to_numpy()
    whole = fit(shares, power_w, pipe)
    model, below = np.zeros(len(pipe)), np.zeros(len(pipe))
    usual = np.array([shares[(pipe == i) & (pattern == "11-sparsity")][0] for i in range(len(names))])
    for one in np.unique(pattern):
        held = pattern == one
        numbers = fit(shares[~held], power_w[~held], pipe[~held], whole)
        model[held] = np.minimum(_power(numbers, shares[held], pipe[held], len(names)), CAP_W)
        weights = numbers[2 * len(names) :]
        below[held] = 1.0 - (shares[held] @ weights) / (usual[pipe[held]] @ weights)
    return model, below


def controls(table: pl.DataFrame) -> dict[str, Any]:
    """Return the power by one number a pipe, and by a line over neighbors' bits; patterns left out."""
    power_w, pattern = table["power_w"].to_numpy(), table["expt"].to_numpy()
    line = np.stack([np.ones(table.height), table["neighbor"].to_numpy()], axis=1)
    pipe = (table["device"] + table["dtype"]).to_numpy()
    one_number, straight = np.zeros(table.height), np.zeros(table.height)
    for key in np.unique(pipe):
        for one in np.unique(pattern[pipe == key]):
            held, rest = (pipe == key) & (pattern == one), (pipe == key) & (pattern != one)
            one_number[held] = power_w[rest].mean()
            straight[held] = np.minimum(line[held] @ nnls(line[rest], power_w[rest])[0], CAP_W)
    return {"one number a pipe": one_number, "a line over changed bits": straight}


def report(root: Path) -> None:
    """Print the errors."""
    from tracetool.hardware.priors import prior_number
    from tracetool.model.power import ANCHOR_SD

    table = measured(root)
    power_w = table["power_w"].to_numpy()
    model, below = left_out(table)
    off = model / power_w - 1.0
    half = Z90 * np.hypot(ANCHOR_SD, prior_number("operands.stated_spread") * below)
    held = (np.abs(np.log(model / power_w)) <= half).mean()
    print(f"operands: {table.height} patterns and parameters on A100 and V100, each of 16 patterns left out")
    print(
        f"  {'switching':28s} power MAPE {100 * np.abs(off).mean():5.2f} %  "
        f"in the 90 % interval {100 * held:.0f} %"
    )
    for name, control in controls(table).items():
        print(f"  {name:28s} power MAPE {100 * np.abs(control / power_w - 1).mean():5.2f} %")
    for (device, dtype), rows in table.with_columns(off=np.abs(off)).group_by(
        "device", "dtype", maintain_order=True
    ):
        print(f"  {device} {dtype:24s} power MAPE {100 * rows['off'].mean():5.2f} %")
    shares, pipe = table.select(SHARES).to_numpy(), (table["device"] + " " + table["dtype"]).to_numpy()
    names, place = np.unique(pipe, return_inverse=True)
    numbers = fit(shares, power_w, place)
    weights = numbers[2 * len(names) :] / numbers[2 * len(names) :].sum()
    print("  weights", dict(zip(SHARES, weights.round(3).tolist(), strict=True)))
    for i, name in enumerate(names):
        usual = shares[(place == i) & (table["expt"].to_numpy() == "11-sparsity")][0] @ weights
        print(
            f"  {name}: floor {numbers[i]:.0f} W, random {numbers[i] + numbers[len(names) + i] * usual:.0f} W"
        )


if __name__ == "__main__":
    report(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"))
