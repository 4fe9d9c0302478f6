"""Dense numbers for identifiers: streams, threads and correlations as small integers, without sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints, Numbers

#: A table indexed by the identifier itself may be this many times as long as the column.
_SPARSE = 4
#: Numbers below this sort in linear time.
_FEW = 2**15


def dense(columns: Sequence[pl.Series]) -> Numbers:
    """Number the distinct combinations of some columns from 0; null counts as a value.

    Returns
    -------
    array of int32, shape (n,)
        Equal numbers for equal combinations.

    Examples
    --------
    >>> dense([pl.Series([7, 7, None]), pl.Series([1, 2, 1])])
    array([1, 2, 0], dtype=int32)
    """
    code, highest = np.zeros(len(columns[0]), np.int64), 0
    for column in columns:
        values = _plain(column)
        most = int(values.max(initial=0))
        if not most:  # one value in all rows
            continue
        code = _squeezed(code * (most + 1) + values) if highest else values
        highest = int(code.max())
    return code.astype(np.int32)


def _plain(column: pl.Series) -> Ints:
    """Identifiers from 1 without large holes, 0 for null."""
    integers = column.cast(pl.Int64)
    if integers.null_count() == len(integers) or (
        not integers.null_count() and integers.min() == integers.max()
    ):
        return np.zeros(len(integers), np.int64)
    values = integers.fill_null(0).to_numpy()
    low, high = int(integers.min()), int(integers.max())  # type: ignore[arg-type]
    if not integers.null_count() and high - low < 2**62:
        return _squeezed(values - low)
    null = integers.is_null().to_numpy()
    if high - low < 2**62:
        return _squeezed(np.where(null, 0, values - low + 1))
    return np.where(null, 0, np.unique(values, return_inverse=True)[1] + 1)


def _squeezed(code: Ints) -> Ints:
    """Renumber from 0 in order of size."""
    most = int(code.max(initial=0))
    if most < max(_SPARSE * len(code), 1024):
        used = np.zeros(most + 1, np.bool_)
        used[code] = True
        return (np.cumsum(used) - 1)[code]
    return np.unique(code, return_inverse=True)[1].astype(np.int64)


def grouped(number: Numbers, within: Floats) -> Ints:
    """Return the order by number, and inside each by another column. Shape (n,) each.

    Examples
    --------
    >>> grouped(np.array([1, 0, 1]), np.array([3.0, 4.0, 2.0]))
    array([1, 2, 0])
    """
    if not len(number) or (np.diff(within) < 0).any():
        return np.lexsort((within, number))
    small = np.int16 if number.min() >= 0 and number.max() < _FEW else number.dtype
    return np.argsort(number.astype(small, copy=False), kind="stable")  # few numbers: by their digits


def first_match(key: Ints, values: Ints) -> Numbers:
    """Return the first row of ``key`` that equals each wanted value; -1 where none does.

    Negative values match nothing.

    Examples
    --------
    >>> first_match(np.array([5, 6, 5]), np.array([5, 7, -1]))
    array([ 0, -1, -1], dtype=int32)
    """
    rows_of_value = np.full(len(values), -1, np.int32)
    usable = values >= 0
    if not len(key) or not usable.any():
        return rows_of_value
    most = int(max(key.max(), values.max()))
    if most < max(_SPARSE * (len(key) + len(values)), 1024):
        table = np.full(most + 1, -1, np.int32)
        rows = np.flatnonzero(key >= 0)[::-1]
        table[key[rows]] = rows  # written backwards: the first row of a key stays
        rows_of_value[usable] = table[values[usable]]
        return rows_of_value
    order = np.argsort(key, kind="stable")
    at = np.searchsorted(key[order], values)
    inside = np.minimum(at, len(key) - 1)
    hit = usable & (at < len(key)) & (key[order[inside]] == values)
    rows_of_value[hit] = order[inside[hit]]
    return rows_of_value
