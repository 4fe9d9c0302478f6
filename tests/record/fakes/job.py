"""A program that keeps the fake GPU busy and writes down when: boot time, ns, for the fake profilers."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

LOAD = Path(os.environ.get("FAKE_NVML_LOAD", os.devnull))
#: From the launch to the kernel's start: a program that is held up in between is still in time.
LEAD_NS = 5_000_000


def busy(seconds: float) -> None:
    """Keep the GPU busy; the times written are the GPU's own, which begins a little after it is asked to."""
    start = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + LEAD_NS
    span = f"{start} {start + round(1e9 * seconds)}\n"
    append(LOAD, span)
    time.sleep(1e-9 * LEAD_NS + seconds)
    if target := os.environ.get("FAKE_KERNELS"):
        append(Path(target), span)


def append(path: Path, line: str) -> None:
    with path.open("a", encoding="ascii") as f:
        f.write(line)


def main() -> int:
    """``job.py [CYCLES [SECONDS [fail|fork|stubborn|print]]]``."""
    cycles, seconds = int((sys.argv[1:] or ["3"])[0]), float((sys.argv[2:] or ["0.1"])[0])
    manner = sys.argv[3] if len(sys.argv) > 3 else ""
    if manner == "stubborn":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if manner == "fork" and os.fork() == 0:
        busy(seconds)
        os._exit(0)
    for _ in range(cycles):
        busy(seconds)
        time.sleep(seconds)
    if manner == "fork":
        os.wait()
    if manner == "fail":
        print("job: cannot go on", file=sys.stderr)
        return 7
    if manner == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
