"""Energy of a GPU job, kernel by kernel: measured, and predicted at other clocks."""

__version__ = "0.1.0"
