"""The law that times each row: laws by name, and the choice each family makes among its own."""

from __future__ import annotations

from functools import cache
from itertools import chain

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.registry import constants_inside
from tracetool.families.law import Law
from tracetool.families.registry import families, family_of
from tracetool.hardware.gpu import Gpu


@cache
def laws() -> dict[str, Law]:
    """Return every law by name, in the order of the families they time."""
    by_name = {law.name: law for law in constants_inside("tracetool.families", "LAWS", Law)}
    used = dict.fromkeys(chain.from_iterable(family.laws for family in families().values()))
    return {name: by_name[name] for name in (*used, *(by_name.keys() - used.keys()))}


def split_by_law(family: str, rows: OperatorColumns, gpu: Gpu) -> list[tuple[Law, Ints]]:
    """Return each law that times some rows of a family, with the places of those rows.

    A name that is no family's is priced as an unknown kernel.
    """
    spec = family_of(family)
    if spec.choose is None:
        return [(laws()[spec.laws[0]], np.arange(len(rows)))]
    chosen = spec.choose(rows, gpu)
    places = [(laws()[name], np.flatnonzero(chosen == place)) for place, name in enumerate(spec.laws)]
    return [(law, chosen_rows) for law, chosen_rows in places if chosen_rows.size]
