"""FinGraV: power over the course of a short kernel, stitched from repeated runs."""
