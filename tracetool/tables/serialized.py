"""Runs whose profiler let one kernel run at a time: their gaps and overlaps are not the program's."""

from __future__ import annotations

from typing import Final

from tracetool.tables.run import Run

#: What the reader of such a trace notes in the run, after the file's name.
SERIALIZED: Final = (
    "rocprof ran the kernels one after another: gaps and overlaps are the profiler's, not the program's"
)


def serialized_notes(run: Run) -> tuple[str, ...]:
    """Return the note on gaps and overlaps that the profiler made; empty for other runs."""
    noted = any(str(warning).endswith(SERIALIZED) for warning in run.info.get("warnings") or ())
    return (SERIALIZED,) if noted else ()
