"""Fourier transforms: every element passes once per stage group."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=40.0, passes=1.5),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.45, 0.50, 0.05),
)
