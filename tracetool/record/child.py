"""Running the user's program: its exit code, its signals, and an end that can be insisted on.

The end reaches all processes it started, also those that left its process group or lost their parent.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from tracetool.core.errors import BadInput
from tracetool.core.stop_signals import ENDING
from tracetool.record.clocks import boot_ns

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    group: int
    ended: bool


class Tree:
    """Processes started while this is open; those that lose their parent become our own children."""

    def __enter__(self) -> Self:
        """Begin."""
        _adopt_orphans(adopt=True)
        self._others = {p.pid for p in _processes() if p.parent == os.getpid()}
        return self

    def __exit__(self, *_: object) -> None:
        """Let orphans go to the system again."""
        _adopt_orphans(adopt=False)

    def send_signal(self, number: int) -> None:
        """Send a signal to the processes that share our group, as a terminal would; SIGKILL to all."""
        for process in self._members():
            if number == signal.SIGKILL or process.group == os.getpgrp():
                _send(process.pid, number)

    def end(self, seconds: float) -> None:
        """End what is left: ask, wait, kill. [s]"""
        deadline = time.monotonic() + seconds
        for process in self._members():
            _send(process.pid, signal.SIGTERM)
        while self._members() and time.monotonic() < deadline:
            time.sleep(0.02)
        for process in self._members():
            _send(process.pid, signal.SIGKILL)

    def _members(self) -> list[_Process]:
        """Return the living processes below us that were not there before."""
        children: dict[int, list[_Process]] = {}
        for process in _processes():
            children.setdefault(process.parent, []).append(process)
        members: list[_Process] = []
        parents = [os.getpid()]
        while parents:
            below = [p for p in children.get(parents.pop(), []) if p.pid not in self._others]
            members += below
            parents += [p.pid for p in below]
        return [p for p in members if not p.ended]


def _processes() -> list[_Process]:
    """Return all processes of this machine that can be seen."""
    processes = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            state, parent, group = stat.read_bytes().rpartition(b")")[2].split()[:3]
            process = _Process(int(stat.parent.name), int(parent), int(group), state in (b"Z", b"X"))
            processes.append(process)
    return processes


def _send(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _adopt_orphans(*, adopt: bool) -> None:
    """Make us, or no longer, the parent of processes below us that lose theirs (Linux 3.4 and later)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


_STOPS = (signal.SIGINT, *ENDING)
#: Outside the main thread no signal can be noted: look this often. [s]
_POLL_S = 0.05


class NotedSignals:
    """While open, SIGINT, SIGTERM, SIGHUP and the end of a child wake :meth:`wait` and do nothing else."""

    def __enter__(self) -> Self:
        """Begin."""
        self._numbers: list[int] = []
        self._ended = False
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
        """Give the signals back; a SIGTERM or SIGHUP that was noted is obeyed: later ones are ignored."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._noting:
            signal.set_wakeup_fd(self._wakeup_before, warn_on_full_buffer=False)
        if self._ended:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
        os.close(self._reader)
        os.close(self._writer)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number in _STOPS:
            self._numbers.append(number)
            self._ended |= number in ENDING

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


#: After an interrupt the program gets this long to end by itself, then this much more after each reminder:
#: a profiler may need minutes to write its report. A second Ctrl-C shortens the wait. [s]
PATIENCE_S = (120.0, 60.0, 30.0)
#: A signal sent to a whole group reaches the program too; one sent to us alone is handed on after this. [s]
HAND_ON_S = 1.0
#: What outlives its profiler after an interrupt is asked to end, and after this long it is killed. [s]
LEFT_BEHIND_S = 3.0


@dataclass(frozen=True)
class Ended:
    """End of a program: exit code, times and signal."""

    exit_code: int  # as a shell counts: 128 + signal where a signal ended it
    start_ns: int
    end_ns: int
    interrupted: bool
    stop_signal: int = 0  # the SIGINT, SIGTERM or SIGHUP that reached us, else 0


def run_child(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[Any] | None = None,
    profiler_signal: int | None = None,
) -> Ended:
    """Run a program to its end and return how it ended; its output goes to ``output``, ours by default.

    It shares the terminal and its signals with us. Ctrl-C reaches it directly; we wait while it ends, remind
    it with stronger signals when it does not, and return with ``interrupted`` set. A SIGINT, SIGTERM or
    SIGHUP sent to us alone is handed on, and then nothing the program started is left.

    Parameters
    ----------
    arguments : sequence of str
        The command.
    environment : mapping of str to str, optional
        Its environment, ours by default.
    output : file, optional
        Where its standard output goes.
    profiler_signal : int, optional
        What a profiler wants to write its result on, by default the signal that reached us.

    Raises
    ------
    BadInput
        If it cannot be started.
    """
    with NotedSignals() as signals, Tree() as tree:
        start = boot_ns()
        try:
            process = subprocess.Popen(list(arguments), env=environment and dict(environment), stdout=output)
        except OSError as error:
            raise BadInput(
                f"{arguments[0]}: cannot be started: {error.strerror or error}", "check the command after --"
            ) from error
        stop = _wait(process, signals, tree, profiler_signal)
        end = boot_ns()
        if stop:
            tree.end(LEFT_BEHIND_S)
    code = process.returncode
    return Ended(code if code >= 0 else 128 - code, start, end, bool(stop), stop)


def _wait(process: subprocess.Popen[bytes], signals: NotedSignals, tree: Tree, first: int | None) -> int:
    """Wait for the end and return the signal that asked for it, 0 where none did."""
    stop, stop_time_s = 0, 0.0
    reminders = [signal.SIGTERM, signal.SIGKILL]
    patience = list(PATIENCE_S)
    deadline: float | None = None
    while process.poll() is None:
        signals.wait(deadline)
        now = time.monotonic()
        for number in signals.take():
            if not stop:
                stop, stop_time_s = number, now
                reminders.insert(0, _stop_signal(number, first))
                # A terminal has signaled the whole group already; a lone `kill` only us.
                at_terminal = number == signal.SIGINT and _shares_terminal()
                deadline = now + (patience.pop(0) if at_terminal else HAND_ON_S)
            elif number == signal.SIGINT and now - stop_time_s > 0.5:  # asked again: do not wait any longer
                deadline = stop_time_s = now
        if deadline is not None and time.monotonic() >= deadline:
            number = reminders.pop(0) if reminders else signal.SIGKILL
            tree.send_signal(number)
            deadline = time.monotonic() + (patience.pop(0) if patience else 5.0)
    return stop


def _stop_signal(received: int, requested: int | None) -> signal.Signals:
    """Return the signal that ends the program: SIGINT may be ignored, as in a shell's background jobs."""
    number = signal.Signals(requested or received)
    if number == signal.SIGINT and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        return signal.SIGTERM
    return number


def _shares_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
