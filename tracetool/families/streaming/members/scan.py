"""Prefix sums: one pass with look-back."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.spec import Family, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="prefix sum",
    example="DeviceScanKernel",
    place=120,
    shares=(0.15, 0.80, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=2.0),
    operators=alike("cumsum cumprod", sizes(Reading.AXIS, 0, 1)),
    words=(UserWords(130, "scan", "scan prefix prefixsum cumsum prescan"),),
    streams=Streams.OWN,
)
