"""Data files of laws: every coefficient has bounds, a unit, a meaning and a source that can be looked up."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tracetool.families import coefficients
from tracetool.families.coefficients import read_coefficients
from tracetool.families.pricing import laws
from tracetool.hardware.number import UNITS

ROOT = Path(__file__).resolve().parents[2] / "tracetool"
FILES = sorted(
    path
    for path in (ROOT / "families").rglob("*.toml")
    if path.parent.name != "implementations" and path.name not in {"transfer.toml", "tuned.toml"}
)
REFERENCES = tomllib.loads((ROOT / "hardware" / "references.toml").read_text("utf-8"))
ENTRY = {"value": 0.5, "low": 0.1, "high": 1.0, "unit": "1", "kind": "prior", "source": "x", "meaning": "y"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_coefficient_has_a_unit_and_a_source(path: Path) -> None:
    package = ".".join(("tracetool", *path.parent.relative_to(ROOT).parts))
    for section, entries in read_coefficients(package, path.stem).items():
        for name, one in entries.items():
            where = f"{path.name} {section}.{name}"
            assert one.unit in UNITS | {"op"}, where
            assert one.source in REFERENCES or one.source.startswith("fit of "), where
            assert (one.kind == "fitted") == one.source.startswith("fit of "), where
            assert len(one.meaning) > 10, where


@pytest.mark.parametrize("name", sorted(laws()))
def test_a_law_holds_no_number_of_its_own(name: str) -> None:
    bare = [key for key, one in laws()[name].priors.items() if not one.source]
    assert not bare, f"not from a data file: {bare}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": None}, "missing unit"),
        ({"meaning": None}, "missing meaning"),
        ({"kind": "guess"}, "kind 'guess'"),
        ({"value": 2.0}, "outside its bounds"),
        ({"choices": [1, 2]}, "outside its bounds or choices"),
        ({"low": 0.5, "high": 0.5}, "a prior without low and high"),
        ({"spread": 1}, "mean nothing: spread"),
    ],
)
def test_an_entry_that_is_not_complete_is_an_error(change: dict[str, object], message: str) -> None:
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        coefficients._coefficient("a.toml: b.c", entry)


def test_a_choice_is_tried_and_not_moved() -> None:
    one = coefficients._coefficient("x", {**ENTRY, "value": 2, "choices": [1, 2, 4]})
    assert (one.low, one.high, one.choices, one.fitted) == (1.0, 4.0, (1.0, 2.0, 4.0), False)
