"""Sweeps as pages and Markdown: the best points, each family's best clock, every point."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.core.number_text import number
from tracetool.replay.sweep import Swept
from tracetool.report.view import Block, Grid, Line

#: Shares of the tables, which people read in percent.
_SHARES: Final = ("energy_saved", "energy_saved_low", "energy_saved_high", "slowdown", "within_saved")
_HEADS: Final = {
    "best_clock_mhz": "best clock",
    "within_clock_mhz": "clock within limit",
    "within_saved_pct": "saved there",
    "edp_js": "energy x time [J·s]",
    "ed2p_js2": "energy x time² [J·s²]",
    "pareto": "Pareto-optimal",
}


def sweep_blocks(swept: Swept, most: int | None = None) -> tuple[Block, ...]:
    """Return what people read of a sweep, in order; of the points the first ``most``."""
    best = f"Best operating points, against {_reference(swept)}, with 90 % intervals"
    families = Grid(_in_percent(swept.families), "Each family alone, idle gaps excluded", headers=_HEADS)
    return (
        Line(_headline(swept), "headline"),
        Grid(_in_percent(swept.best), best, headers=_HEADS),
        *((families,) if swept.families.height else ()),
        Grid(swept.points, "All points", most, headers=_HEADS),
        *(Line(note, "note") for note in swept.notes),
    )


def _reference(swept: Swept) -> str:
    return f"{swept.info['reference_mhz']:g} MHz"


def _headline(swept: Swept) -> str:
    """Return the sentence on the point of least energy."""
    row = swept.best.row(0, named=True)
    cap = "" if row["power_cap_w"] is None else f" under {row['power_cap_w']:g} W"
    low, high = (100.0 * row[f"energy_saved_{end}"] for end in ("low", "high"))
    place = f"{row['goal'].capitalize()} on {swept.gpu} at {row['clock_mhz']:g} MHz{cap}"
    saved = f"{100.0 * row['energy_saved']:.1f} % (90 %: {low:.1f} to {high:.1f})"
    slower = row["slowdown"]  # below 0 where the point asked for as reference is a slow one
    time = f"{100.0 * slower:.1f} % slower" if slower >= 0.0 else f"in {-100.0 * slower:.1f} % less time"
    return f"{place}: {number(row['energy_j'])} J, {saved} less than at {_reference(swept)}, {time}"


def _in_percent(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with its shares in percent; ``share`` itself is read so already."""
    shares = [name for name in _SHARES if name in table.columns]
    return table.with_columns(pl.col(name) * 100.0 for name in shares).rename(
        {name: f"{name}_pct" for name in shares}
    )
