"""All processes a program started, also those that left its process group or lost their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    group: int
    ended: bool


class Tree:
    """What is started while this is open; processes that lose their parent become our own children."""

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
