"""Sums of the parts of a product whose K was split."""

from __future__ import annotations

from tracetool.families.spec import Family, Streams
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="sums the parts of a product whose K was split",
    example="splitKreduce_kernel",
    place=240,
    shares=(0.25, 0.60, 0.15),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=1.0),
    streams=Streams.OWN,
)
