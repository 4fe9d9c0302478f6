"""Why the joules of two runs differ, in sentences: each cause with its joules, interval and what shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from tracetool.compare.energy_difference.difference import COLUMNS, EnergyDifference
from tracetool.core.number_text import number
from tracetool.replay.diagnosis.findings import EVIDENCE_ROWS, LEAST_SHARE, MOST

#: Figures of a row that show a cause, the first that differs; of the causes not named here its joules.
_SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "work": ("GFLOP", "launches"),
    **dict.fromkeys(("efficiency", "idle", "waiting"), ("ms",)),
    "power": ("W",),
}
#: Figures closer than this are equal, and the digits by which any others differ. [1]
_EQUAL: Final = 1e-6
_DIGITS: Final = range(4, 9)


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
    """Return a sentence on the energy of a unit of work in each run, and the change.

    Examples
    --------
    A run against itself: ``0 J a step more in head: 2.5 J against 2.5 J``.
    """
    change_row = of.totals.row(-1, named=True)
    more = "more" if change_row["change_j"] >= 0 else "less"
    ends = f"{signed(change_row['change_low_j'])} to {signed(change_row['change_high_j'])}"
    return (
        f"{number(abs(change_row['change_j']))} J a {of.unit} {more} in head: {number(of.head.energy_j)} J"
        f" against {number(of.base.energy_j)} J (90 %: {ends})"
    )


def causes_of_change(of: EnergyDifference) -> list[CauseOfChange]:
    """Return the causes that take most joules, largest first."""
    least = LEAST_SHARE * of.base.energy_j
    largest = of.totals[:-1].filter(pl.col("change_j").abs() >= least).head(MOST)
    return [_cause(of, row) for row in largest.iter_rows(named=True)]


def signed(value: float) -> str:
    """Return a number with its sign.

    >>> signed(2.5), signed(-0.125), signed(0.0)
    ('+2.5', '-0.125', '0')
    """
    text = _short(value)
    return f"+{text}" if value > 0 else text


def _cause(of: EnergyDifference, total: dict[str, Any]) -> CauseOfChange:
    column = COLUMNS[total["cause"]]
    rows = of.rows.filter(pl.col(column) * total["change_j"] > 0)
    evidence = (
        rows.sort(pl.col(column).abs(), descending=True, maintain_order=True).head(EVIDENCE_ROWS).to_dicts()
    )
    ends = f"{signed(total['change_low_j'])} to {signed(total['change_high_j'])}"
    claim = f"{total['cause']}: {signed(total['change_j'])} J a {of.unit} (90 %: {ends})"
    if total["share"] is not None:
        claim += f", {100 * total['share']:.1f} % of the change"
    shown = [shown_by(total["cause"], evidence[0], column)] if evidence else []
    return CauseOfChange(
        total["cause"],
        total["change_j"],
        total["change_low_j"],
        total["change_high_j"],
        evidence,
        (claim, *shown),
    )


def shown_by(cause: str, row: dict[str, Any], column: str) -> str:
    """Return the row with most of a cause, and the figure that changed."""
    place = row["operator"] or row["name"] or row["family"]
    lead = f"shown by: {signed(row[column])} J of it in {place}"
    for unit in (*_SHOWN.get(cause, ()), "J"):
        base, head = (_figure(row, unit, side) for side in ("base", "head"))
        if base is not None and head is not None and abs(head - base) > _EQUAL * max(base, head):
            against = (head - base) * row[column] < 0
            outweighed = ": what else changed outweighs it" if against else ""
            return f"{lead}, where {became(base, head, unit)}{outweighed}"
    return f"{lead}, where {_short(row['energy_base_j'])} J stayed: what else changed cancels it"


def _figure(row: dict[str, Any], unit: str, side: str) -> float | None:
    """Return a figure of one run in a row; None where it is not known."""
    time_ms, energy_j, operations = row[f"time_{side}_ms"], row[f"energy_{side}_j"], row[f"operations_{side}"]
    figures: dict[str, float | None] = {
        "GFLOP": None if operations is None else operations * 1e-9,
        "launches": row[f"launches_{side}"],
        "ms": time_ms,
        "W": energy_j / time_ms * 1e3 if time_ms > 0 else 0.0,
        "J": energy_j,
    }
    return figures[unit]


def became(base: float, head: float, unit: str) -> str:
    """Return two figures that differ, with as many digits as it takes to see it.

    >>> became(1.0, 2.0, "launches"), became(1.00001, 1.00002, "W")
    ('1 launch became 2', '1.00001 W became 1.00002')
    """
    digits = next((d for d in _DIGITS if _short(base, d) != _short(head, d)), max(_DIGITS))
    unit = "launch" if unit == "launches" and base == 1.0 else unit
    return f"{_short(base, digits)} {unit} became {_short(head, digits)}"


def _short(value: float, digits: int = 4) -> str:
    """Return a number without zeros at its end."""
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
