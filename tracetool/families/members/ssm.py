"""State-space scans and recurrent cells."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=24.0, sfu=2.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.55, 0.35, 0.10),
)
