"""Sparse matrices: values and indices, each once."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=2.0, integer=4.0, sectors=True),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.25, 0.65, 0.10),
)
