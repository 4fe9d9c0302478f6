"""Compile a loop over millions of activities, and only then: small ones run as written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module, util
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

#: From this many loop turns in all, loading the compiler pays: it takes about a second of a core.
COMPILE_FROM = 500_000
_turns = [0]
#: What the compiler raises before anything runs, where what it keeps on disk is damaged or cannot be written.
_NOT_KEPT = frozenset({
    "UnpicklingError", "EOFError", "AttributeError", "ImportError", "IndexError", "KeyError", "ValueError",
})  # fmt: skip


def expect_turns(turns: int) -> None:
    """Begin to load the compiler beside what comes first, where that many ``turns`` will call for it."""
    if _turns[0] + turns >= COMPILE_FROM and "numba" not in sys.modules and util.find_spec("numba"):
        threading.Thread(target=import_module, args=("numba",), daemon=True).start()


@cache
def _compile(function: Callable[..., object]) -> Callable[..., object]:
    try:
        import numba
    except ImportError:  # a Python newer than the compiler: slower, the same result
        return function
    anew: Callable[..., object] = numba.njit(nogil=True)(function)
    try:
        machine_code: Callable[..., object] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep what was compiled
        return anew

    @wraps(function)
    def run(*arguments: object) -> object:
        nonlocal machine_code
        try:
            return machine_code(*arguments)
        except Exception as error:
            kept = isinstance(error, OSError) or type(error).__name__ in _NOT_KEPT
            if machine_code is anew or not kept:
                raise
            machine_code = anew
            return anew(*arguments)

    return run


def compiled(function: F, turns: int) -> F:
    """Return the function, compiled once this process has many ``turns`` of such loops behind it."""
    _turns[0] += turns
    return function if _turns[0] < COMPILE_FROM else _compile(function)  # type: ignore[return-value]
