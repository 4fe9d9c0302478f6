"""Names no rule knows: taken as streaming."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.55, 0.38, 0.07),
)
