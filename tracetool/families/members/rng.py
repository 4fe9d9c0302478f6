"""Random numbers and dropout: a counter-based generator per element."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=4.0, integer=20.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.50, 0.40, 0.10),
)
