"""A user's own kernels: read by the words of their name, and said to be (``basis`` is ``words``).

Only words that name a structure count; verbs of one line of arithmetic do too. A name without any stays unknown.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import by_words, typed
from tracetool.kernels.symbols import Symbol


def _read(match: re.Match[str], symbol: Symbol) -> Attributes | None:
    reading = by_words(symbol.head)
    if reading is None:
        return None
    return {"family": reading[0], "op": reading[1], "dtype": typed(symbol), "basis": "words", "library": None}


GRAMMAR = Grammar(
    library="",
    title="a user's own kernel, read by its words",
    source="words of the field, each naming a structure",
    gate=r".",
    rules=(Rule(r"\w", "other", sign=_read),),
    tokens=(Token(r"\w+", "word of the name"),),
    examples={"matrixMulShared(float*, float*, float*, int)": "gemm", "jacobi_step(double*, double*, int)": "stencil", "vectorAdd": "elementwise"},
    rank=90,
)  # fmt: skip
