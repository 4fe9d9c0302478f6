"""Records of arrays over rows, such as timings and predictions: some rows written into a record of more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tracetool.core.arrays import Ints, Numbers

Record = TypeVar("Record")


def unfilled(part: Record, count: int, *, alike: frozenset[str] = frozenset()) -> Record:
    """Return the record of ``count`` rows whose fields a record of fewer rows shows, its arrays of zeros.

    Parameters
    ----------
    part : dataclass
        Arrays whose first axis is rows, mappings and dataclasses of such, and None.
    alike : set of str
        Fields that are not over rows; they stay as they are.
    """
    empty: Record = _mapped(part, lambda values: np.zeros((count, *values.shape[1:]), values.dtype), alike)
    return empty


def put_rows(
    record: Any,
    rows: Ints | slice,
    part: Any,
    *,
    alike: frozenset[str] = frozenset(),
    blank: bool = False,
    name: str = "",
) -> None:
    """Write the rows of a record into the chosen rows of another of the same fields, in place.

    Into a ``blank`` record, one of zeros in these rows, views that show the same zeros again are not written:
    pages that nobody writes to take no memory.
    """
    if is_dataclass(part):
        for f in fields(part):
            named = getattr(record, f.name), rows, getattr(part, f.name)
            put_rows(*named, alike=alike, blank=blank, name=f.name)
    elif isinstance(part, Mapping):
        for key, values in part.items():
            put_rows(record[key], rows, values, alike=alike, blank=blank, name=key)
    elif isinstance(part, np.ndarray) and name not in alike and not (blank and _shows_zeros(part)):
        record[rows] = part


def _shows_zeros(values: Numbers) -> bool:
    """Whether an array is a view that shows the same zeros again along an axis."""
    shown = tuple(slice(1) if stride == 0 else slice(None) for stride in values.strides)
    return values.size > 1 and 0 in values.strides and not values[shown].any()


def with_rows(record: Record, rows: Ints, part: Record, *, in_place: bool = False) -> Record:
    """Return a record with the chosen rows taken from another of the same fields.

    Arrays that those rows leave as they are stay the same arrays. ``in_place`` writes into the others where
    they can be written to: for a record that nobody else holds.
    """
    merged: Record = _with_rows(record, rows, part, in_place)
    return merged


def _with_rows(record: Any, rows: Ints, part: Any, in_place: bool) -> Any:
    if is_dataclass(record):
        named = [f.name for f in fields(record)]
        merged = {n: _with_rows(getattr(record, n), rows, getattr(part, n), in_place) for n in named}
        return replace(record, **merged)  # type: ignore[type-var]
    if isinstance(record, Mapping):
        # a part of fewer keys, such as rows whose counters know fewer units, leaves the others as they are
        return {
            key: _with_rows(values, rows, part[key], in_place) if key in part else values
            for key, values in record.items()
        }
    if not isinstance(record, np.ndarray) or np.array_equal(record[rows], part):
        return record
    written = record if in_place and record.flags.writeable else np.array(record)
    written[rows] = part
    return written


def _mapped(record: Any, change: Any, alike: frozenset[str], name: str = "") -> Any:
    if is_dataclass(record):
        named = {f.name: getattr(record, f.name) for f in fields(record)}
        changed = {key: _mapped(values, change, alike, key) for key, values in named.items()}
        return replace(record, **changed)  # type: ignore[type-var]
    if isinstance(record, Mapping):
        return {key: _mapped(values, change, alike, key) for key, values in record.items()}
    return change(record) if isinstance(record, np.ndarray) and name not in alike else record
