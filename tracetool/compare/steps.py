"""Variation of the steps of a run, and the uncertainty of the run's mean that follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats

#: Steps a run must name before their variation is known.
_LEAST: Final = 2
#: Steps count whose number of launches differs no more than this from the usual one's, if most do. [1]
_USUAL: Final = 0.1
#: A figure made of the energy and the time of each step.
Figure = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Steps:
    """Times of the steps of a run."""

    times: pl.DataFrame  # step, row of the run's classes, time_s
    span_s: Floats  # (steps,) first start of each step to that of the next


class Stepped(Protocol):
    """A run as far as its steps go."""

    @property
    def classes(self) -> pl.DataFrame:
        """``time_s`` and ``energy_j`` by class."""

    @property
    def steps_taken(self) -> Steps | None:
        """The steps; None where the run names none."""

    @property
    def gap_s(self) -> float:
        """Time of the gaps."""

    @property
    def gap_j(self) -> float:
        """Energy of the gaps."""


class SteppedSide(Protocol):
    """A side as far as its runs' steps go."""

    @property
    def runs(self) -> Sequence[Stepped]:
        """The runs."""

    @property
    def by_step(self) -> pl.DataFrame:
        """``run``, ``step``, ``class``, ``time_s``, ``energy_j``."""


def mean_variance(values: Floats) -> Floats:
    r"""Return the relative variance of the mean of consecutive steps.

    Parameters
    ----------
    values : array, shape (t, k)
        k figures of t steps, in order.

    Returns
    -------
    array, shape (k,)
        Zero where fewer than two steps are given, or the mean is not positive. [1]

    Notes
    -----
    By batch means: with b = :math:`\lfloor \sqrt t \rfloor` steps in each of :math:`q = \lfloor t/b \rfloor`
    batches, :math:`\operatorname{var}(\bar x) = s_b^2 / q`. Steps close to one another are alike, so the
    variance of single steps over t would be too small.

    Examples
    --------
    >>> mean_variance(np.array([[1.0], [1.2], [0.8], [1.0]])).round(4)
    array([0.01])
    """
    t, k = values.shape
    if t < _LEAST:
        return np.zeros(k)
    b = math.isqrt(t)
    q = t // b
    batches = values[: q * b].reshape(q, b, k).mean(axis=1)
    mean = batches.mean(axis=0)
    variance = batches.var(axis=0, ddof=1) / q
    return np.asarray(np.divide(variance, mean**2, out=np.zeros(k), where=mean > 0))


def instance_free(column: str) -> pl.Expr:
    """Return an expression: the name with counters taken out, so that ``step 12`` and ``step 13`` are one."""
    return pl.col(column).str.replace_all(r"0x[0-9a-fA-F]+", "#").str.replace_all(r"([#_ :])\d+", "${1}#")


def step_times(
    kernels: pl.DataFrame,
    step: pl.Series,
    ranges: pl.DataFrame,
    classes: pl.DataFrame,
    group: pl.Series | None = None,
) -> Steps:
    """Return the time of each step of a run.

    Parameters
    ----------
    kernels, ranges : DataFrame
        The run's tables.
    step : Series of int, shape (n,)
        Number of the step each activity belongs to; negative outside any.
    classes : DataFrame
        As :func:`tracetool.compare.sides.run_classes` returns.
    group : Series of str, shape (n,), optional
        Group of each activity, where classes are kept apart by it.
    """
    named = ranges.select("range", instance_free("name").alias("range_name"))
    of_group = pl.lit("") if group is None else group
    inside = (
        kernels.select(
            "signature", "range", "start_ns", "duration_ns", step.alias("step"), of_group.alias("group")
        )
        .filter(pl.col("step") >= 0)
        .join(named, on="range", how="left")
        .with_columns(pl.col("range_name").fill_null(""))
    )
    place = classes.select(
        pl.col("range").alias("range_name"), "group", "signature", pl.int_range(pl.len()).alias("row")
    )
    times = (
        inside.group_by("step", "range_name", "group", "signature", maintain_order=True)
        .agg((pl.col("duration_ns").sum() / 1e9).alias("time_s"))
        .join(place, on=["range_name", "group", "signature"], how="inner")
        .select("step", "row", "time_s")
        .sort("step", "row")
    )
    bounds = (
        inside.group_by("step", maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            (pl.col("start_ns") + pl.col("duration_ns")).max().alias("end_ns"),
            pl.len().alias("launches"),
        )
        .sort("step")
    )
    begin, end = bounds["start_ns"].to_numpy(), bounds["end_ns"].to_numpy()
    span = np.diff(np.append(begin, end[-1:])) / 1e9
    # Parts of a step at a recording's ends, and steps that do other work (validation), are no noise.
    launches = bounds["launches"].to_numpy()
    usual = np.abs(launches / np.median(launches) - 1.0) <= _USUAL if len(launches) else launches > 0
    usual |= 2 * usual.sum() < len(usual)
    return Steps(times.filter(pl.col("step").is_in(bounds["step"].filter(usual).implode())), span[usual])


