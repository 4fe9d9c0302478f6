"""Dense and batched matrix products."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.gemm.problem import product_work
from tracetool.families.law_keys import PRODUCT_LAWS
from tracetool.families.spec import Family, Sequence, TableOperator, UserWords

FAMILY = Family(
    meaning="matrix product, tiled",
    example="ampere_sgemm_128x64_tn",
    place=0,
    shares=(0.70, 0.25, 0.05),
    pipe="tensor",
    needs=(("m", "n", "k"),),
    count=product_work,
    laws=PRODUCT_LAWS,
    table=(TableOperator("gemm", ("m", "n", "k"), ("batch",)),),
    operators={
        **alike("mm bmm matmul _scaled_mm _int_mm", sizes(Reading.PRODUCT, 0)),
        **alike("addmm baddbmm addbmm _addmm_activation cutlass_scaled_mm", sizes(Reading.PRODUCT, 1)),
        **alike("linear gemm_a16w16", sizes(Reading.PRODUCT, 0, transposed=True)),
    },
    words=(
        UserWords(
            70,
            "gemm",
            "gemm sgemm dgemm hgemm hgemm cgemm zgemm igemm matmul mat_mul mmul mm matrixmul "
            "matrixmult matrix_mul matrix_multiply matrix_multiplication matrix_mult "
            "matrixmultiply matmult mat_mult bmm addmm wmma wgmma linear fullyconnected syrk "
            "syr2k trmm symm dense",
        ),
    ),
    sequence=Sequence.PRODUCT,
    inferred="k",
    product_grid=True,
)
