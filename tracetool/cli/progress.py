"""Progress on standard error: only on a terminal, only once a job takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tracetool.cli.safe_output import unguarded
from tracetool.core.escape import terminal
from tracetool.core.progress import Progress, Silent

PATIENCE_S = 2.0


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
    """Give a progress that draws one line on a terminal, and nothing anywhere else."""
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
    print(f"tracetool: {text}", file=sys.stderr, flush=True)


def say_nothing(text: str) -> None:
    """Print nothing of a step."""
