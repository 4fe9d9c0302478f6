"""Running the user's program: its exit code, its signals, and an end that can be insisted on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from tracetool.record.clocks import boot_ns
from tracetool.vocabulary.errors import BadInput

#: After an interrupt the program gets this long to end by itself, then this much more after each reminder:
#: a profiler may need minutes to write its report. A second Ctrl-C shortens the wait.
PATIENCE_S = (120.0, 60.0, 30.0)


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    exit_code: int  # as a shell counts: 128 + signal where a signal ended it
    start_ns: int
    end_ns: int
    interrupted: bool


def run_child(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[Any] | None = None,
) -> Ended:
    """Run a program to its end and return how it ended; its output goes to ``output``, ours by default.

    It shares the terminal and its signals with us. Ctrl-C reaches it directly; we wait while it ends, remind
    it with stronger signals when it does not, and return with ``interrupted`` set.

    Raises
    ------
    BadInput
        If it cannot be started.
    """
    start = boot_ns()
    try:
        process = subprocess.Popen(list(arguments), env=environment and dict(environment), stdout=output)
    except OSError as error:
        raise BadInput(
            f"{arguments[0]}: cannot be started: {error.strerror or error}", "check the command after --"
        ) from error
    interrupted = False
    reminders = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    patience = list(PATIENCE_S)
    deadline: float | None = None
    asked = time.monotonic()
    code: int | None = None
    while code is None:
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            code = process.wait(left)
        except KeyboardInterrupt:
            now = time.monotonic()
            if interrupted and now - asked > 0.5:  # asked again: do not wait any longer
                deadline = now
            elif not interrupted:
                # A terminal has told the whole group already; a lone `kill -INT` told only us.
                deadline = now + (PATIENCE_S[0] if _shares_terminal() else 1.0)
                patience = list(PATIENCE_S)
            interrupted, asked = True, now
        except subprocess.TimeoutExpired:
            _tell(process, reminders.pop(0) if reminders else signal.SIGKILL)
            deadline = time.monotonic() + (patience.pop(0) if patience else 5.0)
    end = boot_ns()
    return Ended(code if code >= 0 else 128 - code, start, end, interrupted)


def _shares_terminal() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _tell(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)
