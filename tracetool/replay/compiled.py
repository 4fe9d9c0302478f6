"""Compile a loop over millions of activities, and only then: small ones run as written."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

#: Below this many loop turns the plain function is quicker than loading the compiler.
COMPILE_FROM = 200_000


@cache
def _compile(function: Callable[..., object]) -> Callable[..., object]:
    import numba

    made: Callable[..., object] = numba.njit(cache=True, nogil=True)(function)
    return made


def compiled(function: F, turns: int) -> F:
    """Return the function, compiled where it will make many ``turns`` of its loop."""
    return function if turns < COMPILE_FROM else _compile(function)  # type: ignore[return-value]
