"""Running the user's program: its exit code, its signals, and an end that can be insisted on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from tracetool.core.errors import BadInput
from tracetool.record.clocks import boot_ns
from tracetool.record.process_tree import Tree
from tracetool.record.signals import NotedSignals

#: After an interrupt the program gets this long to end by itself, then this much more after each reminder:
#: a profiler may need minutes to write its report. A second Ctrl-C shortens the wait. [s]
PATIENCE_S = (120.0, 60.0, 30.0)
#: A signal sent to a whole group reaches the program too; one sent to us alone is handed on after this. [s]
HAND_ON_S = 1.0
#: What outlives its profiler after an interrupt is asked to end, and after this long it is killed. [s]
LEFT_BEHIND_S = 3.0


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    exit_code: int  # as a shell counts: 128 + signal where a signal ended it
    start_ns: int
    end_ns: int
    interrupted: bool
    stop_signal: int = 0  # the SIGINT or SIGTERM that reached us, else 0


def run_child(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[Any] | None = None,
    profiler_signal: int | None = None,
) -> Ended:
    """Run a program to its end and return how it ended; its output goes to ``output``, ours by default.

    It shares the terminal and its signals with us. Ctrl-C reaches it directly; we wait while it ends, remind
    it with stronger signals when it does not, and return with ``interrupted`` set. A SIGINT or SIGTERM sent
    to us alone is handed on, and then nothing the program started is left.

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
                # A terminal has told the whole group already; a lone `kill` told only us.
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
    """Return what ends the program: SIGINT may be ignored, as in a shell's background jobs."""
    number = signal.Signals(requested or received)
    if number == signal.SIGINT and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        return signal.SIGTERM
    return number


def _shares_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
