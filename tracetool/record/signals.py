"""SIGINT and SIGTERM noted instead of raised: none falls between starting a program and waiting for it."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Self

_STOPS = (signal.SIGINT, signal.SIGTERM)
#: Outside the main thread no signal can be noted: look this often. [s]
_POLL_S = 0.05


class NotedSignals:
    """While open, SIGINT, SIGTERM and the end of a child wake :meth:`wait` and do nothing else."""

    def __enter__(self) -> Self:
        """Begin."""
        self._numbers: list[int] = []
        self._terminated = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._before = {}
        self._noting = True
        try:
            # The byte is written as the signal arrives. A handler in Python runs between two of its steps
            # only, so a signal that came just before the call of select would not end it.
            self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            for number in (*_STOPS, signal.SIGCHLD):
                if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        except ValueError:  # not the main thread
            self._noting = False
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back; a SIGTERM that was noted has been obeyed, and repeats of it are ignored."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._noting:
            signal.set_wakeup_fd(self._wakeup_before, warn_on_full_buffer=False)
        if self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(self._reader)
        os.close(self._writer)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number in _STOPS:
            self._numbers.append(number)
            self._terminated |= number == signal.SIGTERM

    def wait(self, deadline: float | None) -> None:
        """Wait for a signal or the end of a child, until ``deadline`` on the monotonic clock at most. [s]"""
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._noting:
            seconds = _POLL_S if seconds is None else min(seconds, _POLL_S)
        if select.select([self._reader], [], [], seconds)[0]:
            with suppress(OSError):
                os.read(self._reader, 4096)

    def take(self) -> list[int]:
        """Return the stop signals since the last call."""
        numbers, self._numbers = self._numbers, []
        return numbers
