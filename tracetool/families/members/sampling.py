"""Sampling: softmax, selection and a draw per row."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=6.0, sfu=1.0, integer=12.0, passes=2.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.50, 0.30, 0.20),
)
