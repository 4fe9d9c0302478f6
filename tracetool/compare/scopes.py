"""Figures of the families and kernel names a threshold is set on."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.idle_groups import idle_figures
from tracetool.compare.matched import model_error_j
from tracetool.compare.readings_error import readings_error
from tracetool.compare.sides import Side
from tracetool.compare.steps import Figure, step_sums, within
from tracetool.compare.thresholds import Threshold
from tracetool.core.arrays import Floats, per
from tracetool.core.errors import BadInput

#: The scope that stands for every family (or group, where runs are compared by groups) with at least this
#: share of a side's energy.
EVERY_FAMILY: Final = "*"
LEAST_SHARE: Final = 0.01


#: What each metric makes of energy and time.
FIGURES: Final[Mapping[str, Figure]] = {
    "energy": lambda energy, time: energy,  # noqa: ARG005
    "time": lambda energy, time: time,  # noqa: ARG005
    "power": per,
    "edp": lambda energy, time: energy * time,
}


@dataclass(frozen=True)
class ScopeFigure:
    """One figure of one scope, per run."""

    metric: str
    scope: str
    limit: float
    base: Floats
    head: Floats
    within: float  # relative variance the steps of a run leave in its mean
    classes: dict[str, list[str]]  # per kind of label (family, name) the texts it covers
    open_share: float = 0.0  # standard error that readings leave in its change, relative to the base

    def model_error(self, pairs: pl.DataFrame) -> float:
        """Return the model's standard error of the change, relative to the base."""
        if not self.classes:
            return 0.0
        inside = pl.any_horizontal(pl.col(k).is_in(v) for k, v in self.classes.items())
        rows = pairs.with_columns(pl.col("name_base").alias("name")).filter(inside)
        base_j = float(rows["energy_j_base"].sum())
        return model_error_j(rows) / base_j if base_j > 0 else 0.0


def scope_figures(sides: tuple[Side, Side], thresholds: Sequence[Threshold]) -> list[ScopeFigure]:
    """Return the figures scoped thresholds ask for, one per threshold; ``*`` asks for every family.

    Where runs are compared by groups, a scope names groups first, and ``*`` every group.

    Raises
    ------
    BadInput
        If a scope covers nothing on either side.
    """
    figures = []
    idle = idle_figures(sides[0]), idle_figures(sides[1])
    for threshold in thresholds:
        if threshold.scope in {*idle[0], *idle[1]}:
            figures.append(_idle(sides, threshold, idle))
            continue
        groups = {str(g) for side in sides for g in side.classes["group"].unique()} - {""}
        if threshold.scope == EVERY_FAMILY:
            column = "group" if groups else "family"
            figures += [_figure(sides, threshold, f, {column: [f]}) for f in _large(sides, column)]
            continue
        inside = sorted(g for g in groups if g == threshold.scope or fnmatch.fnmatchcase(g, threshold.scope))
        if inside:
            figures.append(_figure(sides, threshold, threshold.scope, {"group": inside}))
            continue
        families = {str(f) for side in sides for f in side.classes["family"].unique()}
        if threshold.scope in families:
            figures.append(_figure(sides, threshold, threshold.scope, {"family": [threshold.scope]}))
            continue
        names = sorted(
            {
                str(n)
                for side in sides
                for n in side.classes["name"].unique()
                if fnmatch.fnmatchcase(n, threshold.scope)
            }
        )
        if not names:
            kinds = "group, family or kernel" if groups else "family or kernel"
            raise BadInput(
                f"--fail-on {threshold.text()!r}: no {kinds} of these runs is called that",
                "tracetool diff BASE HEAD -o diff.csv lists them",
            )
        figures.append(_figure(sides, threshold, threshold.scope, {"name": names}))
    return figures


def _idle(
    sides: tuple[Side, Side], threshold: Threshold, idle: Sequence[Mapping[str, tuple[Floats, Floats]]]
) -> ScopeFigure:
    """Return the figure of a cause of idling."""
    values = []
    for side, figures in zip(sides, idle, strict=True):
        nothing = np.zeros(len(side.runs))
        time, energy = figures.get(threshold.scope, (nothing, nothing))
        values.append(FIGURES[threshold.metric](energy, time))
    return ScopeFigure(threshold.metric, threshold.scope, threshold.limit, values[0], values[1], 0.0, {})


def _large(sides: tuple[Side, Side], column: str = "family") -> list[str]:
    large = set()
    for side in sides:
        sums = side.classes.group_by(column, maintain_order=True).agg(pl.col("energy_j").sum())
        total_j = float(sums["energy_j"].sum())
        large |= {str(f) for f in sums.filter(pl.col("energy_j") >= LEAST_SHARE * total_j)[column]}
    return sorted(large)


def _figure(
    sides: tuple[Side, Side], threshold: Threshold, scope: str, classes: dict[str, list[str]]
) -> ScopeFigure:
    inside = pl.any_horizontal(pl.col(k).is_in(v) for k, v in classes.items())
    base, head = (_per_run(side, inside, threshold.metric) for side in sides)
    members = [s.classes.filter(inside).select("class", pl.lit(0, pl.Int64).alias("at")) for s in sides]
    noise = float(within(step_sums(sides, members, 1), FIGURES[threshold.metric], 1)[0])
    open_j = readings_error(sides, members, 1) if threshold.metric != "time" else None
    base_j = float(_per_run(sides[0], inside, "energy").mean())
    open_share = float(open_j[0]) / base_j if open_j is not None and base_j > 0 else 0.0
    return ScopeFigure(threshold.metric, scope, threshold.limit, base, head, noise, classes, open_share)


def family_figures(sides: tuple[Side, Side]) -> Mapping[str, tuple[Floats, Floats, Floats]]:
    """Return the figures of every family of some weight, by metric.

    Returns
    -------
    base, head : array, shape (n, k) and (m, k)
        Per run.
    within : array, shape (k,)
        Relative variance the steps of a run leave in its mean.
    """
    names = _large(sides)
    place = pl.DataFrame({"family": pl.Series(names, dtype=pl.String)}).with_row_index("at")
    members = [s.classes.join(place, on="family").select("class", pl.col("at").cast(pl.Int64)) for s in sides]
    sums = step_sums(sides, members, len(names))
    per_side = []
    for side in sides:
        rows = side.by_run(pl.col("family")).join(place, left_on="label", right_on="family")
        energy, time = np.zeros((2, len(side.runs), len(names)))
        at = rows["run"].to_numpy(), rows["at"].to_numpy()
        energy[at], time[at] = rows["energy_j"].to_numpy(), rows["time_s"].to_numpy()
        per_side.append((energy, time))
    return {m: (f(*per_side[0]), f(*per_side[1]), within(sums, f, len(names))) for m, f in FIGURES.items()}


def _per_run(side: Side, inside: pl.Expr, metric: str) -> Floats:
    rows = side.by_run(inside).filter(pl.col("label")).sort("run")
    time, energy = np.zeros(len(side.runs)), np.zeros(len(side.runs))
    time[rows["run"].to_numpy()] = rows["time_s"].to_numpy()
    energy[rows["run"].to_numpy()] = rows["energy_j"].to_numpy()
    return FIGURES[metric](energy, time)
