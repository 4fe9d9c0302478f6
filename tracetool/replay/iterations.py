"""Iterations of a run: named steps, else the longest repetition of its kernels."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints
from tracetool.replay.range_tree import NUMBER, STEP, Costs
from tracetool.tables.run import Run

#: Names that serving engines give an iteration, with its requests and tokens.
SERVING_STEP: Final = r"^execute_(?:\d+_)?context_\d+\(|^step\[\w+ bs=\d+"

#: A signature marks iterations if this share of its spacings are alike.
_REGULAR: Final = 0.8
_LEAST_ITERATIONS: Final = 3


def iterations(
    ranges: pl.DataFrame,
    operators: pl.DataFrame,
    kernels: pl.DataFrame,
    costs: Costs,
    sums: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return time and energy of every iteration: named steps, else a detected repetition.

    Parameters
    ----------
    ranges, operators : DataFrame
        The tables of a run; some profilers write steps among the operators.
    kernels : DataFrame, shape (n, columns)
        ``launch_ns`` and ``signature`` of each activity, in recorded order.
    costs : Costs
        What each activity costs.
    sums : DataFrame, shape (n, columns), optional
        What else to add up.

    Returns
    -------
    DataFrame, one row per iteration
        ``iteration``, ``name``, ``launches``, ``span_ms`` (first start to last end), ``device_time_ms``,
        ``energy_j``, both of kernels and copies; empty where nothing repeats. [ms], [J]
    """
    number, names = numbered_steps(ranges, operators, kernels)
    if number is None:
        number, names = np.full(kernels.height, -1), []
    return _per_iteration(number, names, costs, pl.DataFrame() if sums is None else sums)


def _per_iteration(number: Ints, names: list[str], costs: Costs, sums: pl.DataFrame) -> pl.DataFrame:
    frame = pl.DataFrame(
        {"iteration": number, "start": costs.start_ns, "end": costs.end_ns, "energy_j": costs.energy_j}
    )
    frame = pl.concat([frame, sums], how="horizontal") if sums.width else frame
    frame = frame.filter(pl.col("iteration") >= 0)
    table = (
        frame.group_by("iteration", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            ((pl.col("end").max() - pl.col("start").min()) * 1e-6).alias("span_ms"),
            ((pl.col("end") - pl.col("start")).sum() * 1e-6).alias("device_time_ms"),
            pl.col("energy_j", *sums.columns).sum(),
        )
        .sort("iteration")
    )
    iteration_names = pl.Series("name", [names[i] for i in table["iteration"].to_list()], dtype=pl.String)
    return table.insert_column(1, iteration_names)


def numbered_steps(
    ranges: pl.DataFrame, operators: pl.DataFrame, kernels: pl.DataFrame
) -> tuple[Ints | None, list[str]]:
    """Number each activity by its step: a named one, else of the longest repetition of the kernels.

    Parameters
    ----------
    ranges, operators : DataFrame
        The tables of a run; some profilers write steps among the operators.
    kernels : DataFrame, shape (n, columns)
        ``launch_ns`` and ``signature`` of each activity, in recorded order.

    Returns
    -------
    number : array of int, shape (n,) or None
        -1 outside any step; None where nothing repeats.
    names : list of str
        Name of each number.
    """
    number, names = named_steps(ranges, kernels)
    if number is None:
        number, names = named_steps(operators, kernels)
    return (number, names) if number is not None else _repeating(kernels["signature"])


