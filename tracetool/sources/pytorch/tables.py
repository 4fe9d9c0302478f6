"""From profiler events to a trace: activities, host calls, operators, ranges, modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracetool.core.arrays import Texts
from tracetool.core.dtype import BYTES, canonical_dtype
from tracetool.sources.calls import call_kind, plain_call
from tracetool.sources.columns import rejected_rows
from tracetool.sources.pytorch.columns import categories, clean, numbering, numbers, texts, whole_numbers
from tracetool.sources.pytorch.gather import ACTIVITIES, MODULE_PREFIX, PREDICTED, Gathered, Places
from tracetool.sources.pytorch.records import Chunk

#: Events gathered before they become columns: bounds the memory whatever the file's size.
EVENTS_AT_ONCE = 1 << 18
_WHERE = ("pid", "tid", "name")
_EXTERNAL = "external|external_old"
_RANK = re.compile(r"\d{1,9}")
#: Ranks of a group that are looked at; no profiler lists more.
_MOST_RANKS = 1 << 16
#: No message is longer. [B] As of every activity's bytes.
_LARGEST_MESSAGE = float(1 << 62)


@dataclass
class Columns:
    """Tables of the chunks read so far; complete after :meth:`flush`."""

    source: str
    base_ns: int
    activities: list[pl.DataFrame] = field(default_factory=list)
    calls: list[pl.DataFrame] = field(default_factory=list)
    operators: list[pl.DataFrame] = field(default_factory=list)
    ranges: list[pl.DataFrame] = field(default_factory=list)
    modules: list[pl.DataFrame] = field(default_factory=list)
    rejected: list[pl.DataFrame] = field(default_factory=list)
    categories: set[str] = field(default_factory=set)
    #: Whether a runtime call of AMD's was met.
    hip: bool = False
    #: Events that an export of ours predicted.
    predicted: int = 0

    def __post_init__(self) -> None:
        args = (
            "device",
            "stream",
            "context",
            "correlation",
            _EXTERNAL,
            "registers",
            "shared",
            "node",
            "bytes",
            "collective_sequence",
            "group_size",
            "sent_elements",
            "received_elements",
        )
        as_json = ("grid", "block", "group_name", "group_ranks", "message_dtype")
        self._device = Gathered(("cat", *_WHERE), args, as_json)
        self._calls = Gathered(_WHERE, ("correlation", _EXTERNAL, "shared"), ("grid", "block"))
        self._operators = Gathered(
            _WHERE, ("sequence", "record_function", _EXTERNAL), ("dims|dims_old", "types", "concrete")
        )
        self._ranges = Gathered(_WHERE)
        self._modules = Gathered(_WHERE)
        self._waiting = 0

    def add(self, chunk: Chunk) -> None:
        """Sort a chunk's events by category and keep their fields."""
        by_category = Places.of(chunk)
        named = [c for c in by_category if isinstance(c, str)]
        self.categories.update(named)
        self.predicted += sum(len(by_category[c]) for c in named if c.startswith(PREDICTED))
        if chunk.odd:
            places, odd = zip(*chunk.odd, strict=True)
            self.rejected.append(
                rejected_rows(self.source, [f"event {p}" for p in places], "not an event", odd)
            )
        self._device.add(chunk, by_category.device)
        self._calls.add(chunk, by_category.calls)
        self._operators.add(chunk, by_category.operators)
        self._ranges.add(chunk, by_category.ranges)
        self._modules.add(chunk, by_category.modules(chunk))
        self._waiting += len(chunk.events)
        if self._waiting >= EVENTS_AT_ONCE:
            self.flush()

    def add_cells(self, first: int, events: Mapping[str, Texts], argument: Callable[[str], Texts]) -> None:
        """Keep the fields of events given as columns, and make columns of them.

        Parameters
        ----------
        first : int
            Number of the first event in the file.
        events : mapping of str to array
            Fields of the events themselves.
        argument : callable
            The name of a field of their arguments to its column.
        """
        by_category = Places.of_categories(events["cat"])
        self.categories.update(by_category)
        named = ((place, events["name"][place]) for place in by_category.python)
        modules = [place for place, name in named if name.startswith(MODULE_PREFIX)]

        def cells(name: str) -> Texts:
            return events[name] if name in events else argument(name)

        for gathered, which in (
            (self._device, by_category.device), (self._calls, by_category.calls),
            (self._operators, by_category.operators), (self._ranges, by_category.ranges),
            (self._modules, modules),
        ):  # fmt: skip
            gathered.add_cells(first, np.array(which, np.int64), cells)
        self.flush()

    def flush(self) -> None:
        """Make columns of what was gathered."""
        for gathered, make, into in (
            (self._device, self._device_columns, self.activities),
            (self._calls, self._call_columns, self.calls),
            (self._operators, self._operator_columns, self.operators),
            (self._ranges, self._intervals, self.ranges),
            (self._modules, self._module_columns, self.modules),
        ):  # fmt: skip
            if gathered.parts:
                into.append(pl.DataFrame(make(gathered)))
                gathered.clear()
        self._waiting = 0

    def _intervals(self, gathered: Gathered) -> dict[str, pl.Series]:
        start, length = gathered.times_ns(self.base_ns)
        return {
            "start_ns": start,
            "duration_ns": length,
            "process": whole_numbers(gathered.cells["pid"]),
            "thread": whole_numbers(gathered.cells["tid"]),
            "name": categories(clean(texts(gathered.distinct["name"])), gathered.cells["name"]),
        }

    def _module_columns(self, gathered: Gathered) -> dict[str, pl.Series]:
        names = texts([str(n).removeprefix(MODULE_PREFIX) for n in gathered.distinct["name"]])
        return {**self._intervals(gathered), "name": categories(clean(names), gathered.cells["name"])}

    def _device_columns(self, gathered: Gathered) -> dict[str, pl.Series]:
        cells = gathered.cells
        start, length = gathered.times_ns(self.base_ns)
        kinds = pl.Series([ACTIVITIES[str(c).lower()] for c in gathered.distinct["cat"]], dtype=pl.String)
        return {
            "start_ns": start,
            "end_ns": start + length,
            "kind": categories(kinds, cells["cat"]),
            "name": categories(clean(texts(gathered.distinct["name"])), cells["name"]),
            "place": gathered.places(),
            "profiler_device": whole_numbers(_else(cells["device"], cells["pid"])),
            "stream": whole_numbers(_else(cells["stream"], cells["tid"])),
            "context": whole_numbers(cells["context"]),
            "correlation": whole_numbers(cells["correlation"]),
            "external_id": whole_numbers(cells["external"]),
            "registers_per_thread": whole_numbers(cells["registers"]),
            "shared_bytes": whole_numbers(cells["shared"]),
            "graph_node": whole_numbers(cells["node"]),
            "bytes": _first(whole_numbers(cells["bytes"]), _message_bytes(gathered)),
            "process_group": _process_groups(gathered),
            **_members(gathered),
            "collective_sequence": whole_numbers(cells["collective_sequence"]),
            **_geometry(gathered, "grid"),
            **_geometry(gathered, "block"),
        }

    def _call_columns(self, gathered: Gathered) -> dict[str, pl.Series]:
        cells = gathered.cells
        plain = ["?" if n is None else plain_call(n) for n in clean(texts(gathered.distinct["name"]))]
        self.hip = self.hip or any(n.startswith("hip") for n in plain)
        return {
            **self._intervals(gathered),
            "name": categories(pl.Series(plain, dtype=pl.String), cells["name"]),
            "kind": categories(pl.Series(list(map(call_kind, plain)), dtype=pl.String), cells["name"]),
            "correlation": whole_numbers(cells["correlation"]),
            "external_id": whole_numbers(cells["external"]),
            "shared": whole_numbers(cells["shared"]),
            **_geometry(gathered, "grid"),
            **_geometry(gathered, "block"),
        }

    def _operator_columns(self, gathered: Gathered) -> dict[str, pl.Series]:
        cells = gathered.cells
        return {
            **self._intervals(gathered),
            "input_dims": _json_texts(gathered, "dims"),
            "input_types": _json_texts(gathered, "types"),
            "concrete_inputs": _json_texts(gathered, "concrete"),
            "sequence": whole_numbers(cells["sequence"]),
            "record_function": whole_numbers(cells["record_function"]),
            "external_id": whole_numbers(cells["external"]),
        }


