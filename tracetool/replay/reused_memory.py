"""Memory that is used again at the next clock: fresh pages for gigabytes cost more than the sums in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, current_thread, main_thread
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from tracetool.core.arrays import Numbers

T = TypeVar("T")

#: From this many activities on, two clocks are replayed at a time.
_MANY = 200_000


class Scratch:
    """Named arrays that keep their memory between calls; their old content is overwritten.

    ``lock`` is for those who share one.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Numbers] = {}
        self.lock = Lock()

    def has(self, name: str, n: int) -> bool:
        """Return whether an array of exactly ``n`` was taken under this name."""
        array = self._arrays.get(name)
        return array is not None and len(array) == n

    def forget(self, name: str) -> None:
        """Give up what is kept under a name."""
        self._arrays.pop(name, None)

    def take(self, name: str, n: int, dtype: DTypeLike = np.float64) -> Numbers:
        """Return an array of ``n``, its contents undefined."""
        array = self._arrays.get(name)
        if array is None or len(array) < n or array.dtype != np.dtype(dtype):
            array = self._arrays[name] = np.empty(n, dtype)
        return array[:n]


@dataclass(frozen=True)
class Memory:
    """Memory of a replay: for its results, and for the steps that all replays take in turn."""

    own: Scratch = field(default_factory=Scratch)  # when everything runs, and what it waited for
    placing: Scratch = field(default_factory=Scratch)
    sharing: Scratch = field(default_factory=Scratch)

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        """Return what pickles and copies hold: memory of their own, which nothing was written to."""
        return Memory, ()

    def beside(self) -> Memory:
        """Return memory for a replay that runs beside this one, one step behind or ahead."""
        return Memory(Scratch(), self.placing, self.sharing)


def at_each(count: int, job: Callable[[int, Memory], T], memory: Memory, activities: int) -> list[T]:
    """Return ``job(i, memory)`` for i from 0 to ``count`` - 1.

    With many activities two jobs run at a time: while one places a timeline the other shares its power,
    each step in the one memory there is for it. What a job returns must not hold its memory.
    A thread that works beside others, at a window of a large run, has no core for a second job.
    """
    beside_others = current_thread() is not main_thread()
    if count < 2 or activities < _MANY or beside_others or (os.cpu_count() or 1) < 2:
        return [job(i, memory) for i in range(count)]
    free: SimpleQueue[Memory] = SimpleQueue()
    for one in (memory, memory.beside()):
        free.put(one)

    def run(i: int) -> T:
        job_memory = free.get()
        try:
            return job(i, job_memory)
        finally:
            free.put(job_memory)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(count)))
