"""Sorts and top-k: keys pass through memory once per digit of 8 bits."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=0.0, integer=24.0, passes=4.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.65, 0.25, 0.10),
)
