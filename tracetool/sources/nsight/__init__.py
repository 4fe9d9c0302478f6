"""Nsight Systems: the tables of its SQLite export, and the program that makes one from a report."""
