"""Why the joules of two runs differ, in sentences: each cause with its joules, interval and what shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from tracetool.compare.energy_difference.difference import COLUMNS, EnergyDifference
from tracetool.core.figures import number

#: Causes told at most, and the share of the base's energy from which a cause is told. [1]
MOST: Final = 5
LEAST_SHARE: Final = 0.01
#: Rows named as evidence.
_ROWS: Final = 3


@dataclass(frozen=True)
class CauseOfChange:
    """One cause of a change.

    Parameters
    ----------
    cause : str
        Its name.
    change_j, change_low_j, change_high_j : float
        Per unit of work, with its 90 % interval. [J]
    evidence : list of dict
        Rows of the table with most of it.
    sentences : tuple of str
        What is claimed, and what shows it.
    """

    cause: str
    change_j: float
    change_low_j: float
    change_high_j: float
    evidence: list[dict[str, Any]]
    sentences: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the cause as plain values."""
        return asdict(self)


def headline(of: EnergyDifference) -> str:
    """Return what a unit of work takes in each run, and the change.

    Examples
    --------
    A run against itself: ``0 J a step more in head: 2.5 J against 2.5 J``.
    """
    whole = of.totals.row(-1, named=True)
    more = "more" if whole["change_j"] >= 0 else "less"
    ends = f"{signed(whole['change_low_j'])} to {signed(whole['change_high_j'])}"
    return (
        f"{number(abs(whole['change_j']))} J a {of.unit} {more} in head: {number(of.head.energy_j)} J"
        f" against {number(of.base.energy_j)} J (90 %: {ends})"
    )


def causes_of_change(of: EnergyDifference) -> list[CauseOfChange]:
    """Return the causes that take most joules, largest first."""
    least = LEAST_SHARE * of.base.energy_j
    told = of.totals[:-1].filter(pl.col("change_j").abs() >= least).head(MOST)
    return [_cause(of, row) for row in told.iter_rows(named=True)]


def signed(value: float) -> str:
    """Return a number with its sign.

    >>> signed(2.5), signed(-0.125), signed(0.0)
    ('+2.5', '-0.125', '0')
    """
    text = number(value)
    text = text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    return f"+{text}" if value > 0 else text


def _cause(of: EnergyDifference, total: dict[str, Any]) -> CauseOfChange:
    column = COLUMNS[total["cause"]]
    rows = of.rows.filter(pl.col(column) * total["change_j"] > 0)
    evidence = rows.sort(pl.col(column).abs(), descending=True, maintain_order=True).head(_ROWS).to_dicts()
    ends = f"{signed(total['change_low_j'])} to {signed(total['change_high_j'])}"
    claim = f"{total['cause']}: {signed(total['change_j'])} J a {of.unit} (90 %: {ends})"
    if total["share"] is not None:
        claim += f", {100 * total['share']:.1f} % of the change"
    shown = [_shown_by(total["cause"], evidence[0], column)] if evidence else []
    return CauseOfChange(
        total["cause"],
        total["change_j"],
        total["change_low_j"],
        total["change_high_j"],
        evidence,
        (claim, *shown),
    )


def _shown_by(cause: str, row: dict[str, Any], column: str) -> str:
    """Return the row with most of a cause, and the figure that changed."""
    place = row["operator"] or row["name"] or row["family"]
    if cause in ("idle", "waiting", "efficiency"):
        unit, figures = "ms", [row["time_base_ms"], row["time_head_ms"]]
    elif cause == "work":
        unit, figures = "launches", [row["launches_base"], row["launches_head"]]
    elif cause == "power":
        unit = "W"
        figures = [
            row[f"energy_{s}_j"] / row[f"time_{s}_ms"] * 1e3 if row[f"time_{s}_ms"] > 0 else 0.0
            for s in ("base", "head")
        ]
    else:
        unit, figures = "J", [row["energy_base_j"], row["energy_head_j"]]
    changed = f"{number(figures[0])} {unit} became {number(figures[1])}"
    return f"shown by: {signed(row[column])} J of it in {place}, where {changed}"
