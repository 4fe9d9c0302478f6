"""Kernel families: from shapes to counts of work and to time."""
