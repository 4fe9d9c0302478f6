"""Fields of a configuration: each is checked as it is read, and a fault names it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from tracetool.core.errors import BadInput

#: No size of a model counts more: the largest vocabulary and feed-forward sizes are below 2e6.
_MOST: Final = 100_000_000
_MISSING: Final = "is missing"
_COMPLETE: Final = "give the config.json that came with the model, whole"


class Config:
    """One object of a configuration file.

    Parameters
    ----------
    values : mapping
        Field to value, as JSON gives them.
    source : str
        File or name, for messages.
    path : str
        Where in the file the object stands, e.g. ``text_config``.
    """

    def __init__(self, values: Mapping[str, Any], source: str, path: str = "") -> None:
        self.values = values
        self.source = source
        self.path = path

    def fault(self, field: str, fault: str, fix: str = "") -> BadInput:
        """Return the error for a field."""
        fix = fix or (_COMPLETE if fault == _MISSING else "")
        return BadInput.in_file(self.source, f"{self.path}.{field}: {fault}".lstrip("."), fix)

    def has(self, *fields: str) -> bool:
        """Whether one of the fields is there and not null."""
        return any(self.values.get(field) is not None for field in fields)

    def _value(self, fields: tuple[str, ...]) -> tuple[str, Any]:
        return next(
            ((f, self.values[f]) for f in fields if self.values.get(f) is not None), (fields[0], None)
        )

    def size(self, *fields: str, default: int | None = None, least: int = 1, most: int = _MOST) -> int:
        """Return a whole number: the first of several spellings that is there.

        Raises
        ------
        BadInput
            If none is there and there is no default, or it is not a whole number in range.
        """
        field, value = self._value(fields)
        if value is None:
            if default is None:
                raise self.fault(" or ".join(fields), _MISSING)
            return default
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(field, f"{_short(value)} is not a whole number")
        if not least <= value <= most:
            raise self.fault(field, f"{_short(value)} is not between {least} and {most}")
        return value

    def number(self, *fields: str, default: float, least: float = 0.0, most: float = 1e6) -> float:
        """Return a finite number in range, or the default."""
        field, value = self._value(fields)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.fault(field, f"{_short(value)} is not a number")
        if not least <= value <= most:  # not a number is in no range
            raise self.fault(field, f"{_short(value)} is not between {least:g} and {most:g}")
        return float(value)

    def scaled(self, size: int, *fields: str, default: float) -> int:
        """Return a size times a stated ratio of at most 100, as a whole number.

        Raises
        ------
        BadInput
            If the ratio is no number in range, or leaves nothing.
        """
        scaled = int(size * self.number(*fields, default=default, most=100.0))
        if not scaled:
            field, value = self._value(fields)
            raise self.fault(field, f"{_short(value)} of {size} is nothing")
        return scaled

    def flag(self, *fields: str, default: bool = False) -> bool:
        """Return true or false, or the default."""
        field, value = self._value(fields)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(field, f"{_short(value)} is neither true nor false")
        return value

    def text(self, *fields: str, default: str | None = None) -> str:
        """Return a text, or the default."""
        field, value = self._value(fields)
        if value is None:
            if default is None:
                raise self.fault(field, _MISSING)
            return default
        if not isinstance(value, str):
            raise self.fault(field, f"{_short(value)} is not text")
        return value

    def part(self, *fields: str) -> Config:
        """Return an object inside this one."""
        field, value = self._value(fields)
        if value is None:
            raise self.fault(field, _MISSING)
        if not isinstance(value, Mapping):
            raise self.fault(field, f"{_short(value)} is not an object")
        return Config(value, self.source, f"{self.path}.{field}".lstrip("."))

    def _list(self, fields: tuple[str, ...], most: int) -> tuple[str, tuple[Any, ...]]:
        field, value = self._value(fields)
        if value is None:
            return field, ()
        if not isinstance(value, list | tuple) or len(value) > most:
            raise self.fault(field, f"{_short(value)} is not a list of at most {most}")
        return field, tuple(value)

    def sizes(self, *fields: str, least: int = 0, most: int = 10_000) -> tuple[int, ...]:
        """Return a list of whole numbers; empty where it is not there."""
        field, values = self._list(fields, most)
        return tuple(
            Config({str(place): value}, self.source, f"{self.path}.{field}".lstrip(".")).size(
                str(place), least=least
            )
            for place, value in enumerate(values)
        )

    def texts(self, *fields: str, most: int = 100_000) -> tuple[str, ...]:
        """Return a list of texts; empty where it is not there."""
        field, values = self._list(fields, most)
        for place, value in enumerate(values):
            if not isinstance(value, str):
                raise self.fault(f"{field}.{place}", f"{_short(value)} is not text")
        return values


def _short(value: object) -> str:
    """Return a value as a message shows it: at most 40 characters."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    if isinstance(value, Mapping | list | tuple):
        return f"a {'list' if not isinstance(value, Mapping) else 'object'} of {len(value)}"
    text = repr(value[:40]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 42 else f"{text[:39]}..."
