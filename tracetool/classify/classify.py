"""Names to families and attributes: every distinct name is read once, by the first grammar that knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import polars as pl

from tracetool.classify.grammar import FLAGS, NUMBERS, TEXTS, Attributes, Grammar
from tracetool.classify.symbols import Symbol
from tracetool.vocabulary.registry import members

#: Output columns behind ``name``, in order.
COLUMNS: tuple[str, ...] = (*TEXTS, *NUMBERS, *FLAGS)
_UNKNOWN: Attributes = {"family": "unknown", "basis": "none"}


@cache
def grammars() -> tuple[Grammar, ...]:
    """Return every grammar of the folder, exact ones first."""
    found = members("tracetool.classify.grammars", "GRAMMAR", Grammar)
    return tuple(sorted(found.values(), key=lambda g: g.rank))


def read_name(name: str) -> Attributes:
    """Return what one kernel name states; family ``unknown`` where no grammar reads it.

    >>> read_name("ampere_sgemm_128x64_tn")["tile_m"], read_name("zzz")["family"]
    (128, 'unknown')
    """
    return read_symbol(Symbol(name))[0]


def read_symbol(symbol: Symbol) -> tuple[Attributes, Grammar | None]:
    """Return what a symbol states and the grammar that read it."""
    for grammar in grammars():
        found = grammar.read(symbol)
        if found is not None:
            return found, grammar
    return _UNKNOWN, None


def classify_names(names: Sequence[str | None]) -> pl.DataFrame:
    """Return the family and every attribute each name states.

    Parameters
    ----------
    names : sequence of str
        Kernel names, n of them, in any spelling; None counts as an empty name.

    Returns
    -------
    DataFrame, n rows in the order given
        ``name`` and :data:`COLUMNS`; null where the name states nothing. What each column means:
        :data:`tracetool.classify.grammar.MEANINGS`.
    """
    given = pl.DataFrame({"name": pl.Series(names, dtype=pl.String).fill_null("")})
    distinct = given["name"].unique(maintain_order=True)
    table = _table(distinct, [read_name(n) for n in distinct])
    return given.join(table, on="name", how="left", maintain_order="left")


def _table(names: pl.Series, read: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    rows = list(read)
    made: dict[str, pl.Series] = {"name": names}
    for columns, dtype in ((TEXTS, pl.String()), (NUMBERS, pl.Int64()), (FLAGS, pl.Boolean())):
        for column in columns:
            made[column] = pl.Series(column, [r.get(column) for r in rows], dtype=dtype)
    return pl.DataFrame(made)
