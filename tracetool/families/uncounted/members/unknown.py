"""Names no rule knows.

Nothing tells what they do: they are priced by these usual shares of their measured duration.
"""

from __future__ import annotations

from tracetool.families.spec import Family

FAMILY = Family(
    meaning="no rule knows the name",
    example="-",
    place=260,
    shares=(0.55, 0.38, 0.07),
)
