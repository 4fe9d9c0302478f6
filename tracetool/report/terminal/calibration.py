"""How fitted coefficients look on the console."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from tracetool.core.number_text import number
from tracetool.report.console import show_table
from tracetool.report.sentences import open_console, say

if TYPE_CHECKING:
    from tracetool.calibrate.calibrate import CalibrationResult

#: Headings of errors in a terminal, short enough for all of them to fit.
_SHORT = {
    "fit_percent": "fit %",
    "held_out_percent": "left out %",
    "constant power": "constant %",
    "constant + FLOP/s + bytes/s": "const+FLOP/s+B/s %",
}


def print_calibrated(fitted: CalibrationResult, written: Sequence[str | os.PathLike[str]]) -> None:
    """Print coefficients, errors and what was left out."""
    # of as many units as rows: each figure has its own digits
    figures = [name for name in fitted.coefficients.columns if fitted.coefficients[name].dtype.is_float()]
    digits = [pl.col(name).map_elements(lambda v: number(v, 3), pl.String) for name in figures]
    show_table(fitted.coefficients.with_columns(digits), headers={"told": "from data"}, all_with="--json")
    errors = fitted.errors.rename({k: v for k, v in _SHORT.items() if k in fitted.errors.columns})
    show_table(errors, all_with="--json")
    if fitted.rejected.height:
        show_table(fitted.rejected["reason"].value_counts(sort=True), all_with="--json")
    screen = open_console()
    for note in fitted.notes:
        say(screen, note)
    for path in written:
        say(screen, f"wrote {path}")
        say(screen, f"use it: tracetool predict RUN --calibration {path}")
