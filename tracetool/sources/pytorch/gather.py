"""Fields of decoded events, gathered chunk by chunk until there are enough for a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints, Texts
from tracetool.sources.pytorch.columns import (
    EXACT_US,
    exact_times,
    numbering,
    numbers,
    scaled_times,
    texts,
)
from tracetool.sources.pytorch.records import NO_ARGS, Chunk

#: Categories in their spellings since 2020, lower case.
ACTIVITIES = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset",
    "memset": "memset",
}  # fmt: skip
CALLS = frozenset(("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "privateuse1_runtime"))
OPERATORS = frozenset(("cpu_op", "operator"))
RANGES = frozenset(("user_annotation",))
#: Calls of Python; those of modules are named with this prefix.
PYTHON = frozenset(("python_function",))
MODULE_PREFIX = "nn.Module: "


#: Before the category of what an export of ours predicts: no reader takes it for work that ran.
PREDICTED = "predicted_"


@dataclass
class Gathered:
    """Fields of the events of one table, in the order of the file.

    Parameters
    ----------
    of_event, of_args, of_json : sequence of str
        Fields of the event, of its arguments, and of those left as JSON. A pair ``new|old`` is the old
        field where there is no new one. Names, categories and JSON repeat a thousandfold: their cells are
        numbers of the distinct ones, :attr:`distinct`.
    """

    of_event: Sequence[str]
    of_args: Sequence[str] = ()
    of_json: Sequence[str] = ()
    cells: dict[str, list[Any]] = field(default_factory=dict)
    distinct: dict[str, dict[Any, int]] = field(default_factory=dict)
    #: First event of each chunk, its bytes, and the places of the events of this table in it.
    parts: list[tuple[int, bytes, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what was gathered."""
        self.parts = []
        self.cells = {
            name.split("|")[0]: [] for name in ("ts", "dur", *self.of_event, *self.of_args, *self.of_json)
        }
        self.distinct = {name.split("|")[0]: numbering() for name in ("name", "cat", *self.of_json)}

    def add(self, chunk: Chunk, which: list[int]) -> None:
        """Take over the fields of some events of a chunk."""
        if not which:
            return
        self.parts.append((chunk.first, chunk.raw, which))
        events = [chunk.events[i] for i in which]
        for name in ("ts", "dur", *self.of_event):
            values = map(attrgetter(name), events)
            self.cells[name] += self._numbered(name, list(values)) if name in self.distinct else values
        if not self.of_args and not self.of_json:
            return
        args = [e.args or NO_ARGS for e in events]
        for spelled in self.of_args:
            name, _, old = spelled.partition("|")
            cells = list(map(attrgetter(name), args))
            if old and None in cells:
                cells = [
                    new if new is not None else getattr(a, old) for new, a in zip(cells, args, strict=True)
                ]
            self.cells[name] += cells
        for spelled in self.of_json:
            name, _, old = spelled.partition("|")
            raws = list(map(attrgetter(name), args))
            if old and not all(raws):
                raws = [new or getattr(a, old) for new, a in zip(raws, args, strict=True)]
            self.cells[name] += self._numbered(name, _as_bytes(raws))

    def add_cells(self, first: int, which: Ints, cells: Callable[[str], Texts]) -> None:
        """Take over fields of some events, stored as columns.

        Parameters
        ----------
        first : int
            Number of the columns' first event in the file.
        which : array of int
            The rows to take.
        cells : callable
            The name of a field to its column.
        """
        if not len(which):
            return
        self.parts.append((first, b"", which.tolist()))
        for spelled in ("ts", "dur", *self.of_event, *self.of_args, *self.of_json):
            name, _, old = spelled.partition("|")
            column = cells(name)[which]
            if old:
                absent = np.array(
                    [not cell if name in self.distinct else cell is None for cell in column], np.bool_
                )
                column[absent] = cells(old)[which[absent]]
            listed = column.tolist()
            self.cells[name] += self._numbered(name, listed) if name in self.distinct else listed

    def _numbered(self, name: str, cells: list[Any]) -> list[int]:
        """Return which of the distinct values each cell is."""
        number = self.distinct[name].__getitem__
        try:
            return list(map(number, cells))
        except TypeError:  # a name that is a list
            return list(map(number, texts(cells).to_list()))

    def places(self) -> pl.Series:
        """Return the number of each event in the file, from 0."""
        return pl.concat([pl.Series(which, dtype=pl.Int64) + first for first, _, which in self.parts])

    def times_ns(self, base_ns: int) -> tuple[pl.Series, pl.Series]:
        """Return start and duration of the events, exact to the nanosecond, null where there is none.

        Parameters
        ----------
        base_ns : int
            Added to every start. [ns]

        Notes
        -----
        Times are decimal microseconds. A double of a time since 1970 is good to 256 ns only: such chunks
        are read again for their digits.
        """
        stamps = self.cells["ts"]
        ts = numbers(stamps)
        last = ts.abs().max()
        if isinstance(last, float) and last >= EXACT_US and not all(type(t) is int for t in stamps):
            exact = [exact_times(raw, which) for _, raw, which in self.parts]
            start, length = (pl.concat([times[i] for times in exact]) for i in (0, 1))
        else:
            start, length = scaled_times(ts, numbers(self.cells["dur"]))
        return start + base_ns, length


def _as_bytes(raws: list[Any]) -> list[bytes]:
    """Return JSON as bytes.

    Notes
    -----
    Joined and split it becomes bytes five times as fast as one by one. No JSON holds a NUL.
    """
    if not any(raws):
        return [b""] * len(raws)
    texts = b"\0".join(raws).split(b"\0")
    return texts if len(texts) == len(raws) else list(map(bytes, raws))


class Places(dict[Any, list[int]]):
    """Places of events in their chunk by category; all categories of a table share one list."""

    def __init__(self) -> None:
        super().__init__()
        self.device: list[int] = []
        self.calls: list[int] = []
        self.operators: list[int] = []
        self.ranges: list[int] = []
        self.python: list[int] = []

    def __missing__(self, category: Any) -> list[int]:
        low = category.lower() if isinstance(category, str) else ""
        tables = (
            (ACTIVITIES, self.device), (CALLS, self.calls),
            (OPERATORS, self.operators), (RANGES, self.ranges), (PYTHON, self.python),
        )  # fmt: skip
        self[category] = next((into for names, into in tables if low in names), [])
        return self[category]

    def modules(self, chunk: Chunk) -> list[int]:
        """Return the places of the calls of modules; chunks without one are not searched event by event."""
        if not self.python or MODULE_PREFIX.encode() not in chunk.raw:
            return []
        names = ((place, chunk.events[place].name) for place in self.python)
        return [place for place, name in names if isinstance(name, str) and name.startswith(MODULE_PREFIX)]

    @classmethod
    def of_categories(cls, categories: Iterable[Any]) -> Places:
        """Sort complete events by their categories."""
        places = cls()
        for place, category in enumerate(categories):
            places[category].append(place)
        return places

    @classmethod
    def of(cls, chunk: Chunk) -> Places:
        """Sort the complete events of a chunk."""
        places = cls()
        try:
            for place, event in enumerate(chunk.events):
                if event.ph == "X":
                    places[event.cat].append(place)
        except TypeError:  # a category that is a list
            places = cls()
            for place, event in enumerate(chunk.events):
                if event.ph == "X" and isinstance(event.cat, str):
                    places[event.cat].append(place)
        return places
