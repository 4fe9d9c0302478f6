"""Long tables in blocks: rows that do not depend on each other, predicted by several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import by_row
from tracetool.core.prediction import BusyTimes, Prediction
from tracetool.core.records import put_rows, unfilled

#: Rows whose tiles are searched together. [rows] By definition without effect on results: it spreads the cost
#: of calls over many rows.
PLANNED_ROWS: Final = 131_072
#: Rows times clocks whose operating points are searched together. [1] By definition without effect on
#: results: it bounds the memory of their arrays.
SETTLED_NUMBERS: Final = 262_144
#: Most threads: more wait for each other's Python code. [1] By definition without effect on results.
_MOST_THREADS: Final = 4
#: Arrays over the clocks asked for, alike in every block.
_OF_CLOCKS: Final = frozenset({"requested_mhz", "idle_w"})
#: Arrays of a timing that no clock changes, where a block shows them in one column.
_OF_ROWS: Final = ("low", "high", "memory_s")


def settled_rows(clocks: int) -> int:
    """Return how many rows are settled together at a number of clocks, at least one."""
    return max(SETTLED_NUMBERS // max(clocks, 1), 1)


def slices(start: int, stop: int, length: int) -> Iterator[slice]:
    """Yield consecutive slices of at most ``length`` rows."""
    for begin in range(start, stop, length):
        yield slice(begin, min(begin + length, stop))


def predicted_in_blocks(
    count: int, predict: Callable[[slice], Iterator[tuple[slice, Prediction]]]
) -> Prediction:
    """Return the prediction of many rows from those of blocks of them, made by several threads.

    Parameters
    ----------
    count : int
        Rows in all, at least one.
    predict : callable
        Predicts the rows of a slice; yields consecutive parts of it with their predictions. No row's
        prediction may depend on another row.
    """
    filled: list[Prediction] = []
    lock = Lock()

    def fill(block: slice) -> None:
        for rows, predicted in predict(block):
            narrow = _narrow(predicted)
            with lock:
                if not filled:
                    filled.append(unfilled(narrow, count, alike=_OF_CLOCKS))
            put_rows(filled[0], rows, narrow, alike=_OF_CLOCKS, blank=True)

    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(fill, slices(0, count, PLANNED_ROWS)):
            pass  # raises what a block raised
    return _shown(filled[0])


def _narrow(predicted: Prediction) -> Prediction:
    """Return a prediction without what is computed from the rest of it, or shown again at each clock."""
    timing, no_clocks = predicted.timing, slice(0)
    row_columns: dict[str, Any] = {name: by_row(getattr(timing, name)) for name in _OF_ROWS}
    if isinstance(busy := timing.busy_s, BusyTimes):
        clock_mhz, duration_s = (values[:, no_clocks] for values in (busy.clock_mhz, busy.duration_s))
        row_columns["busy_s"] = replace(busy, clock_mhz=clock_mhz, duration_s=duration_s)
    return replace(predicted, timing=replace(timing, **row_columns))


def _shown(narrow: Prediction) -> Prediction:
    """Return the whole of a prediction that :func:`_narrow` made narrow."""
    timing, shape = narrow.timing, narrow.clock_mhz.shape
    shown: dict[str, Any] = {name: np.broadcast_to(getattr(timing, name), shape) for name in _OF_ROWS}
    if isinstance(busy := timing.busy_s, BusyTimes):
        shown["busy_s"] = replace(busy, clock_mhz=narrow.clock_mhz, duration_s=timing.duration_s)
    return replace(narrow, timing=replace(timing, **shown))
