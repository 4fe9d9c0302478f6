"""Layer, batch, group and RMS normalisation: statistics and scaling of rows kept on chip."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.rowwise import row_counter

FAMILY = Family(
    count=row_counter(flops=8.0, sfu_per_row=2.0, parameters=2.0),
    needs=(("rows", "cols"),),
    shares=(0.25, 0.60, 0.15),
)
