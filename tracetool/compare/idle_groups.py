"""Idle time of runs by cause, for comparisons by gap: time in no class of launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tracetool.compare.sides import Side
from tracetool.core.arrays import Floats
from tracetool.replay.groups import IDLE_ROW, groups_of
from tracetool.tables.run import Run

GAP_KEY = "gap"
_SUMS = ("time_s", "energy_j")


def idle_groups(
    run: Run, keys: Sequence[str], depth: int | None, watts: tuple[float, float] | None = None
) -> pl.DataFrame:
    """Return a run's idle time and its energy by group.

    Parameters
    ----------
    run : Run
        The run.
    keys : sequence of str
        As for :func:`tracetool.replay.groups.groups_of`, ``gap`` among them.
    depth : int, optional
        Levels of nested modules kept apart.
    watts : (float, float), optional
        Power up to a second after an activity, and later; by default one power throughout. [W]

    Returns
    -------
    DataFrame
        ``name``, ``time_s`` and ``energy_j`` as shares that sum to 1. [1]
    """
    groups = groups_of(run, keys, depth)
    held_s, rest_s = np.zeros((2, len(groups.names)))
    for device, idle in groups.idle.items():
        near_s, later_s = idle.held_s()
        held_s += np.bincount(groups.of_idle[device], near_s, minlength=len(held_s))
        rest_s += np.bincount(groups.of_idle[device], later_s, minlength=len(rest_s))
    near, far = watts or (1.0, 1.0)
    time, energy = held_s + rest_s, near * held_s + far * rest_s
    idles = np.flatnonzero(time > 0)
    if not len(idles) or energy.sum() <= 0:
        return pl.DataFrame({"name": [IDLE_ROW], "time_s": [1.0], "energy_j": [1.0]})
    return pl.DataFrame(
        {
            "name": [groups.names[i] for i in idles],
            "time_s": time[idles] / time.sum(),
            "energy_j": energy[idles] / energy.sum(),
        }
    )


def idle_figures(side: Side) -> Mapping[str, tuple[Floats, Floats]]:
    """Return time [s] and energy [J] of each idle group of a side's runs, per unit. Shape (runs,) each."""
    figures: dict[str, tuple[Floats, Floats]] = {}
    for i, run in enumerate(side.runs):
        if run.idle is None:
            continue
        for name, time, energy in run.idle.select("name", *_SUMS).iter_rows():
            row = figures.setdefault(name, (np.zeros(len(side.runs)), np.zeros(len(side.runs))))
            row[0][i], row[1][i] = time * side.gap_s[i], energy * side.gap_j[i]
    return figures


def idle_changes(sides: tuple[Side, Side]) -> pl.DataFrame | None:
    """Return rows of the ``changes`` table, level ``group``, for idle time; None where it is not grouped."""
    figures = [idle_figures(side) for side in sides]
    names = sorted({*figures[0], *figures[1]})
    if not names:
        return None
    rows = []
    for name in names:
        row: dict[str, Any] = {"level": "group", "name": name}
        for end, of in zip(("base", "head"), figures, strict=True):
            time, energy = of.get(name, (np.zeros(1), np.zeros(1)))
            row |= {f"launches_{end}": 0.0, f"time_{end}_ms": 1e3 * float(time.mean())}
            row[f"energy_{end}_j"] = float(energy.mean())
        row["gaps_j"] = row["energy_head_j"] - row["energy_base_j"]
        rows.append(row)
    frame = pl.DataFrame(rows)
    size = (pl.col("energy_head_j") - pl.col("energy_base_j")).abs()
    return frame.sort(size, descending=True, maintain_order=True)


def idle_accuracy(shares: pl.DataFrame, scopes: pl.DataFrame) -> pl.DataFrame | None:
    """Return rows of the ``accuracy`` table, level ``group``, for idle time; None without a row of gaps.

    Predicted and measured gaps are divided alike: a prediction at the recorded times has the same causes.
    """
    gap = scopes.filter(pl.col("level") == "gap")
    if not gap.height:
        return None
    gap_row = gap.row(0, named=True)
    rows = []
    for name, of_time, of_energy in shares.iter_rows():
        row = {**gap_row, "level": "group", "name": name, "launches": 0}
        share = {"time": of_time, "energy": of_energy, "power": of_energy / of_time}
        for figure, value in gap_row.items():
            what = figure.partition("_")[0]
            if what in share and value is not None:
                row[figure] = value * share[what]
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
