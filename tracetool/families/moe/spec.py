"""The family moe: grouped products over the experts that were chosen."""

from __future__ import annotations

from tracetool.families import names
from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.moe.law import LAW_NAMES, moe_law
from tracetool.families.moe.problem import moe_work
from tracetool.families.spec import Family, Sequence, TableOperator, UserWords

MOE = Family(
    name="moe",
    meaning="mixture of experts: grouped products and routing",
    example="fused_moe_kernel",
    place=40,
    shares=(0.45, 0.45, 0.10),
    pipe="tensor",
    needs=(("tokens", "hidden", "intermediate", "top_k", "experts"), ("m", "n", "k")),
    count=moe_work,
    laws=LAW_NAMES,
    choose=moe_law,
    table=(
        TableOperator(
            "moe",
            ("tokens", "hidden", "intermediate", "top_k", "experts"),
            ("tp", "ep", "distribution", "remote_to_first", "gated", "router", "loop_operators"),
            at_most={"top_k": "experts"},
        ),
    ),
    operators=same_sizes("moe_forward moe_forward_shared", sizes(Reading.EXPERTS)),
    words=(UserWords(20, "moe", "moe expert experts"),),
    helpers={"routing": names.GATHER_SCATTER},
    sequence=Sequence.PRODUCT,
    inferred="k",
    product_grid=True,
)

FAMILIES = (MOE,)
