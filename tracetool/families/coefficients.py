"""Read the coefficients of a folder's laws: one TOML beside each law, sections of numbers by name.

An entry holds ``value``, ``unit``, ``kind`` and ``source`` as in the files of ``hardware/`` and

low, high
    Bounds of a fit.
choices
    In place of bounds: sizes and habits of a library, which have no value in between; a fit tries each.
told
    Those of the choices that public source alone states: no fit tries them.
fitted
    Whether a fit moves it, true by default. One that is not keeps its value.
carried
    Whether it applies to another GPU, true by default. One that does not keeps its prior there.
pace
    Property of the chip it scales with on architectures without measurements: the rate of ``memory`` or
    ``l2``, whether all SMs share ``one_l2``, the kind of ``dram``, whether SMs multiply in ``pairs``; with
    ``tensor_memory`` the prior applies where that is new. None by default. A choice with the pace ``table``
    means, where it is not 0, that no GPU changes the kernel's steps.
meaning
    What it is, in one line.

``source`` is a name of ``hardware/references.toml`` or ``fit of <what>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

import tomli

from tracetool.families.law import Coefficient

_STATED = frozenset({"value", "unit", "kind", "source", "meaning"})
_KEYS = _STATED | {"low", "high", "choices", "told", "fitted", "carried", "pace"}
_PACES = frozenset({"", "memory", "l2", "one_l2", "dram", "pairs", "tensor_memory", "table"})
_KINDS = frozenset({"measured", "datasheet", "fitted", "prior"})


_Rates = TypeVar("_Rates")


@cache
def read_coefficients(package: str, name: str = "law") -> Mapping[str, Mapping[str, Coefficient]]:
    """Return the coefficients of a law's data file by section.

    Parameters
    ----------
    package : str
        Dotted name of the folder that holds it, ``__package__`` of the law.
    name : str
        Name of the file without its ending.

    Raises
    ------
    ValueError
        If an entry is not complete: a fault of the program, which the tests find.
    """
    document = tomli.loads((resources.files(package) / f"{name}.toml").read_text("utf-8"))
    return MappingProxyType({
        section: MappingProxyType(
            {key: _coefficient(f"{name}.toml: {section}.{key}", entry) for key, entry in entries.items()}
        )
        for section, entries in document.items()
    })  # fmt: skip


def values_of(section: Mapping[str, Coefficient]) -> Mapping[str, float]:
    """Return the values of a section's coefficients."""
    return MappingProxyType({key: coefficient.value for key, coefficient in section.items()})


def rates_of(kind: type[_Rates], given: Mapping[str, float], priors: Mapping[str, float]) -> _Rates:
    """Return rates of a kind, a dataclass of numbers: each as given, else its prior."""
    return kind(**{f.name: given.get(f.name, priors[f.name]) for f in fields(kind)})  # type: ignore[arg-type]


def _coefficient(where: str, entry: Mapping[str, Any]) -> Coefficient:
    if unknown := entry.keys() - _KEYS:
        raise ValueError(f"{where} has keys that mean nothing: {', '.join(sorted(unknown))}")
    if missing := _STATED - entry.keys():
        raise ValueError(f"{where} is missing {', '.join(sorted(missing))}")
    if entry["kind"] not in _KINDS:
        raise ValueError(f"{where} is of kind {entry['kind']!r}, not one of {', '.join(sorted(_KINDS))}")
    if entry.get("pace", "") not in _PACES:
        allowed = ", ".join(sorted(_PACES - {""}))
        raise ValueError(f"{where} keeps pace with {entry['pace']!r}, not one of {allowed}")
    value, choices = float(entry["value"]), tuple(float(choice) for choice in entry.get("choices", ()))
    low = min(choices) if choices else float(entry.get("low", value))
    high = max(choices) if choices else float(entry.get("high", value))
    if not low <= value <= high or (choices and value not in choices):
        raise ValueError(f"{where} is {value:g}, outside its bounds or choices")
    if entry["kind"] == "prior" and low == high:
        raise ValueError(f"{where} is a prior without low and high")
    return Coefficient(
        value,
        low,
        high,
        entry["unit"],
        fitted=bool(entry.get("fitted", not choices)),
        choices=choices,
        stated_choices=tuple(float(choice) for choice in entry.get("told", ())),
        carried=bool(entry.get("carried", True)),
        pace=str(entry.get("pace", "")),
        kind=entry["kind"],
        source=entry["source"],
        meaning=entry["meaning"],
    )
