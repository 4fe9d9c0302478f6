"""Reductions: many elements in, few out."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=1.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.25, 0.60, 0.15),
)
