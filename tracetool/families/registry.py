"""Work of rows of any family."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tracetool.core.arrays import Bools, Ints
from tracetool.core.operators import OperatorColumns, distinct_texts
from tracetool.core.registry import constants_inside
from tracetool.core.work import Work
from tracetool.families import names
from tracetool.families.spec import Family
from tracetool.hardware.gpu import Gpu


@cache
def families() -> dict[str, Family]:
    """Return every family by name, in the order lists show them."""
    listed = constants_inside("tracetool.families", "FAMILIES", Family, module="spec")
    return {family.name: family for family in sorted(listed, key=lambda family: family.place)}


def families_where(holds: Callable[[Family], bool]) -> list[str]:
    """Return the names of the families for which a condition is true.

    >>> families_where(lambda family: family.row_blocks)
    ['norm', 'softmax']
    """
    return [name for name, family in families().items() if holds(family)]


def family_of(name: str) -> Family:
    """Return a family, the one of unknown kernels where the name is not known."""
    by_name = families()
    return by_name.get(name, by_name[names.UNKNOWN])


def groups(rows: OperatorColumns) -> list[tuple[str, Ints]]:
    """Return the families whose laws price the rows, and the places of each.

    That is a row's own family, but for helpers of an operator, which say another in ``priced_as``.
    """
    distinct, place = rows.distinct_families
    if "priced_as" in rows.columns:
        priced_as = rows.text("priced_as")
        distinct, place = distinct_texts(np.where(priced_as == "", rows.family, priced_as))
    return [(name, np.flatnonzero(place == distinct.index(name))) for name in sorted(distinct)]


def known_shape(rows: OperatorColumns) -> Bools:
    """Return which rows carry what their family needs to count its work. Shape (n,)."""
    countable = np.zeros(len(rows), dtype=np.bool_)
    finite: dict[str, Bools] = {}
    for name, places in groups(rows):
        sets = family_of(name).needs
        for column in {c for needed in sets for c in needed} - finite.keys():
            finite[column] = np.isfinite(rows.number(column))
        for needed in sets:
            countable[places] |= np.all([finite[c][places] for c in needed], axis=0)
    return np.asarray(countable & (rows.text("shape_source") != "none"), dtype=np.bool_)


def count_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of each row.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of any families.
    gpu : Gpu
        Decides tiles (padding, re-reads) and which formats have tensor cores.

    Returns
    -------
    Work
        Counts of shape (n,); zero where the shape is not known.
    """
    work = Work.of(len(rows))
    countable = known_shape(rows)
    for name, places in groups(rows):
        chosen = places[countable[places]]
        if chosen.size:
            count = family_of(name).count
            assert count is not None, "a row of a family that counts nothing has no known shape"
            work.put(chosen, count(rows.take(chosen), gpu))
    return work