def _else(first: list[Any], second: list[Any]) -> list[Any]:
    """Return the first values, the second ones where there is none."""
    return [a if a is not None else b for a, b in zip(first, second, strict=True)] if None in first else first


def _first(stated: pl.Series, other: pl.Series) -> pl.Series:
    """Return the stated values, the others where there is none."""
    return pl.select(pl.coalesce(stated, other)).to_series() if stated.null_count() else stated


def _geometry(gathered: Gathered, name: str) -> dict[str, pl.Series]:
    """Return x, y, z of a launch's grid or block."""
    shapes = [_three(raw) for raw in gathered.distinct[name]]
    codes = pl.Series(gathered.cells[name], dtype=pl.UInt32)
    return {
        f"{name}_{axis}": whole_numbers([shape[i] for shape in shapes]).gather(codes)
        for i, axis in enumerate("xyz")
    }


_UNKNOWN = (None, None, None)


def _three(raw: Any) -> Sequence[Any]:
    """Return the three numbers of a list, nothing where it is none."""
    try:
        values = msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNKNOWN
    return values if isinstance(values, list) and len(values) == 3 else _UNKNOWN


def _process_groups(gathered: Gathered) -> pl.Series:
    """Return name and ranks of the group a collective ran in, as text stored as codes; null for the rest."""
    names, ranks = ([_plain(raw) for raw in gathered.distinct[c]] for c in ("group_name", "group_ranks"))
    met = numbering()
    cells = zip(gathered.cells["group_name"], gathered.cells["group_ranks"], strict=True)
    codes = [met[f"{names[name]} {ranks[among]}".strip()] for name, among in cells]
    spelled = [str(text) or None for text in met]
    return categories(clean(pl.Series(spelled, dtype=pl.String)), codes)


