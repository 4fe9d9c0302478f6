"""Signals that end the program: each unwinds the work as Ctrl-C does. Loads nothing but ``signal``.

They count from the program's first lines on, before anything else is loaded.
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # as in `typing`, which takes longer to load than Python takes to start
if TYPE_CHECKING:
    from typing import Any

#: SIGTERM, and SIGHUP where the system has it: a terminal or a connection that closes.
ENDING = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)


class Terminated(BaseException):
    """A signal other than Ctrl-C ends the work: exit 128 + its number. No library takes it for its own.

    Parameters
    ----------
    number : int, default: SIGTERM
        The signal.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(number)
        self.number = number


def number_of(error: BaseException) -> int:
    """Return the signal behind a ``KeyboardInterrupt`` or :class:`Terminated`."""
    return int(error.number if isinstance(error, Terminated) else signal.SIGINT)


def manner_of(number: int) -> str:
    """Return how a signal ended the work, in words."""
    return {int(signal.SIGTERM): "terminated", 1: "hung up"}.get(number, "interrupted")


def ignored() -> dict[int, Any]:
    """Let no signal stop what follows; return what :func:`restored` takes."""
    return {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *ENDING)}


def restored(before: dict[int, Any]) -> None:
    """Let signals be met as before :func:`ignored`."""
    for number, handler in before.items():
        if handler is not None:  # not one of Python's
            signal.signal(number, handler)


#: The signals that unwind the work here.
_met: set[int] = set()


def unwind_on_signals() -> None:
    """Let each signal of ``ENDING`` unwind the work; one that is ignored on purpose stays ignored."""
    _met.update(number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL)
    for number in _met:
        signal.signal(number, _unwind)


def _unwind(number: int, _: object) -> None:
    for each in _met:  # a second one must not stop the cleaning up
        signal.signal(each, signal.SIG_IGN)
    raise Terminated(number)
