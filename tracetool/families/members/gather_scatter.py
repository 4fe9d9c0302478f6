"""Gathers and scatters: rows at arbitrary places cost whole sectors."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=0.0, integer=6.0, sectors=True),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.20, 0.60, 0.20),
)
