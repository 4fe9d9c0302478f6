"""A number with its unit, what kind of evidence it rests on, and its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracetool.core.errors import BadInput

#: Evidence, strongest first. A prior is an estimate and must say how wrong it may be.
KINDS = ("measured", "datasheet", "fitted", "derived", "prior")
#: Units a hardware or calibration file may use.
UNITS = frozenset({
    "1", "C", "K", "MHz", "clk", "nm", "s", "ms", "us", "ns", "V", "V/GHz", "V/GHz^2",
    "1/V", "1/W", "1/K", "1/clk", "W/K", "B", "B/s", "B/clk", "B/clk/SM", "FLOP/clk/SM", "op/clk/SM", "op",
    "W", "W/V", "W/(V^2 GHz)", "W/(GB/s)", "pJ", "pJ/FLOP", "pJ/op", "pJ/B", "pJ/clk/SM",
    "nJ/block", "uJ/launch", "us/launch",
})  # fmt: skip


@dataclass(frozen=True)
class Number:
    """A value of a hardware or calibration file.

    ``low`` and ``high`` bound it at 90 %; a prior always has them.
    """

    value: float
    unit: str
    kind: str
    source: str
    note: str = ""
    low: float = math.nan
    high: float = math.nan

    def __eq__(self, other: object) -> bool:
        # as tuples, in which one NaN equals itself: from Python 3.13 the method made for a dataclass compares
        # field by field, and a number without bounds would not equal another
        return self._fields() == other._fields() if isinstance(other, Number) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[object, ...]:
        return (self.value, self.unit, self.kind, self.source, self.note, self.low, self.high)


def read_number(path: str, key: str, entry: Any) -> Number:
    """Return one entry of a TOML table as a number, or raise BadInput naming what is missing."""
    if not isinstance(entry, Mapping):
        raise BadInput.in_file(path, f"{key} is not a table with value, unit, kind and source")
    missing = [k for k in ("value", "unit", "kind", "source") if k not in entry]
    if missing:
        raise BadInput.in_file(path, f"{key} is missing {', '.join(missing)}")
    value = entry["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInput.in_file(path, f"{key} has the value {value!r}, which is not a number")
    if entry["kind"] not in KINDS:
        raise BadInput.in_file(path, f"{key} is of kind {entry['kind']!r}", f"one of {', '.join(KINDS)}")
    if entry["unit"] not in UNITS:
        raise BadInput.in_file(path, f"{key} is in {entry['unit']!r}, a unit not in the closed list")
    low, high = float(entry.get("low", math.nan)), float(entry.get("high", math.nan))
    if entry["kind"] == "prior" and not low <= float(value) <= high:
        raise BadInput.in_file(path, f"{key} is a prior without low and high around its value")
    return Number(
        float(value),
        entry["unit"],
        entry["kind"],
        str(entry["source"]),
        str(entry.get("note", "")),
        low,
        high,
    )
