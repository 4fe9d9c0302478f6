"""The end by a signal: work unwinds at once; what does not within seconds is cut off and cleaned up after."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from tracetool.core.stop_signals import ENDING, Terminated, manner_of, number_of, unwind_on_signals
from tracetool.tables.library_output import release
from tracetool.tables.run_folder import clean_up_own
from tracetool.tables.scratch import put_in_place

#: One long call into a library may hold back the unwinding; after this long the process ends without. [s]
GRACE_S: Final = 3.0
#: A signal that was dropped comes again after this long: by then the destructor is over. Prior. [s]
_AGAIN_S: Final = 0.01
_patient = 0
#: What work that is under way keeps where it is stopped, in words; none where it keeps nothing.
_kept: Callable[[], str] | None = None


def install() -> None:
    """Let SIGTERM and SIGHUP unwind the work as Ctrl-C does, and see to it that each ends the process.

    Notes
    -----
    Python runs signal handlers between two of its own steps only, and a sort of millions of rows is one step.
    The signal's number comes through a pipe at once, to a thread that is not held up.
    """
    unwind_on_signals()
    sys.unraisablehook = _come_again
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), daemon=True).start()


@contextmanager
def patient() -> Iterator[None]:
    """Wait for the work to end, without a limit: a recording waits for its program and profiler."""
    global _patient  # noqa: PLW0603 - one process, one way to end
    _patient += 1
    try:
        yield
    finally:
        _patient -= 1


@contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """Say what the work below has kept, where it is cut off: ``kept`` returns it in words, at any time."""
    global _kept  # noqa: PLW0603 - one process, one way to end
    before, _kept = _kept, kept
    try:
        yield
    finally:
        _kept = before


def outcome() -> str:
    """Remove what work that was stopped left behind, and return what is there of it, in words."""
    with suppress(Exception):
        clean_up_own()
    with suppress(Exception):
        if _kept:
            return _kept()
    return f"{put_in_place[-1]} was written" if put_in_place else "nothing was written"


def _come_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal anew that came where Python drops exceptions, in a destructor say."""
    error = unraisable.exc_value
    if not isinstance(error, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(unraisable)
        return
    with suppress(ValueError):  # signals are met in the main thread alone
        unwind_on_signals()
    threading.Timer(_AGAIN_S, signal.raise_signal, (number_of(error),)).start()


def _watch(reader: int) -> None:
    while True:
        for number in os.read(reader, 64):
            if number in (signal.SIGINT, *ENDING) and not _patient:
                time.sleep(GRACE_S)
                if not _patient:
                    _cut_off(number)


def _cut_off(number: int) -> NoReturn:
    kept = outcome()
    with suppress(OSError):
        release()
        os.write(2, f"error: {manner_of(number)}; {kept}\n".encode())
    os._exit(128 + number)
