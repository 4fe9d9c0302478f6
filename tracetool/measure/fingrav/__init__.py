"""FinGraV: power profile of a short kernel, stitched from repeated runs."""