def _members(gathered: Gathered) -> dict[str, pl.Series]:
    """Return how many ranks each collective's group has, and how far apart their numbers are; null else."""
    groups = [_ranks(raw) for raw in gathered.distinct["group_ranks"]]
    codes = pl.Series(gathered.cells["group_ranks"], dtype=pl.UInt32)
    counts, strides = (
        pl.Series([group[part] for group in groups], dtype=pl.Int64).gather(codes) for part in (0, 1)
    )
    stated = whole_numbers(gathered.cells["group_size"])
    ranks = _first(stated.replace(0, None), counts)
    return {"ranks": ranks, "rank_stride": strides}


def _ranks(raw: bytes) -> tuple[int | None, int | None]:
    """Return the number of ranks of a list as text, null where it is cut short, and their distance if even.

    >>> _ranks(b'"[0, 8, 16]"'), _ranks(b'"[0, 1, ..., 63]"'), _ranks(b"")
    ((3, 8), (None, 1), (None, None))
    """
    listed, _, rest = raw.decode("utf-8", "replace").partition("...")
    among = [int(digits) for digits in _RANK.findall(listed)[:_MOST_RANKS]]
    apart = {after - before for before, after in pairwise(among)}
    stride = min(apart) if len(apart) == 1 and min(apart) > 0 else None
    return (len(among) if among and not rest else None), stride


def _message_bytes(gathered: Gathered) -> pl.Series:
    """Return the whole message of each collective: the larger of what a rank sends and has in the end. [B]"""
    formats = [canonical_dtype(_plain(raw)) for raw in gathered.distinct["message_dtype"]]
    size = pl.Series([BYTES.get(name or "") for name in formats], dtype=pl.Float64)
    each = size.gather(pl.Series(gathered.cells["message_dtype"], dtype=pl.UInt32))
    sides = (numbers(gathered.cells[name]) for name in ("sent_elements", "received_elements"))
    most = pl.select(pl.max_horizontal(*sides)).to_series() * each
    return (
        most.to_frame("b")
        .select(pl.when(pl.col("b").is_between(1.0, _LARGEST_MESSAGE)).then("b").cast(pl.Int64))
        .to_series()
    )


def _plain(raw: bytes) -> str:
    """Return JSON as text, a string without its quotes."""
    return raw.decode("utf-8", "replace").strip().strip('"')


def _json_texts(gathered: Gathered, name: str) -> pl.Series:
    """Return JSON as text stored as codes, null where there is none."""
    spelled = [raw.decode("utf-8", "replace") or None for raw in gathered.distinct[name]]
    return categories(clean(pl.Series(spelled, dtype=pl.String)), gathered.cells[name])
