"""Appending to the power log so that nothing is lost: whole lines, at once, kept while the disk is full."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

from tracetool.record.meter import Values
from tracetool.tables.power_log import COLUMNS, MAGIC

#: Lines kept in memory while the disk refuses them: about an hour at 50 a second.
MOST_WAITING = 200_000


class LogFile:
    """A power log being written.

    Every line goes to the system in one call as soon as it is made: once the call returns, it outlives the
    process. While the disk refuses (full, quota, removed), lines wait in memory and are tried again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.refused: str = ""
        self.dropped = 0
        self._waiting: deque[bytes] = deque()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._put(MAGIC)

    @property
    def waiting(self) -> int:
        """Lines that are not on disk yet."""
        return len(self._waiting)

    def reading(self, time_ns: int, read_ns: int, device: int, values: Values) -> None:
        """Append one reading."""
        values_text = ("" if (v := values.get(c)) is None else str(v) for c in _VALUE_COLUMNS)
        self._put(f"{time_ns},{read_ns},{device},{','.join(values_text)}")

    def note(self, what: str, **facts: Any) -> None:
        """Append what happened."""
        self._put("# " + json.dumps({"what": what, **facts}, ensure_ascii=True))

    def _put(self, line: str) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(line.encode() + b"\n")
        self.flush()

    def flush(self) -> bool:
        """Pass every waiting line to the system; return whether none waits any more."""
        while self._waiting:
            line = self._waiting[0]
            try:
                done = os.write(self._file, line)
            except OSError as error:
                self.refused = error.strerror or str(error)
                return False
            if done < len(line):  # a full disk may take half a line: the rest follows when there is space
                self._waiting[0] = line[done:]
            else:
                self._waiting.popleft()
        return True

    def sync(self) -> None:
        """Ask for the log to reach the disk itself."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self.refused = error.strerror or str(error)

    def close(self) -> None:
        """Write what waits and close."""
        self.flush()
        self.sync()
        os.close(self._file)


_VALUE_COLUMNS = tuple(COLUMNS)[3:]
