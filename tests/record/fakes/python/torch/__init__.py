"""A package with the few names of PyTorch that the launcher uses; its kernels are sleeps."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

float16 = "float16"
SPANS: list[tuple[int, int]] = []
KERNEL_NS = 10_000_000
QUEUE = [0]  # when the last kernel launched ends: boot time, ns


def work(seconds: float) -> None:
    """Run one kernel."""
    start = time.time_ns()
    time.sleep(seconds)
    SPANS.append((start, time.time_ns()))


def ones(*_: int, **__: object) -> int:
    return 1


def mm(a: int, b: int, out: int) -> None:
    """Launch a kernel: it begins when the one before it ends."""
    start = max(QUEUE[0], time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    QUEUE[0] = start + KERNEL_NS
    with Path(os.environ["FAKE_NVML_LOAD"]).open("a", encoding="ascii") as f:
        f.write(f"{start} {QUEUE[0]}\n")


def _synchronize() -> None:
    time.sleep(max(0.0, 1e-9 * (QUEUE[0] - time.clock_gettime_ns(time.CLOCK_BOOTTIME))))


cuda = SimpleNamespace(is_available=lambda: True, set_device=lambda _: None, synchronize=_synchronize)
