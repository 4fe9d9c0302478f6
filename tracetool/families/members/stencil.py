"""Stencils: neighbours come from cache."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=8.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.30, 0.65, 0.05),
)
