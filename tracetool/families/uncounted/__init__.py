"""Families whose work no trace or table states."""
