"""The last place text passes on its way to a terminal or a CI log, whatever command wrote it.

Commands escape names where they lay them out. What one of them forgets, and what only becomes the start of
a line once a table is wrapped, is caught here.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from tracetool.core import escape


class GuardedStream:
    """A text stream that lets through printable text only, and no line that a CI runner would obey."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw
        self._at_start = True

    def write(self, text: str) -> int:
        """Write text made harmless; return the number of characters taken."""
        styled = bool(os.environ.get("FORCE_COLOR")) or self.raw.isatty()
        self.raw.write(escape.lines(text, at_start=self._at_start, styled=styled))
        if text:
            self._at_start = not text.rpartition("\n")[2].strip()
        return len(text)

    def writelines(self, parts: list[str]) -> None:
        """Write several texts."""
        for part in parts:
            self.write(part)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard standard output and standard error within the block."""
    before = sys.stdout, sys.stderr
    out, err = (cast("TextIO", s if isinstance(s, GuardedStream) else GuardedStream(s)) for s in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        if sys.stdout is out:
            sys.stdout = before[0]
        if sys.stderr is err:
            sys.stderr = before[1]


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream itself: for commands to a CI runner and for moving a terminal's cursor."""
    return stream.raw if isinstance(stream, GuardedStream) else stream
