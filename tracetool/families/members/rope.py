"""Rotary embedding: two products and a sum per element."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=3.0, integer=4.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.30, 0.50, 0.20),
)
