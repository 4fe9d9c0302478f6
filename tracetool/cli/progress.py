"""Progress on standard error: a line on a terminal for a job of more than two seconds, or ``--verbose``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tracetool.cli.safe_output import unguarded
from tracetool.core.escape import terminal
from tracetool.core.progress import Progress, Silent

PATIENCE_S = 2.0


def _peak_bytes() -> float | None:
    """Return the most memory this process held, None where the system does not state it. [bytes]"""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024.0


class Verbose:
    """Whether ``--verbose`` was given to the command that runs, and since when it runs."""

    asked = False
    start_s = 0.0


def verbose_step(text: str) -> None:
    """Print a step with the seconds since the command's start, if ``--verbose`` was given."""
    if Verbose.asked:
        seconds = time.monotonic() - Verbose.start_s
        with contextlib.suppress(OSError):  # nobody reads: the result is another stream's
            print(f"tracetool: {seconds:7.2f} s  {terminal(text, 200)}", file=sys.stderr, flush=True)


def verbose_end() -> None:
    """Print the time and the peak memory of the command, if ``--verbose`` was given."""
    if Verbose.asked:
        peak = _peak_bytes()
        verbose_step("done" if peak is None else f"done, peak memory {peak / 2**20:,.0f} MiB")


class _Steps:
    """A line for every step; one that only counts on, such as rows read, is printed once."""

    def __init__(self) -> None:
        self._last = ""

    def step(self, text: str, done: float | None = None) -> None:  # noqa: ARG002 - the share is for one line
        head, _, counted = text.rpartition(": ")
        step = head if counted[:1].isdigit() else text
        if step != self._last:
            self._last = step
            verbose_step(step)


class _Line:
    def __init__(self) -> None:
        self._start = time.monotonic()
        self._status: object | None = None

    def step(self, text: str, done: float | None = None) -> None:
        if time.monotonic() - self._start < PATIENCE_S:
            return
        share = f" {done:.0%}" if done is not None else ""
        screen = unguarded(sys.stderr)
        screen.write(f"\r\x1b[2K{terminal(text, 90)}{share}")
        screen.flush()
        self._status = True

    def clear(self) -> None:
        if self._status:
            screen = unguarded(sys.stderr)
            screen.write("\r\x1b[2K")
            screen.flush()


@contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """Yield a progress that draws one line on a terminal, prints steps with ``-v``, or shows nothing."""
    if Verbose.asked:
        yield _Steps()
        return
    if quiet or not sys.stderr.isatty():
        yield Silent()
        return
    line = _Line()
    try:
        yield line
    finally:
        line.clear()


def say_on_stderr(text: str) -> None:
    """Print one step on standard error."""
    with suppress(OSError):  # a terminal that hung up: the work goes on
        print(f"tracetool: {text}", file=sys.stderr, flush=True)


def say_nothing(text: str) -> None:
    """Print nothing of a step."""
