"""Records of arrays over rows, such as timings and predictions: some rows written into a record of more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tracetool.core.arrays import Ints

Record = TypeVar("Record")


def unfilled(part: Record, count: int, *, alike: frozenset[str] = frozenset()) -> Record:
    """Return the record of ``count`` rows whose fields a record of fewer rows shows, its arrays unfilled.

    Parameters
    ----------
    part : dataclass
        Arrays whose first axis is rows, mappings and dataclasses of such, and None.
    alike : set of str
        Fields that are not over rows; they stay as they are.
    """
    empty: Record = _mapped(part, lambda values: np.empty((count, *values.shape[1:]), values.dtype), alike)
    return empty


def put_rows(
    record: Any, rows: Ints | slice, part: Any, *, alike: frozenset[str] = frozenset(), name: str = ""
) -> None:
    """Write the rows of a record into the chosen rows of another of the same fields, in place."""
    if is_dataclass(part):
        for f in fields(part):
            put_rows(getattr(record, f.name), rows, getattr(part, f.name), alike=alike, name=f.name)
    elif isinstance(part, Mapping):
        for key, values in part.items():
            put_rows(record[key], rows, values, alike=alike, name=key)
    elif isinstance(part, np.ndarray) and name not in alike:
        record[rows] = part


def with_rows(record: Record, rows: Ints, part: Record) -> Record:
    """Return a record with the chosen rows taken from another of the same fields."""
    copied: Record = _mapped(record, np.array, frozenset())
    put_rows(copied, rows, part)
    return copied


def _mapped(part: Any, change: Any, alike: frozenset[str], name: str = "") -> Any:
    if is_dataclass(part):
        named = {f.name: getattr(part, f.name) for f in fields(part)}
        changed = {key: _mapped(values, change, alike, key) for key, values in named.items()}
        return replace(part, **changed)  # type: ignore[type-var]
    if isinstance(part, Mapping):
        return {key: _mapped(values, change, alike, key) for key, values in part.items()}
    return change(part) if isinstance(part, np.ndarray) and name not in alike else part
