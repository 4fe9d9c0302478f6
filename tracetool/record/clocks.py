"""One clock for everything that is recorded: boot time, tied to UTC by pairs of readings."""

from __future__ import annotations

import time
from dataclasses import dataclass

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ns() -> int:
    """Return the time since the machine booted, suspends included. [ns]"""
    return time.clock_gettime_ns(_BOOT)


@dataclass(frozen=True)
class ClockPair:
    """Boot time and UTC at one moment; they belong together within ``half_width_ns``."""

    boot_ns: int
    utc_ns: int
    half_width_ns: int
    monotonic_ns: int

    @property
    def offset_ns(self) -> int:
        """Offset from boot time to UTC. [ns]"""
        return self.utc_ns - self.boot_ns


def read_pair(tries: int = 16) -> ClockPair:
    """Return the tightest of ``tries`` pairs: UTC read between two reads of boot time.

    Examples
    --------
    >>> pair = read_pair()
    >>> pair.half_width_ns < 1_000_000
    True
    """
    best: ClockPair | None = None
    for _ in range(tries):
        before = boot_ns()
        utc = time.time_ns()
        after = boot_ns()
        half = (after - before + 1) // 2
        if best is None or half < best.half_width_ns:
            best = ClockPair(before + half, utc, half, time.monotonic_ns() - (boot_ns() - before - half))
    assert best is not None
    return best
