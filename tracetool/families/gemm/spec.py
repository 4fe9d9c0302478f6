"""The families of matrix products: gemm and gemv."""

from __future__ import annotations

from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.gemm.law import PRODUCT_LAWS, product_law
from tracetool.families.gemm.problem import product_work
from tracetool.families.spec import Family, Sequence, TableOperator, UserWords

#: Dense and batched matrix products.
GEMM = Family(
    name="gemm",
    meaning="matrix product, tiled",
    example="ampere_sgemm_128x64_tn",
    place=0,
    shares=(0.70, 0.25, 0.05),
    pipe="tensor",
    needs=(("m", "n", "k"),),
    count=product_work,
    laws=PRODUCT_LAWS,
    choose=product_law,
    table=(TableOperator("gemm", ("m", "n", "k"), ("batch", "loop_operators")),),
    operators={
        **same_sizes("mm bmm matmul _scaled_mm _int_mm dot_general", sizes(Reading.PRODUCT, 0)),
        **same_sizes("addmm baddbmm addbmm _addmm_activation cutlass_scaled_mm", sizes(Reading.PRODUCT, 1)),
        **same_sizes("linear gemm_a16w16", sizes(Reading.PRODUCT, 0, transposed=True)),
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

#: Matrix times vector: the matrix is streamed once.
GEMV = Family(
    name="gemv",
    meaning="matrix times vector: the matrix is streamed once",
    example="gemv2T_kernel_val",
    place=10,
    shares=(0.15, 0.75, 0.10),
    needs=(("m", "n", "k"),),
    count=product_work,
    laws=PRODUCT_LAWS,
    choose=product_law,
    operators={"mv": sizes(Reading.PRODUCT, 0), "addmv": sizes(Reading.PRODUCT, 1)},
    words=(UserWords(60, "gemv", "gemv matvec mat_vec matrixvector mv vecmat"),),
    sequence=Sequence.PRODUCT,
    product_grid=True,
)

FAMILIES = (GEMM, GEMV)
