"""Long silences of a trace without launch calls: kernels picked from different moments, not one timeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tracetool.replay.activities import Activities

#: An idle time must last this long, [ns] ...
_LONG_NS: Final = 10e9
#: ... and this many times what all activities take together, to be no part of a timeline. [1]
_TIMES_WORK: Final = 100.0


@dataclass(frozen=True)
class Pauses:
    """Unexplained idle time that was left out."""

    count: int = 0
    total_ns: float = 0.0


def without_pauses(work: Activities) -> tuple[Activities, Pauses]:
    """Return the activities with idle time closed that the trace does not explain.

    Only where no activity has a launch call: a host seen to be idle is idle. An idle time counts from 10 s
    on and if it is a hundred times as long as all activities together; a dataset of kernels from
    several moments looks like that, a program at work does not.
    """
    if not len(work) or (work.call >= 0).any():
        return work, Pauses()
    order = np.argsort(work.start_ns, kind="stable")
    until = np.maximum.accumulate(work.end_ns[order])
    pause = np.concatenate([[0.0], work.start_ns[order][1:] - until[:-1]])
    pause[pause < max(_LONG_NS, _TIMES_WORK * float(work.duration_ns.sum()))] = 0.0
    if not pause.any():
        return work, Pauses()
    start = work.start_ns.copy()
    start[order] -= np.cumsum(pause)
    return replace(work, start_ns=start), Pauses(int((pause > 0).sum()), float(pause.sum()))
