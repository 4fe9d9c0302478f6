"""Kernels bound by the elements they read and write."""
