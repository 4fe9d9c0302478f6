"""Kinds of arguments of the Python functions: a value of its kind, or an error that says which that is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from tracetool.core.errors import BadInput

if TYPE_CHECKING:
    import polars as pl

    from tracetool.core.paths import PathLike
    from tracetool.replay.assumptions import Assumptions

_Each = TypeVar("_Each", bound="PathLike")
#: Letters of a value that an error repeats.
_LETTERS = 40


def number(name: str, value: Any) -> float | None:
    """Return a real number of any type (of numpy's, too), None where none is given.

    Parameters
    ----------
    name : str
        The argument, for the error.
    value : object
        What the caller gave.

    Raises
    ------
    BadInput
        If it is no finite number; true and false are none.

    Examples
    --------
    >>> import numpy as np
    >>> number("power_cap", np.float32(500)), number("power_cap", None)
    (500.0, None)
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadInput(f"{name}: {_shown(value)} is not a number", f"give one, e.g. {name}=1200")
    if not math.isfinite(value):
        raise BadInput(f"{name}: {value} is not a finite number", f"leave {name} out where it is not known")
    return float(value)


def positive(name: str, value: Any) -> float | None:
    """Return a number above zero, None where none is given.

    Raises
    ------
    BadInput
        If it is something else.
    """
    stated = number(name, value)
    if stated is not None and stated <= 0.0:
        raise BadInput(f"{name}: {stated:g} is not above zero", f"leave {name} out where it is not known")
    return stated


def text(name: str, value: Any) -> str | None:
    """Return a text, None where none is given.

    Raises
    ------
    BadInput
        If it is something else.
    """
    if value is None or isinstance(value, str):
        return value
    raise BadInput(f"{name}: {_shown(value)} is not a text", f'give one in quotes, e.g. {name}="..."')


def several(name: str, values: _Each | Iterable[_Each]) -> Sequence[_Each]:
    """Return several texts or paths; a single one is one of them, not its letters.

    Raises
    ------
    BadInput
        If they are something else.

    Examples
    --------
    >>> several("fail_on", "energy=2%"), several("fail_on", ["energy=2%", "time=5%"])
    (('energy=2%',), ('energy=2%', 'time=5%'))
    """
    if isinstance(values, str | os.PathLike):
        return (values,)
    stated: Any = values
    given: tuple[Any, ...] = tuple(stated) if isinstance(stated, Iterable) else (stated,)
    for value in given:
        if not isinstance(value, str | os.PathLike):
            raise BadInput(f"{name}: {_shown(value)} is not a text or path", f"give {name}=[...] of them")
    return given


def table_or_path(source: Any) -> PathLike | pl.DataFrame:
    """Return a run, path or table.

    Raises
    ------
    BadInput
        If it is something else.
    """
    import polars as pl

    if isinstance(source, str | os.PathLike | pl.DataFrame):
        return source
    fix = "tables are polars frames: polars.DataFrame(rows), polars.from_pandas(frame)"
    raise BadInput(f"{_shown(source)} is no run, path or table", fix)


def given_assumptions(
    calibration: PathLike | Sequence[PathLike],
    temperature: float | None,
    ambient: float | None,
    stack: str | None,
    operands: str | None,
) -> Assumptions:
    """Return the assumptions of a prediction from arguments of the names they have in every function.

    Raises
    ------
    BadInput
        If one is not of its kind, or not known.
    """
    from tracetool.replay.assumptions import Assumptions

    return Assumptions.read(
        several("calibration", calibration),
        number("temperature", temperature),
        number("ambient", ambient),
        text("stack", stack),
        text("operands", operands),
    )


def whole_number(name: str, value: Any) -> int | None:
    """Return a whole number of any type, None where none is given.

    Raises
    ------
    BadInput
        If it is none, or negative; true and false are none.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise BadInput(f"{name}: {_shown(value)} is not a whole number", f"give one, e.g. {name}=1")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return true or false, numpy's too.

    Raises
    ------
    BadInput
        If it is something else.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise BadInput(f"{name}: {_shown(value)} is neither True nor False", f"give {name}=True, or leave it out")


def path(name: str, value: Any) -> PathLike | None:
    """Return a path, None where none is given.

    Raises
    ------
    BadInput
        If it is something else.
    """
    if value is None or isinstance(value, str | os.PathLike):
        return value
    raise BadInput(f"{name}: {_shown(value)} is no path", f'give a text or a path, e.g. {name}="..."')


def zone(name: str, value: Any) -> str | None:
    """Return a time zone, None where none is given.

    Raises
    ------
    BadInput
        If there is no such zone; of logs in UTC, too, which need none.
    """
    if (named := text(name, value)) is not None:
        from tracetool.sources.telemetry.localtime import check_zone

        check_zone(named)
    return named


def tariff(name: str, value: Any) -> Any:
    """Return a tariff.

    Raises
    ------
    BadInput
        If it is something else.
    """
    from tracetool.tables.tariff import Tariff

    if isinstance(value, Tariff):
        return value
    raise BadInput(f"{name}: {_shown(value)} is not a tariff", "give tt.Tariff(price_per_kwh=...)")


def amounts(name: str, value: Any) -> Mapping[Any, Any] | None:
    """Return names with their numbers, None where none are given.

    Raises
    ------
    BadInput
        If it is no mapping, or a name has something else.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise BadInput(f"{name}: {_shown(value)} does not map names to numbers", f"give {name}={{NAME: 1.0}}")
    for key, stated in value.items():
        number(f"{name}: {key}", stated)
    return value


def given_amounts(name: str, value: Any) -> Mapping[Any, Any] | None:
    """Return names with their numbers, none of which is left open; None where none are given.

    Raises
    ------
    BadInput
        If it is no mapping, or a name has something else.
    """
    if (stated := amounts(name, value)) is not None:
        for key, amount in stated.items():
            not_none(f"{name}: {key}", amount)
    return stated


def pairs(name: str, value: Any) -> Mapping[Any, Any] | None:
    """Return names with two numbers each, or with None; None where none are given.

    Raises
    ------
    BadInput
        If it is no mapping, or a name has something else.
    """
    if not isinstance(value, Mapping):
        return amounts(name, value)
    for key, pair in value.items():
        if pair is not None and not (isinstance(pair, tuple | list) and len(pair) == 2):
            fault = f"{name}: {key}: {_shown(pair)} is no pair of amounts"
            raise BadInput(fault, f"give both runs': {name}={{UNIT: (1.0, 2.0)}}")
    for side in range(2):
        amounts(name, {k: pair and pair[side] for k, pair in value.items()})
    return value


def not_none(name: str, value: Any) -> Any:
    """Return a value that is given.

    Raises
    ------
    BadInput
        If it is None.
    """
    if value is None:
        raise BadInput(f"{name}: None is given", f"give {name}, or leave it out")
    return value


def refuse_device(source: PathLike, device: int | None, holds: str = "a run") -> None:
    """Refuse to choose one GPU of a log for what states which GPUs it ran on.

    Raises
    ------
    BadInput
        If one was chosen.
    """
    if device is not None:
        fix = "leave it out; energy by GPU: tracetool attribute RUN --by gpu"
        raise BadInput.in_file(source, f"is {holds}: --device is of a table of activities", fix)


def _shown(value: Any) -> str:
    """Return the start of a value as Python writes it, with its type where that says more."""
    return (
        repr(value)[:_LETTERS]
        if isinstance(value, str)
        else f"{type(value).__name__} {repr(value)[:_LETTERS]}"
    )
