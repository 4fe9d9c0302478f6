"""A package with the few names of PyTorch that the launcher uses; its kernels are sleeps."""

import time

SPANS: list[tuple[int, int]] = []


def work(seconds: float) -> None:
    """Run one kernel."""
    start = time.time_ns()
    time.sleep(seconds)
    SPANS.append((start, time.time_ns()))
