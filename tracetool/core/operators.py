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
        """Return a text column; ``default`` where it is absent or empty. Shape (n,)."""
        column = self.columns.get(name)
        if column is None:
            return np.full(len(self), default, dtype=object)
        values = np.asarray(column, dtype=object)
        return np.where(values == "", default, values)

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


def distinct_texts(column: Texts) -> tuple[list[str], Ints]:
    """Return the distinct texts of a column, and the place of each row's among them. Shape (n,)."""
    texts = column.tolist()
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    numbers = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    return [str(text) for text in places], numbers
