"""Convolutions as implicit matrix products."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.products import conv_work

FAMILY = Family(
    count=conv_work,
    needs=(("channels", "height", "width", "filters"), ("m", "n", "k")),
    shares=(0.70, 0.25, 0.05),
    pipe="tensor",
)
