"""Quantisation: scales by a maximum, then a cast."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=4.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.30, 0.60, 0.10),
)
