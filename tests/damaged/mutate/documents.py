"""Valid JSON of another shape: values of other types, keys gone or twice, surrogates without their half."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.damaged.mutate.cells import REALS, TEXTS, integer

_SURROGATES = ("\ud800", "k\udfff", "\udc00\ud800 gemm")
Place = tuple[Any, Any]


def change_json(path: Path, document: Any, draw: random.Random) -> str:
    """Change one value or key of a document in place."""
    places = list(_places(document))
    if not places:
        path.write_text(draw.choice(("[]", "{}", "null", "[[]]", '""', "0")))
        return "nothing in it"
    # half of the time at the outermost two levels: what lies there decides how all the rest is read
    outer = [p for p in places if p[2] <= 2]
    holder, key, _ = draw.choice(outer if draw.random() < 0.3 else places)
    step = _changed(holder, key, draw)
    text = json.dumps(document, ensure_ascii=True if _has_surrogate(step) else draw.random() < 0.5)
    if draw.random() < 0.05 and isinstance(key, str):
        text = text.replace(f'"{key}": ', f'"{key}": null, "{key}": ', 1)
        step += ", and that key twice"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return step


def _has_surrogate(step: str) -> bool:
    return "\\ud" in step


def _places(node: Any, depth: int = 0) -> list[tuple[Any, Any, int]]:
    found = []
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        found.append((node, key, depth + 1))
        found += _places(node[key], depth + 1)
    return found


def _value(old: Any, draw: random.Random) -> Any:  # noqa: PLR0911
    """Return something else than what stands there."""
    kind = draw.randrange(12)
    if kind == 0:
        return [old]
    if kind == 1:
        return {"x": old}
    if kind == 2:
        return str(old)
    if kind == 3:
        return draw.choice(([], {}, None, True, False, [[]], [None], {"": {}}))
    if kind == 4:
        return draw.choice(_SURROGATES)
    if kind == 5:
        return draw.choice(REALS)
    if kind == 6:
        return draw.choice((10**25, -(10**25), 2**64, 2**63, 10**400))
    if kind == 7 and isinstance(old, int):
        return draw.choice((-old, old + 0.5, old * 10**6))
    return draw.choice((integer(draw), draw.choice(TEXTS)))


def _changed(holder: Any, key: Any, draw: random.Random) -> str:
    old = holder[key]
    kind = draw.randrange(10)
    if kind == 0:
        del holder[key]
        return f"without {key!r}"
    if kind == 1 and isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), old)
        return f"item {key} twice"
    if kind == 2 and isinstance(holder, list):
        holder.reverse()
        return "a list backwards"
    if kind == 3 and isinstance(holder, dict):
        new = draw.choice((str(key).upper(), str(key) + "_", "", *_SURROGATES))
        holder[new] = holder.pop(key)
        return f"{key!r} called {new!a}"
    new = _value(old, draw)
    holder[key] = new
    return f"{key!r}: {old!a:.40} became {new!a:.60}"
