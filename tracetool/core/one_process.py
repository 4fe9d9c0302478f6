"""Work stays in the process it started in: one that was forked off is without the threads that do it."""

from __future__ import annotations

import os

from tracetool.core.errors import TracetoolError

#: The process that worked first, by number; empty before any did.
_STARTED: list[int] = []


class ForkedProcess(TracetoolError):  # noqa: N818 - reads as what it is at the raise
    """The process was forked from one that had been used: polars would deadlock in it."""


def stay_in_process() -> None:
    """Note which process works, and refuse to in one that was forked off it later.

    The library of the tables keeps threads from its first use on, and a fork copies none of them: in the
    child the first question to a table would wait for them and never end. A process forked off before any
    work, or spawned, has threads of its own.

    Raises
    ------
    ForkedProcess
        If this process is a fork of one that had worked.
    """
    process = os.getpid()
    if not _STARTED:
        _STARTED.append(process)
    if _STARTED[0] != process:
        raise ForkedProcess(
            "this process was forked from one that had used tracetool, and would wait forever",
            'start processes anew: multiprocessing.get_context("spawn")',
        )
