"""How a checked power log looks on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from tracetool.measure.power_check.check import CheckedPower

_STYLES: Final = {"good": "bold", "usable": "bold yellow", "unusable": "bold red"}


def print_checked_power(checked: CheckedPower, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print the verdict, then a line per check and GPU, the worst first."""
    screen = open_console()
    say(screen, f"Power log: {checked.verdict}", _STYLES[checked.verdict])
    several = checked.findings["device"].drop_nulls().n_unique() > 1
    rank = pl.col("verdict").replace_strict({"unusable": 0, "usable": 1, "good": 2}, return_dtype=pl.Int8)
    for row in checked.findings.sort(rank, maintain_order=True).iter_rows(named=True):
        gpu = f"GPU {row['device']} " if several and row["device"] is not None else ""
        say(screen, f"  {row['verdict']:<9} {gpu}{row['check']}: {row['reason']}")
    for path in written:
        say(screen, f"wrote {path}")
