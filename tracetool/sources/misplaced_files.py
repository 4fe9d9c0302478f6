"""A profiler's file where a command takes a run or a table: what it is, and what makes it usable."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from tracetool.core.errors import TracetoolError

#: Commands that take traces themselves: what is wrong with one there is no mistake of its place.
TAKES_TRACES: Final = frozenset({"ingest", "fleet", "record"})
#: Formats of traces that are tables too: commands that take tables say better what is wrong with one.
_TABLES: Final = frozenset({"kernel_table"})


def ingest_first(file: str | os.PathLike[str]) -> str:
    """Return the hint to ingest a trace that was taken for something else; empty for any other file.

    >>> ingest_first("no/such/file")
    ''
    """
    from tracetool.sources.detect import detect  # reads every format: not for every start

    path = Path(file)
    try:
        if not path.is_file():
            return ""
        name, form = detect(path)
    except (TracetoolError, OSError, ValueError):
        return ""
    if form.holds != "trace" or name in _TABLES:
        return ""
    return f"it is a trace: make a run of it with tracetool ingest {shlex.quote(os.fspath(file))}"
