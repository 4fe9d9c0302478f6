"""Prefix sums: one pass with look-back."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=2.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.15, 0.80, 0.05),
)
