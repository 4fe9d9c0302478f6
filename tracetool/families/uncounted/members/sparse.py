"""Sparse matrices: values and indices, each once.

A product with a sparse matrix takes 2 nnz n operations, but profilers record the sizes the matrix stands for,
never how many of its elements are stored (nnz): no work is counted, and kernels are priced by the family's
usual shares of their measured duration.
"""

from __future__ import annotations

from tracetool.families.spec import Family, UserWords

FAMILY = Family(
    meaning="sparse matrices",
    example="csrmv_v3_kernel",
    place=220,
    shares=(0.25, 0.65, 0.10),
    words=(
        UserWords(50, "sparse", "spmv spmm spgemm csr csc coo ell sparse sddmm"),
        UserWords(41, "triangular_solve", "sptrsv sptrsm csrsv csrsm"),
    ),
)
