"""Long tables in blocks: rows that do not depend on each other, predicted by several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Floats, by_row
from tracetool.core.prediction import Prediction
from tracetool.core.records import put_rows, unfilled

#: Rows whose tiles are searched together. [rows] By definition without effect on results: it spreads the cost
#: of calls over many rows.
PLANNED_ROWS: Final = 131_072
#: Rows whose operating points are searched together. [rows] By definition without effect on results: it
#: bounds the memory of their arrays.
SETTLED_ROWS: Final = 8_192
#: Most threads: more wait for each other's Python code. [1] By definition without effect on results.
_MOST_THREADS: Final = 4
#: Arrays over the clocks asked for, alike in every block.
_OF_CLOCKS: Final = frozenset({"requested_mhz", "idle_w"})
#: Arrays of a timing that no clock changes, where a block shows them in one column.
_OF_ROWS: Final = ("low", "high", "memory_s")


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
    whole: list[Prediction] = []
    lock = Lock()

    def fill(block: slice) -> None:
        for rows, part in predict(block):
            narrow = _with_columns(part, by_row)
            with lock:
                if not whole:
                    whole.append(unfilled(narrow, count, alike=_OF_CLOCKS))
            put_rows(whole[0], rows, narrow, alike=_OF_CLOCKS, blank=True)

    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(fill, slices(0, count, PLANNED_ROWS)):
            pass  # raises what a block raised
    shape = whole[0].clock_mhz.shape
    return _with_columns(whole[0], lambda values: np.broadcast_to(values, shape))


def _with_columns(predicted: Prediction, change: Callable[[Floats], Floats]) -> Prediction:
    """Return a prediction with its arrays that no clock changes in another form."""
    timing = predicted.timing
    changed: dict[str, Any] = {name: change(getattr(timing, name)) for name in _OF_ROWS}
    return replace(predicted, timing=replace(timing, **changed))