def run_steps(number: int, run: Stepped, of: pl.Series) -> pl.DataFrame:
    """Return time and energy of each class in each step of a run: ``run``, ``step``, ``class``, ...

    Energies follow the times: a step draws each class's mean power. ``of`` is the class of each row.
    """
    schema = {
        "run": pl.Int64, "step": pl.Int64, "class": pl.Int64, "time_s": pl.Float64, "energy_j": pl.Float64
    }  # fmt: skip
    if run.steps_taken is None:
        return pl.DataFrame(schema=schema)
    power = (run.classes["energy_j"] / run.classes["time_s"]).fill_nan(0.0).fill_null(0.0)
    times = run.steps_taken.times
    row = times["row"]
    return pl.DataFrame(
        {
            "run": pl.repeat(number, times.height, dtype=pl.Int64, eager=True),
            "step": times["step"].cast(pl.Int64),
            "class": of.gather(row).cast(pl.Int64),
            "time_s": times["time_s"],
            "energy_j": times["time_s"] * power.gather(row),
        },
        schema=schema,
    )


def step_sums(
    sides: Sequence[SteppedSide], members: Sequence[pl.DataFrame], count: int
) -> list[tuple[Floats, Floats]]:
    """Return energy and time of k figures in each step of each run that names steps, shape (steps, k) each.

    Parameters
    ----------
    sides : sequence of sides
        Both sides.
    members : sequence of DataFrame
        For each side ``class``, ``at`` (the figure it is part of, 0 to k - 1) and, where only part of the
        class is, ``share``.
    count : int
        k.
    """
    sums = []
    for side, places in zip(sides, members, strict=True):
        if all(run.steps_taken is None for run in side.runs):
            continue
        share = pl.col("share") if "share" in places.columns else pl.lit(1.0)
        rows = (
            side.by_step.join(places, on="class", how="inner")
            .group_by("run", "step", "at", maintain_order=True)
            .agg((pl.col(c) * share).sum() for c in ("time_s", "energy_j"))
        )
        of, at = rows["run"].to_numpy(), rows["at"].to_numpy()
        step, time_s, energy_j = (rows[c].to_numpy() for c in ("step", "time_s", "energy_j"))
        for number, run in enumerate(side.runs):
            if run.steps_taken is None:
                continue
            of_run = of == number
            step_numbers = np.unique(run.steps_taken.times["step"].to_numpy())
            place = (np.searchsorted(step_numbers, step[of_run]), at[of_run])
            energy, time = np.zeros((2, len(step_numbers), count))
            energy[place], time[place] = energy_j[of_run], time_s[of_run]
            sums.append((energy, time))
    return sums


def within(sums: Sequence[tuple[Floats, Floats]], figure: Figure, count: int) -> Floats:
    """Return the relative variance that steps leave in the mean of k figures of a run.

    Parameters
    ----------
    sums : sequence of (array, array)
        From :func:`step_sums`.
    figure : callable
        Makes the figures of each step from their energy and time, shape (steps, k) each.
    count : int
        k.

    Returns
    -------
    array, shape (k,)
        The mean over all runs that name steps; zero where none does. [1]
    """
    return _mean_over([figure(energy, time) for energy, time in sums], count)


def _mean_over(runs: Sequence[Floats], count: int) -> Floats:
    r"""Return the mean relative variance of the runs' means, less what recurs step by step in every run.

    Notes
    -----
    Step j of every run may do the same (the same data, a checkpoint): what runs of as many steps have in
    common there, :math:`\bar x_{\cdot j}`, is taken off, and the variance of what is left divided by
    :math:`1 - 1/n`, for n such runs.
    """
    variances = []
    for steps in {len(run) for run in runs}:
        alike = [run for run in runs if len(run) == steps]
        scaled = []
        for run in alike:
            mean = run.mean(axis=0)
            scaled.append(np.divide(run, mean, out=np.ones_like(run), where=mean > 0))
        n = len(alike)
        if n > 1:
            common = np.mean(scaled, axis=0)
            variances += [mean_variance(1.0 + run - common) / (1.0 - 1.0 / n) for run in scaled]
        else:
            variances += [mean_variance(run) for run in scaled]
    return np.mean(variances, axis=0) if variances else np.zeros(count)


def within_whole(sides: Sequence[SteppedSide], figure: Figure) -> float:
    """Return the relative variance that steps leave in a whole run's mean, its gaps included. [1]"""
    figures = []
    for side in sides:
        sums = (
            side.by_step.group_by("run", "step", maintain_order=True)
            .agg(pl.col("time_s", "energy_j").sum())
            .sort("step")
        )
        for number, run in enumerate(side.runs):
            run_sums = sums.filter(pl.col("run") == number)
            if run.steps_taken is None or run_sums.height != len(run.steps_taken.span_s):
                continue
            span = run.steps_taken.span_s
            idle_w = run.gap_j / run.gap_s if run.gap_s > 0 else 0.0
            idle = np.maximum(span - run_sums["time_s"].to_numpy(), 0.0)
            energy = run_sums["energy_j"].to_numpy() + idle_w * idle
            figures.append(figure(energy[:, None], span[:, None]))
    return float(_mean_over(figures, 1)[0])
