"""Operator columns: the work the model predicts, as arrays.

One row is one distinct piece of work: an operator of an operator table, or a kernel signature
of a run. The columns are those of operator tables (``schemas/operator_table.json``), plus what a
kernel's name and launch state (``tile_m``, ``grid``, ...). Absent numbers are NaN, absent texts are
the empty string; families read what they need and say in which rows it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from weakref import ref

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers, Texts


@dataclass(frozen=True)
class OperatorColumns:
    """Named columns of equal length.

    Parameters
    ----------
    family : array of str, shape (n,)
        Family of each row, from the closed list.
    columns : mapping of str to array, each shape (n,)
        Numbers as float64 (NaN where absent), texts as object arrays ("" where absent).
    """

    family: Texts
    columns: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.family)

    def number(self, name: str, default: float = np.nan) -> Floats:
        """Return a numeric column; ``default`` where it is absent or not a number. Shape (n,)."""
        column = self.columns.get(name)
        if column is None:
            return np.full(len(self), default)
        values = np.asarray(column, dtype=np.float64)
        return np.where(np.isnan(values), default, values)

    def text(self, name: str, default: str = "") -> Texts:
        """Return a text column, read-only; ``default`` where it is absent or empty. Shape (n,)."""
        if (texts := self._read_texts.get((name, default))) is not None:
            return texts
        column = self.columns.get(name)
        if column is None:
            texts = np.full(len(self), default, dtype=object)
        else:
            values = np.asarray(column, dtype=object)
            texts = np.where(values == "", default, values)
        texts.flags.writeable = False
        return self._read_texts.setdefault((name, default), texts)

    @cached_property
    def _read_texts(self) -> dict[tuple[str, str], Texts]:
        """Text columns that were asked for, by name and default."""
        return {}

    def in_families(self, *families: str) -> Bools:
        """Return which rows are of some families. Shape (n,)."""
        distinct, place = self.distinct_families
        return np.array([family in families for family in distinct], dtype=np.bool_)[place]

    @cached_property
    def distinct_families(self) -> tuple[list[str], Ints]:
        """The distinct families, and the place of each row's among them, shape (n,)."""
        return distinct_texts(self.family)

    def distinct(self, name: str) -> tuple[list[str], Ints]:
        """Return the distinct texts of a column, and the place of each row's among them. Shape (n,)."""
        return distinct_texts(self.text(name))

    def take(self, rows: Bools | Numbers | slice) -> OperatorColumns:
        """Return the chosen rows (mask or indices); a slice of them shares the columns' memory."""
        return OperatorColumns(self.family[rows], {k: np.asarray(v)[rows] for k, v in self.columns.items()})


#: Distinct texts of read-only columns that are still in use, by the column's identity.
_DISTINCT: dict[int, tuple[ref[Texts], tuple[list[str], Ints]]] = {}


def distinct_texts(column: Texts) -> tuple[list[str], Ints]:
    """Return the distinct texts of a column, and the place of each row's among them. Shape (n,).

    A column that nobody can write to is read once, however often it is asked for.
    """
    if column.flags.writeable or column.base is not None:
        return _distinct_texts(column)
    key = id(column)
    if (entry := _DISTINCT.get(key)) is not None and entry[0]() is column:
        return entry[1]
    distinct = _distinct_texts(column)
    distinct[1].flags.writeable = False
    _DISTINCT[key] = ref(column, lambda _: _DISTINCT.pop(key, None)), distinct
    return distinct


def _distinct_texts(column: Texts) -> tuple[list[str], Ints]:
    texts = column.tolist()
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    numbers = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    return [str(text) for text in places], numbers
