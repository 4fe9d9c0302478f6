"""Elementwise: every operand is read once, every result written once."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=2.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.05, 0.90, 0.05),
)
