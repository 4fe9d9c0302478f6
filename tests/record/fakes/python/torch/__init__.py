"""A package with the few names of PyTorch that the launcher uses; its kernels are sleeps."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

float16 = "float16"
SPANS: list[tuple[int, int]] = []


def work(seconds: float) -> None:
    """Run one kernel."""
    start = time.time_ns()
    time.sleep(seconds)
    SPANS.append((start, time.time_ns()))


def ones(*_: int, **__: object) -> int:
    return 1


def mm(a: int, b: int, out: int) -> None:
    """Begin some work: the GPU is busy until somebody waits for it."""
    Path(os.environ["FAKE_NVML_LOAD"]).write_text("1", "ascii")


def _synchronize() -> None:
    time.sleep(0.004)
    Path(os.environ["FAKE_NVML_LOAD"]).write_text("0", "ascii")


cuda = SimpleNamespace(is_available=lambda: True, set_device=lambda _: None, synchronize=_synchronize)
