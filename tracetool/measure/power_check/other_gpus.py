"""Whether a GPU that the trace does not name drew what the work of another one explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tracetool.measure.power_check.clocks import follows
from tracetool.measure.power_check.finding import Finding, LogCase

#: Checks that fail where readings are of another GPU than the one that worked.
_OF_ANOTHER: Final = frozenset({"idle", "clock", "drift", "stuck"})


def renumbered(
    case: LogCase, failed: Sequence[Mapping[str, object]], others: Callable[[], Sequence[LogCase]]
) -> Finding | None:
    """Return that the readings of another GPU of the log follow the work of this one, which its own do not.

    A program that is shown some GPUs of a machine (``CUDA_VISIBLE_DEVICES``) counts them from 0, and so does
    its trace; a log counts all.

    Parameters
    ----------
    case : LogCase
        The GPU, as the trace and the log number it.
    failed : sequence of rows
        Its checks with the verdict ``unusable``.
    others : callable
        Returns the GPUs of the log without work in the trace.
    """
    if case.timeline is None or not any(row["check"] in _OF_ANOTHER for row in failed):
        return None
    beside = [replace(other, timeline=case.timeline) for other in others()]
    best = max(beside, key=follows, default=None)
    if best is None or not follows(best, better_than=case):
        return None
    reason = (
        f"the readings of GPU {best.device} follow this work: were GPUs counted anew (CUDA_VISIBLE_DEVICES)?"
        f" give a log of GPU {best.device} alone"
    )
    return Finding("identity", "unusable", reason, float(best.device), "1")
