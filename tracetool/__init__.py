"""Where a GPU job's joules went, and what they would be at another clock."""

__version__ = "0.1.0"
