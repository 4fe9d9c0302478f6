"""Numbers of a JSON file, one after another, beyond what 64 bits and a float hold: a run, or one line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NIGHTLY
from tests.damaged.fuzz import CASES, Case, read_changed

#: Of a document of more numbers than these every other one is tried, but for ``make fuzz``.
FEW = 40
LARGE = (10**25, -(10**60), 1e308)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the numbers of a document lie."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(value, (*path, key))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path


def put(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Put a value at a place; return what was there."""
    for key in path[:-1]:
        node = node[key]
    old, node[path[-1]] = node[path[-1]], value
    return old


def document_of(raw: bytes) -> Any:
    """Return a JSON document, None of other files."""
    try:
        return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    except ValueError:
        return None


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_a_number_too_large_is_read_or_refused(case: Case, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = case.make(tmp_path / "in")
    faults = []
    for file in [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file()):
        raw = file.read_bytes()
        if (document := document_of(raw)) is None:
            continue
        fields = {tuple(k if isinstance(k, str) else "*" for k in at): at for at in places(document)}
        tried = list(fields.values())[:: 1 if NIGHTLY or len(fields) <= FEW else 2]
        for turn, at in enumerate(tried):
            old = put(document, at, LARGE[turn % len(LARGE)])
            text = json.dumps(document).encode()
            file.write_bytes(gzip.compress(text) if raw[:2] == b"\x1f\x8b" else text)
            put(document, at, old)
            fault = read_changed(case, path, [str(at)], tmp_path / "run").fault
            faults += [f"{at}: {fault}"] if fault else []
        file.write_bytes(raw)
    assert not faults, "\n".join(faults)
