"""Two runs: the joules of a unit of work on each, and the change by cause, exact and with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.energy_difference.classes import WorkClasses, steps_of, work_classes
from tracetool.compare.energy_difference.factors import CAUSES, MatchedWork
from tracetool.compare.energy_difference.intervals import all_parts, drawn_parts, side_by_side
from tracetool.compare.energy_difference.notes import basis_notes
from tracetool.compare.energy_difference.pairs import NAMED, matched_pairs
from tracetool.compare.same_recording import same_recording
from tracetool.core.errors import BadInput
from tracetool.core.interval import LEVEL
from tracetool.replay.diagnosis.gpu_pieces import CutRun, cut_run
from tracetool.replay.work_units import annotated_work
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Columns of the causes in the ``energy_difference`` table.
COLUMNS: Final = {cause: f"{cause.lower()}_j" for cause in CAUSES}


@dataclass(frozen=True)
class EnergyDifference:
    """Why a unit of work takes other joules in one run than in another.

    Parameters
    ----------
    base, head : WorkClasses
        The two runs.
    unit : str
        Unit of work: ``run``, ``step`` or what was asked for.
    rows : DataFrame
        The ``energy_difference`` table: one row per matched piece of work, idle cause and wait.
    totals : DataFrame
        One row per cause, largest first, then ``difference``: ``change_j`` per unit of work with its 90 %
        interval, and its share.
    notes : tuple of str
        What the figures rest on.
    """

    base: WorkClasses
    head: WorkClasses
    unit: str
    rows: pl.DataFrame = field(repr=False)
    totals: pl.DataFrame
    notes: tuple[str, ...]


def energy_difference(
    base: Run,
    head: Run,
    gpu: str | None = None,
    work: Mapping[str, tuple[float, float] | None] | None = None,
) -> EnergyDifference:
    """Split the change of energy per unit of work between two runs into causes.

    Parameters
    ----------
    base, head : Run
        The two runs.
    gpu, work : optional
        As for :func:`tracetool.diagnose_pair`.

    Raises
    ------
    BadInput
        If a run holds no activity, its GPU is not known, or it states no such work.

    Notes
    -----
    Energies are those of :func:`tracetool.replay.diagnosis.ledger.ledger`: measured where a log
    determines them, else predicted, anchored on the recorded times.
    """
    cuts = [cut_run(run, gpu=gpu) for run in (base, head)]
    unit, units = _units(cuts, work or {})
    foreign = cuts[0].recorded.gpu != cuts[1].recorded.gpu
    sides = [
        work_classes(cut, count, cuts[1 - i] if foreign else cuts[0])
        for i, (cut, count) in enumerate(zip(cuts, units, strict=True))
    ]
    joined, pairs, clock_idle = matched_pairs(sides, foreign=foreign)
    rows, totals = _split(sides, joined, pairs, clock_idle, foreign=foreign)
    same = same_recording(base, head)
    if same and rows["energy_base_j"].equals(rows["energy_head_j"]):  # the errors are the same ones too
        totals = totals.with_columns(pl.col("change_j").alias(c) for c in ("change_low_j", "change_high_j"))
    return EnergyDifference(
        sides[0],
        sides[1],
        unit,
        load_schema("energy_difference").conform(rows),
        totals,
        (*filter(None, [same]), *basis_notes(sides, rows, unit, foreign=foreign)),
    )


def _units(
    cuts: Sequence[CutRun], work: Mapping[str, tuple[float, float] | None]
) -> tuple[str, tuple[float, float]]:
    """Return the unit of work and how many of it each run did."""
    for unit, counts in work.items():
        if counts is None:
            base, head = (annotated_work(cut.run, unit, ()).whole for cut in cuts)
            return unit.removesuffix("s"), (base, head)
        if not all(np.isfinite(c) and c > 0 for c in counts):
            raise BadInput(f"--work {unit}: amounts of work are positive numbers", f"--work {unit}=128,256")
        return unit.removesuffix("s"), counts
    steps = [steps_of(cut) for cut in cuts]
    return ("step", (steps[0], steps[1])) if min(steps) > 0 else ("run", (1.0, 1.0))


def _split(
    sides: Sequence[WorkClasses],
    joined: pl.DataFrame,
    pairs: MatchedWork,
    clock_idle: float,
    *,
    foreign: bool,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of the table with their causes, and the causes' totals with intervals."""
    idle, waiting = (
        side_by_side(getattr(sides[0], c), getattr(sides[1], c), level)
        for c, level in (("idle", "idle"), ("waiting", "waiting for ranks"))
    )
    changes_by_cause = all_parts(pairs, idle, waiting, clock_idle)
    rows = pl.concat([joined, idle.rows, waiting.rows], how="diagonal_relaxed")
    rows = rows.with_columns(pl.Series(COLUMNS[c], changes_by_cause[c]) for c in CAUSES)
    rows = rows.select(
        "level",
        *(pl.coalesce(f"{c}_base", f"{c}_head").alias(c) for c in NAMED),
        pl.when(pl.col("name_head") != pl.col("name_base")).then("name_head").alias("head_name"),
        *(pl.col(f"launches_{s}").fill_null(0.0) for s in ("base", "head")),
        *(pl.col(f"flops_{s}").alias(f"operations_{s}") for s in ("base", "head")),
        *((pl.col(f"time_s_{s}") * 1e3).alias(f"time_{s}_ms") for s in ("base", "head")),
        *(pl.col(f"energy_j_{s}").alias(f"energy_{s}_j") for s in ("base", "head")),
        (pl.col("energy_j_head") - pl.col("energy_j_base")).alias("change_j"),
        *COLUMNS.values(),
    ).sort(pl.col("change_j").abs(), descending=True, maintain_order=True)
    totals = {cause: float(changes_by_cause[cause].sum()) for cause in CAUSES}
    change = sides[1].energy_j - sides[0].energy_j
    draws = drawn_parts(sides, joined, pairs, (idle, waiting), clock_idle, foreign=foreign)
    tail = (1.0 - LEVEL) / 2.0
    order = sorted((c for c in CAUSES if totals[c] != 0.0), key=lambda c: -abs(totals[c]))
    records = []
    for cause in (*order, "difference"):
        value = change if cause == "difference" else totals[cause]
        low, high = np.quantile(draws[cause], (tail, 1.0 - tail))
        record = {"cause": cause, "change_j": value, "change_low_j": min(float(low), value)}
        records.append(record | {"change_high_j": max(float(high), value)})
    share = pl.col("change_j") / change if change else pl.lit(None, dtype=pl.Float64)
    return rows, pl.DataFrame(records).with_columns(share.alias("share"))
