"""The families whose work no trace or table states: their kernels are priced by the usual shares of their
measured duration.
"""

from __future__ import annotations

from tracetool.families.spec import Family, UserWords

#: A product with a sparse matrix takes 2 nnz n operations, but profilers record the sizes the matrix stands
#: for, never how many of its elements are stored (nnz).
SPARSE = Family(
    name="sparse",
    meaning="sparse matrices",
    example="csrmv_v3_kernel",
    place=220,
    shares=(0.25, 0.65, 0.10),
    words=(
        UserWords(50, "sparse", "spmv spmm spgemm csr csc coo ell sparse sddmm"),
        UserWords(41, "triangular_solve", "sptrsv sptrsm csrsv csrsm"),
    ),
)

#: Users' own kernels, launched by no operator that would state the grid.
STENCIL = Family(
    name="stencil",
    meaning="neighborhood update on a grid",
    example="jacobi_kernel",
    place=230,
    shares=(0.30, 0.65, 0.05),
    words=(
        UserWords(
            200,
            "stencil",
            "stencil jacobi laplacian laplace heat fdtd diffusion advect advection diverge "
            "divergence gradient grad hotspot wave sobel blur gaussian hdiff vadv poisson navier "
            "lbm relaxation seidel sweep tendencies flux halo update_velocity finite fd",
        ),
    ),
)

#: These have nothing in common that could be counted.
OTHER = Family(
    name="other",
    meaning="known, but none of these: losses, linear algebra, runtime helpers",
    example="nll_loss_forward",
    place=250,
    shares=(0.45, 0.35, 0.20),
    words=(
        UserWords(
            42,
            "triangular_solve",
            "trsm trsv trisolve triangular_solve triangular_solver lower_solve upper_solve solve_lower "
            "solve_upper forward_substitution backward_substitution back_substitution",
        ),
    ),
)

#: What these do is not stated anywhere.
UNKNOWN = Family(
    name="unknown",
    meaning="no rule knows the name",
    example="-",
    place=260,
    shares=(0.55, 0.38, 0.07),
)

FAMILIES = (SPARSE, STENCIL, OTHER, UNKNOWN)
