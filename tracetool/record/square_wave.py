"""A square wave of load. Stands alone: it runs in whatever Python has PyTorch, CuPy or Numba with a GPU.

``python square_wave.py --marks FILE [--seconds 20] [--device 0]``: bursts and rests of random lengths, so
that no sensor's rhythm can hide behind the wave's; each burst's start and end go to FILE (boot time, ns).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SHORTEST_S, LONGEST_S = 0.04, 0.60
#: Work between two looks at the clock: some milliseconds on any GPU.
_SIZE = 2048


def _torch(device: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    torch.cuda.set_device(device)
    kind = {"device": "cuda", "dtype": torch.float16}
    a, b, c = (torch.ones(_SIZE, _SIZE, **kind) for _ in range(3))
    return lambda: torch.mm(a, b, out=c), torch.cuda.synchronize


def _cupy(device: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import cupy

    cupy.cuda.Device(device).use()
    a, b, c = (cupy.ones((_SIZE, _SIZE), cupy.float32) for _ in range(3))
    return lambda: cupy.matmul(a, b, out=c), cupy.cuda.Stream.null.synchronize


def _numba(device: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import importlib

    cuda: Any = importlib.import_module("numba.cuda")
    cuda.select_device(device)

    @cuda.jit  # type: ignore[untyped-decorator, unused-ignore]
    def spin(out: Any) -> None:
        i = cuda.grid(1)
        x = out[i]
        for _ in range(20_000):
            x = x * 0.999 + 0.5
        out[i] = x

    out = cuda.device_array(1 << 20, "f4")
    return lambda: spin[4096, 256](out), cuda.synchronize


def find_load(device: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return functions that launch some work and wait for it, by the first package that can."""
    faults = []
    for make in (_torch, _cupy, _numba):
        try:
            launch, wait = make(device)
            launch()
            wait()
        except Exception as error:
            faults.append(f"{make.__name__[1:]}: {' '.join(str(error).split())[:80]}")
        else:
            return launch, wait
    raise SystemExit("square_wave: no GPU package works here: " + "; ".join(faults))


def main() -> int:
    """Make the wave."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--marks", required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args()
    launch, wait = find_load(options.device)
    lengths = random.Random(7)
    end = time.monotonic() + options.seconds
    with open(options.marks, "w", encoding="ascii") as marks:  # noqa: PTH123 - stands alone
        while time.monotonic() < end:
            start = time.clock_gettime_ns(_BOOT)
            until = start + round(1e9 * lengths.uniform(SHORTEST_S, LONGEST_S))
            while time.clock_gettime_ns(_BOOT) < until:
                launch()
                launch()
                wait()
            marks.write(f"{start} {time.clock_gettime_ns(_BOOT)}\n")
            marks.flush()
            time.sleep(lengths.uniform(SHORTEST_S, LONGEST_S))
    return 0


if __name__ == "__main__":
    sys.exit(main())
