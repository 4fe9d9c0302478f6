"""Matrix times vector: the matrix is streamed once."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.products import product_work

FAMILY = Family(count=product_work, needs=(("m", "n", "k"),), shares=(0.15, 0.75, 0.10))
