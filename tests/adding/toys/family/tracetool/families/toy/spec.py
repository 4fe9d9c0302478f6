"""The family toy: every element is squared once."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.spec import Family, Streams, TableOperator, UserWords
from tracetool.families.toy.problem import toy_work

TOY = Family(
    name="toy",
    meaning="one square per element",
    example="toyish_kernel",
    place=75,
    shares=(0.1, 0.8, 0.1),
    needs=(("rows", "cols"), ("elements",)),
    count=toy_work,
    laws=("toy",),
    table=(TableOperator("toy", ("rows", "cols"), ("reads", "writes")),),
    operators={"play": sizes(Reading.LAST_AXIS, 0)},
    words=(UserWords(75, "square", "toyish"),),
    streams=Streams.OWN,
)

FAMILIES = (TOY,)
