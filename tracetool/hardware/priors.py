"""Priors and fitted spreads by name: numbers no GPU's file states, each with meaning, unit and source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

import tomli

from tracetool.core.errors import BadInput
from tracetool.hardware.number import KINDS, UNITS

_REQUIRED: Final = ("meaning", "unit", "kind", "source")


@dataclass(frozen=True)
class Prior:
    """One number, a table of numbers, or a table of (low, high) pairs, and what it rests on.

    ``values`` has the one key ``""`` where the entry is a single number.
    """

    name: str
    meaning: str
    unit: str
    kind: str
    source: str
    values: Mapping[str, tuple[float, ...]]


def prior_number(name: str) -> float:
    """Return a number by name, in the unit its entry states.

    Examples
    --------
    >>> prior_number("thermal.hottest")
    95.0
    """
    return all_priors()[name].values[""][0]


def prior_table(name: str) -> Mapping[str, float]:
    """Return a table of numbers by name.

    Examples
    --------
    >>> prior_table("power.dram")["hbm3"]
    50.0
    """
    return MappingProxyType({key: pair[0] for key, pair in all_priors()[name].values.items()})


def prior_bands(name: str) -> Mapping[str, tuple[float, float]]:
    """Return a table of (low, high) pairs by name."""
    return MappingProxyType({key: (pair[0], pair[1]) for key, pair in all_priors()[name].values.items()})


@cache
def all_priors() -> Mapping[str, Prior]:
    """Return every entry of ``priors.toml`` by its dotted name."""
    text = (resources.files(__package__) / "priors.toml").read_text("utf-8")
    return parse_priors("priors.toml", text)


def parse_priors(path: str, text: str) -> Mapping[str, Prior]:
    """Return the entries of a file of priors.

    Raises
    ------
    BadInput
        If the text is not TOML, or an entry has no meaning, unit, kind, source or number; the message names
        the entry.
    """
    try:
        document = tomli.loads(text)
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise BadInput.in_file(path, f"is not TOML: {error}") from error
    return MappingProxyType({name: _read(path, name, entry) for name, entry in _entries(path, "", document)})


def _entries(path: str, group: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, entry in table.items():
        name = f"{group}.{key}" if group else key
        if not isinstance(entry, Mapping):
            raise BadInput.in_file(path, f"{name} is not a table with {', '.join(_REQUIRED)} and value")
        if any(isinstance(inner, Mapping) and k != "values" for k, inner in entry.items()):
            yield from _entries(path, name, entry)
        else:
            yield name, entry


def _read(path: str, name: str, entry: Mapping[str, Any]) -> Prior:
    missing = [k for k in _REQUIRED if not (isinstance(entry.get(k), str) and entry[k].strip())]
    if ("value" in entry) == ("values" in entry):
        missing.append("value or values")
    if missing:
        raise BadInput.in_file(path, f"{name} is missing {', '.join(missing)}")
    if unknown := sorted(set(entry) - {*_REQUIRED, "value", "values"}):
        raise BadInput.in_file(path, f"{name} has {', '.join(unknown)}, which is read by nothing")
    if entry["unit"] not in UNITS:
        raise BadInput.in_file(path, f"{name} is in {entry['unit']!r}, a unit not in the closed list")
    if entry["kind"] not in KINDS:
        raise BadInput.in_file(path, f"{name} is of kind {entry['kind']!r}", f"one of {', '.join(KINDS)}")
    table = entry["values"] if "values" in entry else {"": entry["value"]}
    if not isinstance(table, Mapping) or not table:
        raise BadInput.in_file(path, f"{name}.values is not a table of numbers")
    values = {key: _numbers(path, f"{name}.{key}".rstrip("."), value) for key, value in table.items()}
    if len({len(pair) for pair in values.values()}) != 1:
        raise BadInput.in_file(path, f"{name} mixes numbers and [low, high] pairs")
    stated = {key: str(entry[key]) for key in _REQUIRED}
    return Prior(name=name, **stated, values=MappingProxyType(values))


def _numbers(path: str, name: str, value: Any) -> tuple[float, ...]:
    numbers = value if isinstance(value, list) and len(value) == 2 else [value]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise BadInput.in_file(path, f"{name} has the value {value!r}, which is not a number")
    return tuple(float(number) for number in numbers)
