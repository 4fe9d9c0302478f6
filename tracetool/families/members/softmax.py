"""Softmax: one exponential per element of rows kept on chip."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.rowwise import row_counter

FAMILY = Family(
    count=row_counter(flops=5.0, sfu=1.0, sfu_per_row=1.0),
    needs=(("rows", "cols"),),
    shares=(0.30, 0.60, 0.10),
)
