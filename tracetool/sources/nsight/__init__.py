"""Nsight Systems: reports, their SQLite exports, and folders of them."""
