"""Copies: cat, transpose, cast, pad, fill. No arithmetic but addresses."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.streaming import stream_counter

FAMILY = Family(
    count=stream_counter(flops=0.0, integer=4.0),
    needs=(("elements",), ("rows", "cols")),
    shares=(0.07, 0.88, 0.05),
)
