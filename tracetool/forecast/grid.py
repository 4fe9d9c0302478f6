"""Values written as lists and ranges, and the cases they make together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracetool.core.errors import BadInput
from tracetool.forecast.case import COLUMNS, SETTINGS, TEXTS, read_settings

#: Most values of one range, and most cases of a grid: more take minutes to price.
_MOST_VALUES: Final = 2000
_MOST_CASES: Final = 5000
#: Fields with one value: a name or path may hold any sign.
_SINGLE: Final = frozenset({"model", "host"})
#: Share of a step that rounding may leave out at the end of a range. [1] Below any step written by hand.
_ROUNDING: Final = 1e-9


def several(name: str, value: Any) -> list[Any]:
    """Return the values of a field: a list as it is, a text ``1,8,64`` or ``900:1980:90`` expanded.

    Parameters
    ----------
    name : str
        Field, named in errors; a field of words has lists but no ranges.
    value : Any
        One value, a sequence of them, or a text.

    Raises
    ------
    BadInput
        If a range runs nowhere, an entry is empty, or there are too many.

    Examples
    --------
    >>> several("bs", "1,8:24:8"), several("gpu", "a100-sxm, h100-sxm"), several("tp", 2)
    (['1', 8.0, 16.0, 24.0], ['a100-sxm', 'h100-sxm'], [2])
    """
    if name in _SINGLE:
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        values = [one for entry in value for one in several(name, entry)]
    elif isinstance(value, str):
        values = [one for entry_text in value.split(",") for one in _entry(name, entry_text.strip())]
    else:
        return [value]
    if not 1 <= len(values) <= _MOST_VALUES:
        raise BadInput(f"{name}: {len(values)} values", f"give 1 to {_MOST_VALUES}")
    return list(dict.fromkeys(values))


def _entry(name: str, text: str) -> list[Any]:
    if not text:
        raise BadInput(f"{name}: an entry is empty", "e.g. 8, 1,8,64 or 900:1980:90")
    if name in TEXTS or ":" not in text:
        return [text]
    fix = "write LOW:HIGH:STEP, e.g. 900:1980:90"
    try:
        low, high, step = (float(number) for number in text.split(":"))
    except ValueError as error:
        raise BadInput(f"{name}: {text[:60]!r} is not a range", fix) from error
    if not (math.isfinite(low) and math.isfinite(high) and 0.0 < step < math.inf and low <= high):
        raise BadInput(f"{name}: the range {text[:60]!r} holds nothing", fix)
    count = (high - low) / step * (1.0 + _ROUNDING) + 1.0
    if count > _MOST_VALUES:
        raise BadInput(f"{name}: the range {text[:60]!r} holds {count:.0f} values", f"at most {_MOST_VALUES}")
    return [low + step * place for place in range(int(count))]


def expand(values: Mapping[str, Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the cases that lists and ranges make together, and the fields that vary.

    Parameters
    ----------
    values : mapping
        Fields of a case, each with one value or several; None where not given.

    Raises
    ------
    BadInput
        If a field is not one of a case, or there are too many cases.

    Examples
    --------
    >>> cases, varied = expand({"gpu": "h100-sxm", "tp": "1,2", "bs": [8, 16]})
    >>> len(cases), varied, cases[1]
    (4, ('tp', 'bs'), {'gpu': 'h100-sxm', 'tp': '1', 'bs': 16})
    """
    unknown = sorted(set(values) - set(COLUMNS))
    if unknown:
        raise BadInput(f"{unknown[0]}: is not a value of a case", f"known: {', '.join(COLUMNS)}")
    axes = {n: several(n, value) for n, value in values.items() if value is not None and n != SETTINGS}
    settings = read_settings(values.get(SETTINGS) or {})
    if both := sorted(set(settings) & set(axes)):
        raise BadInput(f"set: {both[0]} is no number of a GPU", f"use the option or column {both[0]}")
    axes |= {name: several(name, value) for name, value in settings.items()}
    varied = tuple(name for name, entries in axes.items() if len(entries) > 1)
    count = math.prod(len(entries) for entries in axes.values())
    if count > _MOST_CASES:
        sizes = " x ".join(f"{name} {len(axes[name])}" for name in varied)
        raise BadInput(f"{varied[0]}: {sizes} are {count} cases", f"ask for at most {_MOST_CASES}")
    cases = (dict(zip(axes, one, strict=True)) for one in itertools.product(*axes.values()))
    return [_with_settings(one, settings) for one in cases], varied


def _with_settings(case: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case with the numbers of the GPU it changes in one field."""
    if not settings:
        return case
    changed = {name: case[name] for name in settings}
    return {**{name: value for name, value in case.items() if name not in settings}, SETTINGS: changed}
