"""Collectives, memory copies and sets."""
