"""Known kernels that are none of the families.

They have nothing in common that could be counted: they are priced by these usual shares of their measured
duration.
"""

from __future__ import annotations

from tracetool.families.spec import Family, UserWords

FAMILY = Family(
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
