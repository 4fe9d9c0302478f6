"""Stencils: neighbors come from cache.

They are users' own kernels, launched by no operator that would state the grid: no work is counted, and
kernels are priced by the family's usual shares of their measured duration.
"""

from __future__ import annotations

from tracetool.families.spec import Family, UserWords

FAMILY = Family(
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
