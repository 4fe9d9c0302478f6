"""Words of the field, each naming a structure: how a user's own kernel is read when no library's grammar knows it."""

from __future__ import annotations

import re
from itertools import pairwise

from tracetool.families.registry import families
from tracetool.kernels.reading import words


def _table() -> dict[str, tuple[int, str, str]]:
    """Return rank, family and op of each word, or pair of neighboring words joined; the lowest rank answers."""
    every = [(words.rank, name, words) for name, f in families().items() for words in f.words]
    ranked = sorted(every, key=lambda entry: entry[:2])
    by_word: dict[str, tuple[int, str, str]] = {}
    for rank, name, stated in ranked:
        for word in stated.words.split():
            by_word.setdefault(word.replace("_", ""), (rank, name, stated.op))
    return by_word


_BY_WORD = _table()
#: Words that say what a kernel does only as its first one, the verb: a set of levels is no copy.
_VERBS = frozenset(("set",))
_SILENT = re.compile(r"triton__?\d*d|kernel_?\d*$|[a-z]$|fusion|Kernel2?$|device_kernel$")
#: Names longer than this are no user's.
_LONGEST = 200


def by_words(name: str) -> tuple[str, str] | None:
    """Return family and op a plain name's words tell, None where they tell nothing.

    >>> by_words("matrixMulShared"), by_words("jacobi_step"), by_words("foo")
    (('gemm', 'gemm'), ('stencil', 'stencil'), None)
    """
    if _SILENT.match(name):
        return None
    head = name[:_LONGEST]
    parts = [w for w in words(head) if not w.isdigit()]
    parts = parts[:1] + [w for w in parts[1:] if w not in _VERBS]
    joined = [*parts, *(a + b for a, b in pairwise(parts)), head.lower()]
    hits = sorted(_BY_WORD[w] for w in joined if w in _BY_WORD)
    return hits[0][1:] if hits else None
