"""What a transfer is: the words of its name that say which way it goes or which algorithm it follows."""

from __future__ import annotations

from typing import Final

import polars as pl

from tracetool.families import names
from tracetool.families.registry import families_where

#: Activities of profilers, and what their names may say of a copy.
_ACTIVITIES: Final = families_where(lambda family: family.activity)
_COPY_WORDS: Final = ("htod", "dtoh", "h2d", "d2h", "ptop", "p2p", "host", "pcie", "peer", "pageable")
#: What names of collectives may say, as words and as they stand in a name.
_COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def transfer_kind() -> pl.Expr:
    """Return the ``kind`` of transfers: a collective's class or an activity, and words of its name.

    A word is added where the class does not hold it already: ``all_reduce``, ``memcpy htod pageable``.
    """
    listed = pl.col("activity").is_in(_ACTIVITIES)
    collective = ~listed & (
        (pl.col("family") == names.COLLECTIVE) | (pl.col("call_family") == names.COLLECTIVE)
    ).fill_null(value=False)
    stated = pl.when(pl.col("family") == names.COLLECTIVE).then(pl.col("op")).otherwise("activity")
    of_name = pl.col("name").str.to_lowercase()
    words = [
        pl.when(collective & _holds(of_name, word) & ~_holds(stated.fill_null(""), word)).then(pl.lit(word))
        for word in _COLLECTIVES
    ]
    words += [
        pl.when(listed & of_name.str.contains(word, literal=True)).then(pl.lit(word)) for word in _COPY_WORDS
    ]
    joined = pl.concat_str(stated, *words, separator=" ", ignore_nulls=True)
    return pl.when(joined == "").then(None).otherwise(joined).alias("kind")


def _holds(text: pl.Expr, word: str) -> pl.Expr:
    """Whether a text holds a word, whatever stands between its parts."""
    plain = text.str.to_lowercase().str.replace_all("[_-]", "")
    return plain.str.contains(word.replace("_", ""), literal=True)
