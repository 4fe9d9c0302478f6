"""Joules per token, request or step of a run, where its work is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.replay.energy_by import RUN_ROW, energy_by
from tracetool.replay.work_units import UNITS, annotated_work, phase_names
from tracetool.report.export.energies import Energies
from tracetool.tables.run import Run

#: The phase of everything a run did.
ALL: Final = "all"


def work_energies(
    run: Run, energies: Energies, work: Mapping[str, float | None] | None
) -> pl.DataFrame | None:
    """Return energy per unit of work: of the whole run, and of its phases where its steps name any.

    Parameters
    ----------
    run : Run
        The run.
    energies : Energies
        What is known of its energy.
    work : mapping of str to float, optional
        Units of work of the whole run; None for an amount that the names of its steps state. By default all
        that they state.

    Returns
    -------
    DataFrame or None
        ``work`` (the unit), ``phase``, ``amount``, ``source``, ``energy_j`` and its ends per unit [J]; None
        where no work or no energy is known.

    Raises
    ------
    BadInput
        If an amount was asked for that no step states.
    """
    units = dict(work) if work else {unit: None for unit in UNITS if _states(run, unit)}
    if not units or (energies.measured is None and energies.predicted is None):
        return None
    of = energies.of_sets(run)
    blocks = []
    for unit, amount in units.items():
        key = "phase" if amount is None and _phases(run) else "gpu"
        frame = energy_by(run, [key], work={unit: amount}, energies=of).frame
        is_run = pl.col("name") == RUN_ROW
        blocks.append(
            frame.filter(pl.col("work").is_not_null() & (is_run | pl.lit(key == "phase"))).select(
                pl.lit(unit).alias("unit"),
                pl.when(is_run).then(pl.lit(ALL)).otherwise("name").alias("phase"),
                pl.col("work").alias("amount"),
                "source",
                *(pl.col(f"energy{end}_j") / pl.col("work") for end in ENDS),
            )
        )
    return pl.concat(blocks).rename({"unit": "work"})


def _states(run: Run, unit: str) -> bool:
    try:
        return annotated_work(run, unit, ()).whole > 0
    except BadInput:
        return False


def _phases(run: Run) -> bool:
    try:
        return phase_names(run, run.kernels).null_count() == 0
    except BadInput:
        return False
