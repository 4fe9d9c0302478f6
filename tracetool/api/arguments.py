"""Arguments of the Python functions: each is of its kind, or an error says which it should be."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from numbers import Real
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


def _shown(value: Any) -> str:
    """Return the start of a value as Python writes it, with its type where that says more."""
    return (
        repr(value)[:_LETTERS]
        if isinstance(value, str)
        else f"{type(value).__name__} {repr(value)[:_LETTERS]}"
    )
