"""Pooling and resampling: windows overlap on chip."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=9.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.40, 0.50, 0.10),
)