def named_steps(rows: pl.DataFrame, kernels: pl.DataFrame) -> tuple[Ints | None, list[str]]:
    """Number each activity by the step in whose time it was launched, on whatever thread of its process.

    Parameters
    ----------
    rows : DataFrame
        The ``ranges`` or ``operators`` table of a run.
    kernels : DataFrame, shape (n, columns)
        ``launch_ns`` and, where several processes ran, ``process``.

    Returns
    -------
    number : array of int, shape (n,) or None
        -1 outside any step; None where nothing was launched in one.
    names : list of str
        Name of each number. Steps of one name of several processes (ranks) are one.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    process = pl.col("process") if "process" in rows.columns else pl.lit(None, dtype=pl.Int64)
    steps = (
        rows.filter(pl.col("name").str.contains(f"{STEP}|{SERVING_STEP}") & (pl.col("duration_ns") > 0))
        .with_columns(_stem().alias("stem"), process.alias("process"))
        .sort("start_ns")
        # One step seen on several threads counts once.
        .filter((pl.col("start_ns") >= end.shift(1).over("process", "name")).fill_null(value=True))
    )
    if not steps.height:
        return None, []
    # Epochs hold iterations: the finest loop counts. A serving engine's own name says most.
    stems = steps["stem"].value_counts(sort=True)["stem"].to_list()
    finest = "execute" if "execute" in stems else stems[0]
    steps = steps.filter(pl.col("stem") == finest).with_columns(
        pl.int_range(pl.len()).over("process", "name").alias("turn")
    )
    numbers = steps.select("name", "turn").unique(maintain_order=True).with_row_index("number")
    steps = steps.join(numbers, on=["name", "turn"], how="left", maintain_order="left")
    launch = kernels["launch_ns"].fill_null(np.iinfo(np.int64).min).to_numpy()
    number = _placed(steps.unique("number", keep="first", maintain_order=True), launch)
    processes = steps["process"].drop_nulls().unique().sort().to_list()
    if len(processes) > 1 and "process" in kernels.columns:
        of_process = kernels["process"].fill_null(-1).to_numpy()
        for one in processes:
            process_rows = np.flatnonzero(of_process == one)
            number[process_rows] = _placed(steps.filter(pl.col("process") == one), launch[process_rows])
    return (number, numbers["name"].to_list()) if (number >= 0).any() else (None, [])


def _stem() -> pl.Expr:
    """Return the common part of the names of one loop's steps."""
    name = pl.col("name")
    serving = pl.when(name.str.starts_with("execute_")).then(pl.lit("execute")).otherwise(pl.lit("step["))
    return pl.when(name.str.contains(SERVING_STEP)).then(serving).otherwise(name.str.replace(NUMBER, ""))


def run_steps(run: Run, kernels: pl.DataFrame) -> tuple[Ints | None, list[str]]:
    """Return :func:`named_steps` of a run's ranges, else of its operators, where some profilers put them."""
    number, names = named_steps(run.table("ranges"), kernels)
    return (number, names) if number is not None else named_steps(run.table("operators"), kernels)


def _placed(steps: pl.DataFrame, launch_ns: Ints) -> Ints:
    """Return the number of the step around each launch, -1 for none."""
    start = steps["start_ns"].to_numpy()
    end = start + steps["duration_ns"].to_numpy()
    at = np.searchsorted(start, launch_ns, side="right") - 1
    inside = (at >= 0) & (launch_ns < end[np.maximum(at, 0)])
    return np.where(inside, steps["number"].cast(pl.Int64).to_numpy()[np.maximum(at, 0)], -1)


def _repeating(signature: pl.Series) -> tuple[Ints | None, list[str]]:
    """Find the signature that comes back at the longest regular spacing and cut the sequence there."""
    placed = pl.DataFrame({"signature": signature}).with_row_index("place")
    spacing = placed.with_columns(pl.col("place").cast(pl.Int64).diff().over("signature").alias("gap"))
    marks = (
        spacing.group_by("signature", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("gap").median().alias("period"),
            (pl.col("gap") == pl.col("gap").median()).mean().alias("alike"),
            pl.col("place").min().alias("first"),
        )
        .filter(
            (pl.col("count") >= _LEAST_ITERATIONS) & (pl.col("alike") >= _REGULAR) & (pl.col("period") > 1)
        )
        .filter(pl.col("count") * pl.col("period") >= 0.5 * len(signature))
        .sort("period", "first", descending=[True, False])
    )
    if not marks.height:
        return None, []
    begins = placed.filter(pl.col("signature") == marks["signature"][0])["place"].to_numpy()
    number = np.searchsorted(begins, np.arange(len(signature)), side="right") - 1
    return number.astype(np.int64), [f"repetition {i}" for i in range(len(begins))]
