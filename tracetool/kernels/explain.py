"""One name explained: its tokens, what each means, and what follows from them."""

from __future__ import annotations

import re
from typing import Any

from tracetool.kernels.classify import read_symbol
from tracetool.kernels.grammar import MEANINGS
from tracetool.kernels.symbols import Symbol

_WORDS = re.compile(r"[A-Za-z0-9]+(?:x\d+)*")
#: More tokens than this are template noise.
_MOST = 80


def explain_name(name: str) -> dict[str, Any]:
    """Return what a kernel name says, token by token.

    Returns
    -------
    dict
        ``name``, ``form`` (its one spelling), ``title`` and ``source`` of the grammar, ``tokens``
        (pairs of token and meaning, in order) and ``attributes`` (attribute, value, meaning).
    """
    symbol = Symbol(name)
    attributes, grammar = read_symbol(symbol)
    tokens: list[tuple[str, str]] = []
    if grammar is not None:
        compiled = [(re.compile(t.pattern), t.meaning) for t in grammar.tokens]
        text = symbol.scope + (f"<{symbol.inside}>" if symbol.inside else "")
        explained: set[str] = set()
        for word in _WORDS.finditer(text[:4096]):
            meaning = next((m for p, m in compiled if p.fullmatch(word[0])), None)
            if meaning and word[0] not in explained and len(tokens) < _MOST:
                explained.add(word[0])
                tokens.append((word[0], meaning))
    return {
        "name": name,
        "form": symbol.text,
        "title": grammar.title if grammar else "no grammar reads this name",
        "source": grammar.source if grammar else "-",
        "tokens": tokens,
        "attributes": [
            {"attribute": k, "value": attributes[k], "meaning": meaning}
            for k, meaning in MEANINGS.items()
            if attributes.get(k) is not None
        ],
    }
