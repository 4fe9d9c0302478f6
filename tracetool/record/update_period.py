"""Update period of a sensor, found by reading it as fast as it answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tracetool.record.clocks import boot_ns
from tracetool.record.meter import Meter

#: Fewer changes than this say nothing about a period.
LEAST_CHANGES = 6
#: Polls per update: the moment of a change is then known to a fifth of the period.
POLLS_PER_UPDATE = 5
SHORTEST_POLL_S, USUAL_POLL_S, LONGEST_POLL_S = 0.001, 0.010, 0.020


@dataclass(frozen=True)
class Found:
    """Result of fast polling of one GPU."""

    update_s: Mapping[str, float | None]
    read_s: float
    reads: int


def change_period_s(times_ns: Sequence[int], values: Sequence[int | None]) -> float | None:
    """Return the median time between changes of a polled value, None where too few were seen. [s]

    Examples
    --------
    >>> change_period_s([i * 1_000_000 for i in range(100)], [i // 10 for i in range(100)])
    0.01
    """
    changes = [t for t, a, b in zip(times_ns[1:], values, values[1:], strict=False) if a != b]
    if len(changes) < LEAST_CHANGES:
        return None
    return median(b - a for a, b in pairwise(changes)) / 1e9


def find_updates(meter: Meter, index: int, seconds: float) -> Found:
    """Poll one GPU without waiting for ``seconds`` and return what changed how often."""
    times: list[int] = []
    delays: list[int] = []
    columns: dict[str, list[int | None]] = {}
    end = boot_ns() + round(seconds * 1e9)
    while (before := boot_ns()) < end:
        values = meter.read_power(index)
        after = boot_ns()
        times.append((before + after) // 2)
        delays.append(after - before)
        for name, value in values.items():
            column = columns.setdefault(name, [None] * (len(times) - 1))
            column.append(value if isinstance(value, int) else None)
        if after - before < 100_000:  # a read this quick is from a cache: leave the processor to others
            time.sleep(0.0002)
    periods = {name: change_period_s(times[-len(column) :], column) for name, column in columns.items()}
    return Found(periods, median(delays) / 1e9 if delays else float("nan"), len(times))


def poll_period_s(updates: Sequence[Found]) -> float:
    """Return the period to poll at: a fifth of the quickest update, at most a quarter of it spent reading.

    Examples
    --------
    >>> poll_period_s([Found({"instant_mw": 0.1, "energy_uj": None}, 0.0004, 100)])
    0.02
    >>> poll_period_s([Found({"instant_mw": None}, 0.0004, 100)])
    0.01
    """
    powers = [p for f in updates for name, p in f.update_s.items() if p and name != "energy_uj"]
    periods = powers or [p for f in updates for p in f.update_s.values() if p]
    poll_s = min(periods) / POLLS_PER_UPDATE if periods else USUAL_POLL_S
    reading = 4 * sum(f.read_s for f in updates if f.reads)
    return max(min(max(poll_s, SHORTEST_POLL_S), LONGEST_POLL_S), reading)
