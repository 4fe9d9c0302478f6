"""Number formats are known by our name and by every spelling profilers use."""

from __future__ import annotations

import pytest

from tracetool.core.dtype import BYTES, SPELLINGS, canonical_dtype


@pytest.mark.parametrize("name", BYTES)
def test_our_names_stand_for_themselves(name: str) -> None:
    assert canonical_dtype(name) == name
    assert canonical_dtype(f" {name.upper()} ") == name
    assert 0.4 < BYTES[name] <= 16


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.items())
def test_spellings_lead_to_our_names(spelling: str, name: str) -> None:
    assert spelling == spelling.lower()
    assert name in BYTES
    assert canonical_dtype(spelling) == name


@pytest.mark.parametrize("text", [None, "", " ", "Scalar", "float32x", "µ"])
def test_what_is_not_known_is_none(text: str | None) -> None:
    assert canonical_dtype(text) is None
