"""The check of public functions: each argument is of the kind its annotation states, or an error says so."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from tracetool.api.arguments import (
    amounts,
    flag,
    given_amounts,
    not_none,
    number,
    pairs,
    path,
    several,
    table_or_path,
    tariff,
    text,
    whole_number,
    zone,
)
from tracetool.core.errors import BadInput
from tracetool.core.one_process import stay_in_process

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def _paths(name: str, value: Any) -> None:
    if not isinstance(value, Iterator):  # they can be read once, which their reader does
        several(name, value)


def _texts(name: str, value: Any) -> None:
    if isinstance(value, os.PathLike):
        text(name, value)
    if value is not None:
        _paths(name, value)


def _factors(name: str, value: Any) -> None:
    (given_amounts if isinstance(value, Mapping) else _texts)(name, value)


def _prior(name: str, value: Any) -> None:
    (given_amounts if isinstance(value, Mapping) else path)(name, value)


def _levels(name: str, value: Any) -> None:
    if whole_number(name, value) == 0:
        raise BadInput(f"{name}: 0 levels are none", f"give 1 or more, or leave {name} out for all")


def _table(_: str, value: Any) -> None:
    table_or_path(value)


def _model(_: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        table_or_path(value)


#: What is asked of an argument, by its annotation. An argument of another kind is checked where it is used.
CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "str": text,
    "float": number,
    "int": whole_number,
    "bool": flag,
    "PathLike": path,
    "str | PathLike": path,
    "PathLike | pl.DataFrame": _table,
    "PathLike | pl.DataFrame | Mapping[str, Any]": _model,
    "PathLike | Mapping[int | str, float]": _prior,
    "str | PathLike | Sequence[str | PathLike]": _paths,
    "Sequence[str]": _texts,
    "str | Sequence[str]": _texts,
    "Mapping[str, float] | Sequence[str]": _factors,
    "Mapping[str, float | None]": amounts,
    "Mapping[str, tuple[float, float] | None]": pairs,
    "Tariff": tariff,
}
#: Of arguments of one name everywhere: what else is asked of them.
_BY_NAME: Final[Mapping[str, Callable[[str, Any], Any]]] = {"tz": zone, "depth": _levels}


def public(job: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Return a function that works only where it can, and on arguments that are of their kinds.

    Its annotations say which those are; they are texts, as of every module here.

    Raises
    ------
    BadInput
        When it is called with an argument that is not of its kind.
    ForkedProcess
        When it is called in a process forked off one that had worked.

    Examples
    --------
    >>> @public
    ... def twice(clock: float) -> float:
    ...     return 2 * clock
    >>> twice("fast")
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: clock: 'fast' is not a number
    """
    signature = inspect.signature(job)
    asked: list[tuple[str, Callable[[str, Any], Any]]] = []
    for name, parameter in signature.parameters.items():
        kind = str(parameter.annotation)
        given = kind.removesuffix(" | None")
        if given == kind and kind in CHECKS:
            asked.append((name, not_none))
        if check := _BY_NAME.get(name, CHECKS.get(given)):
            asked.append((name, check))

    @functools.wraps(job)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
        stay_in_process()
        arguments = signature.bind(*args, **kwargs).arguments
        for name, check in asked:
            if name in arguments:
                check(name, arguments[name])
        return job(*args, **kwargs)

    return checked
