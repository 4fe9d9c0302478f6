"""Mixtures of experts: grouped products over the experts that were chosen."""

from __future__ import annotations

from tracetool.families.experts import moe_work
from tracetool.families.family import Family

FAMILY = Family(
    count=moe_work,
    needs=(("tokens", "hidden", "intermediate"), ("m", "n", "k")),
    shares=(0.45, 0.45, 0.10),
    pipe="tensor",
)
