"""Toys."""
