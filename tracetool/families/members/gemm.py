"""Dense and batched matrix products."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.products import product_work

FAMILY = Family(count=product_work, needs=(("m", "n", "k"),), shares=(0.70, 0.25, 0.05), pipe="tensor")
