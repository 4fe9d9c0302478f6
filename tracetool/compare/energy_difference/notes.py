"""Notes on the basis of a comparison of two runs, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracetool.compare.energy_difference.classes import WorkClasses, steps_of
from tracetool.core.number_text import number
from tracetool.replay.energy_source import MEASURED, joules_by_source
from tracetool.replay.measured_energy import NOT_MEASURED


def basis_notes(sides: Sequence[WorkClasses], rows: pl.DataFrame, unit: str, *, foreign: bool) -> list[str]:
    """Return notes on the basis of the figures."""
    notes = []
    counts = " and ".join(f"{side.units:,.0f}" for side in sides)
    if unit == "run":
        steps = " and ".join(f"{steps_of(side.cut):,.0f}" for side in sides)
        notes.append(f"{steps} steps named in base and head: whole runs are compared (--work tokens=N,M)")
    else:
        notes.append(f"{counts} {unit}s in base and head")
    for name, side in zip(("base", "head"), sides, strict=True):
        if side.cut.measured_j > 0 and side.cut.source != MEASURED:
            words = joules_by_source(side.cut.energy_j, side.cut.source, side.cut.measured_j)
            notes.append(f"{name}: {words}")
        elif side.cut.source != MEASURED:
            notes.append(
                f"{name}: no power log measured its energy: {number(side.energy_j * side.units)} J are"
                " predicted, power is the model's"
            )
        notes += [f"{name}: {note}" for note in side.cut.energies.notes if note.startswith(NOT_MEASURED)]
    if foreign:
        clocks = " and ".join(f"{side.clock_mhz:,.0f} MHz" for side in sides)
        notes.append(f"{sides[0].gpu} against {sides[1].gpu}: peaks at {clocks} are compared, clocks are not")
    elif not (sides[0].clock_stated and sides[1].clock_stated):
        stated = sum(side.clock_stated for side in sides)
        notes.append(f"{stated} of 2 runs log their clock: 0 J of the change are put down to it")
    matched = rows.group_by("level", maintain_order=True).agg(
        (pl.col("energy_base_j") + pl.col("energy_head_j")).sum().alias("j")
    )
    both_j = float(matched["j"].sum()) or 1.0
    shares = {level: 100.0 * j / both_j for level, j in matched.iter_rows()}
    order = (
        "signature",
        "operator",
        "module",
        "family",
        "base only",
        "head only",
        "idle",
        "waiting for ranks",
    )
    shown = ", ".join(
        f"{level} {shares[level]:.1f} %" for level in dict.fromkeys(order) if shares.get(level, 0.0) >= 0.05
    )
    notes.append(f"energy by how it was matched: {shown}")
    return notes
