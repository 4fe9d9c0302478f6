"""Kernel identification: names and launches to families, attributes and shapes."""
