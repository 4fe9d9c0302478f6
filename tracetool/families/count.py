"""Work of rows of any family."""

from __future__ import annotations

from functools import cache

import numpy as np

from tracetool.families.family import Family
from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Bools, Ints
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.registry import members
from tracetool.vocabulary.work import Work


@cache
def families() -> dict[str, Family]:
    """Return every family by name."""
    return members("tracetool.families.members", "FAMILY", Family)


def family_of(name: str) -> Family:
    """Return a family, the one of unknown kernels where the name is not known."""
    found = families()
    return found.get(name, found["unknown"])


def groups(rows: OperatorColumns) -> list[tuple[str, Ints]]:
    """Return the families whose laws price the rows, and the places of each.

    That is a row's own family, but for helpers of an operator, which say another in ``priced_as``.
    """
    family = np.asarray(rows.family, dtype=object)
    if "priced_as" in rows.columns:
        other = rows.text("priced_as")
        family = np.where(other == "", family, other)
    names = sorted(set(family.tolist()), key=str)
    return [(str(n), np.flatnonzero(family == n)) for n in names]


def known_shape(rows: OperatorColumns) -> Bools:
    """Return which rows carry what their family needs to count its work. Shape (n,)."""
    known = np.zeros(len(rows), dtype=np.bool_)
    finite: dict[str, Bools] = {}
    for name, places in groups(rows):
        sets = family_of(name).needs
        for column in {c for wanted in sets for c in wanted} - finite.keys():
            finite[column] = np.isfinite(rows.number(column))
        has = [np.all([finite[c][places] for c in wanted], axis=0) for wanted in sets]
        known[places] = np.any(has, axis=0)
    return np.asarray(known & (rows.text("shape_source") != "none"), dtype=np.bool_)


def count_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of each row.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of any families.
    gpu : Gpu
        Decides tiles (padding, re-reads) and which formats have matrix units.

    Returns
    -------
    Work
        Counts of shape (n,); zero where the shape is not known.
    """
    work = Work.of(len(rows))
    known = known_shape(rows)
    for name, places in groups(rows):
        chosen = places[known[places]]
        if chosen.size:
            work.put(chosen, family_of(name).count(rows.take(chosen), gpu))
    return work
