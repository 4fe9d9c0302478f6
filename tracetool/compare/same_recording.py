"""Whether two runs are one recording: a run against itself, or against a copy of it."""

from __future__ import annotations

from tracetool.tables.run import Run


def recorded_traces(run: Run | None) -> frozenset[str]:
    """Return the sums of the traces that a run was made of; none of tables, baselines and redacted runs."""
    return _sums(run, traces_only=True)


def same_recording(base: Run, head: Run) -> str:
    """Return a sentence where both runs are one, or of the same traces; an empty one otherwise."""
    if base.path.resolve() == head.path.resolve():
        return "base and head are the same run: nothing was run twice"
    traces = recorded_traces(base)
    if not traces or traces != recorded_traces(head):
        return ""
    if _sums(base, traces_only=False) == _sums(head, traces_only=False):
        return "base and head are the same recording: nothing was run twice"
    return "base and head are the same recording with other power logs: nothing was run twice"


def _sums(run: Run | None, *, traces_only: bool) -> frozenset[str]:
    sources = () if run is None else run.info.get("sources") or ()
    listed = [s for s in sources if isinstance(s, dict) and (s.get("activities") or not traces_only)]
    sums = [s.get("sha256") for s in listed]
    return frozenset(s for s in sums if isinstance(s, str) and s) if all(sums) else frozenset()
