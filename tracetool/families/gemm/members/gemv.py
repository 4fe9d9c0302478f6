"""Matrix times vector: the matrix is streamed once."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.gemm.problem import product_work
from tracetool.families.law_keys import PRODUCT_LAWS
from tracetool.families.spec import Family, Sequence, UserWords

FAMILY = Family(
    meaning="matrix times vector: the matrix is streamed once",
    example="gemv2T_kernel_val",
    place=10,
    shares=(0.15, 0.75, 0.10),
    needs=(("m", "n", "k"),),
    count=product_work,
    laws=PRODUCT_LAWS,
    operators={"mv": sizes(Reading.PRODUCT, 0), "addmv": sizes(Reading.PRODUCT, 1)},
    words=(UserWords(60, "gemv", "gemv matvec mat_vec matrixvector mv vecmat"),),
    sequence=Sequence.PRODUCT,
    product_grid=True,
)
