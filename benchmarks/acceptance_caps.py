"""Rows that a power cap slowed, by the tool, by its model without phases, and by the controls."""

from __future__ import annotations

from typing import Any

import acceptance_controls as controls
import anchored_programs as anchored
import polars as pl
from anchored_sets import CapSet

import tracetool.model.predict as prediction

TOOL = "tracetool"
#: Rows of each set by method, by the set's name: a set is shown alone and among all of them.
_BOUND: dict[str, dict[str, pl.DataFrame]] = {}


def without_phases(of: CapSet) -> pl.DataFrame:
    """Return rows under caps as if each program drew its mean power from start to end."""
    governed = prediction.govern

    def steady(*given: Any, **options: Any) -> Any:
        return governed(*given, **options | {"anchor": None})

    prediction.govern = steady
    try:
        return anchored.under_caps(of)
    finally:
        prediction.govern = governed


def bound_rows(of: CapSet) -> dict[str, pl.DataFrame]:
    """Return the rows that a cap slowed, predicted by each method."""
    if of.name not in _BOUND:
        slowed = pl.col("time") > anchored.SLOWED * pl.col("free")
        bound = anchored.under_caps(of).filter(slowed)
        _BOUND[of.name] = {
            TOOL: bound,
            "mean power only": without_phases(of).filter(slowed),
            **anchored.cap_controls(bound),
            **controls.most_alike_under_caps(bound),
        }
    return _BOUND[of.name]
