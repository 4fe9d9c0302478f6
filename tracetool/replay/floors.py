"""How long each kind of edge takes by itself, and what counts as happening at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.replay.activities import Activities, HostCalls

#: Clock skew between host and device records that is still read as "at the same time". [ns]
SKEW_NS: Final = 1_000.0
#: How soon after the device finishes a waiting call returns, or a dependent kernel starts. [ns]
PROMPT_NS: Final = 15_000.0


@dataclass(frozen=True)
class Floors:
    """The least time each kind of edge takes by itself, low quantiles of the recording. [ns]"""

    queue_ns: float  # end of a kernel to the next on its queue
    launch_ns: float  # call to kernel on an idle queue
    return_ns: float  # end of device work to the return of the call that waited
    call_ns: float  # a waiting call when nothing is left to wait for


def least_times(work: Activities, calls: HostCalls, end: Floats, previous: Ints) -> Floors:
    """Return the floors of a recording; ``previous`` is what ran before each activity on its queue."""
    has = previous >= 0
    gap = work.start_ns[has] - end[previous[has]]
    launched = work.call >= 0
    latency = work.start_ns[launched] - calls.start_ns[work.call[launched]] if launched.any() else np.zeros(0)
    short = calls.duration_ns[calls.waits]
    return Floors(
        queue_ns=_low(gap[gap >= 0], 0.05, 0.0, 2_000.0),
        launch_ns=_low(latency[latency >= 0], 0.05, 1_000.0, 10_000.0),
        return_ns=_low(np.zeros(0), 0.05, 2_000.0, 2_000.0),
        call_ns=_low(short, 0.05, 1_000.0, 10_000.0),
    )


def _low(values: Floats, share: float, least: float, most: float) -> float:
    return float(np.clip(np.quantile(values, share), least, most)) if len(values) else least
