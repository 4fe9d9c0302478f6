"""Optimizers: weights, gradients and moments pass through memory once."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=12.0, sfu=1.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.15, 0.80, 0.05),
)
