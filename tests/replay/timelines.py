"""Random timelines: a host that launches onto streams, waits and copies, played by a plain simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from tracetool.replay.activities import Activities, HostCalls

LATENCY = 4_000.0
RETURN = 2_000.0
GAP = 1_000.0


@dataclass(frozen=True)
class Step:
    """One thing the host does: launch on a stream, or wait for everything."""

    stream: int  # -1: wait
    host_ns: float  # host time before it
    kernel_ns: float
    late_ns: float = 0.0  # beyond the launch's latency, for no reason that is recorded
    call_ns: float = 500.0  # what the launch call takes


def played(steps: list[Step]) -> tuple[Activities, HostCalls]:
    """Return the record a profiler would have made of the steps, by direct simulation."""
    now = 0.0
    free: dict[int, float] = {}
    starts, durations, queues, calls = [], [], [], []
    begin, took, waits = [], [], []
    for step in steps:
        now += step.host_ns
        begin.append(now)
        if step.stream < 0:
            drained = max(free.values(), default=-np.inf) + RETURN
            until = max(now + 1_000.0, drained)
            took.append(until - now)
            waits.append(True)
            now = until
            continue
        latency = max(LATENCY, step.call_ns + GAP) + step.late_ns
        start = max(now + latency, free.get(step.stream, -np.inf) + GAP)
        starts.append(start)
        durations.append(step.kernel_ns)
        queues.append(step.stream)
        calls.append(len(begin) - 1)
        free[step.stream] = start + step.kernel_ns
        took.append(step.call_ns)
        waits.append(False)
        now += step.call_ns
    order = np.argsort(starts, kind="stable")
    n = len(order)
    start = np.array(starts)[order]
    work = Activities(
        start_ns=start,
        duration_ns=np.array(durations)[order],
        device=np.zeros(n, np.int64),
        queue=np.array(queues, np.int64)[order],
        signature=np.arange(n),
        call=np.array(calls, np.int64)[order],
        in_graph=np.zeros(n, np.bool_),
        origin_ns=0,
    )
    m = len(begin)
    host = HostCalls(
        start_ns=np.array(begin),
        duration_ns=np.array(took),
        process=np.zeros(m, np.int64),
        thread=np.zeros(m, np.int64),
        waits=np.array(waits, np.bool_),
        copies=np.zeros(m, np.bool_),
        works=~np.array(waits, np.bool_),
    )
    return work, host


steps = st.lists(
    st.builds(
        Step,
        stream=st.sampled_from([0, 0, 0, 1, 2, -1]),
        host_ns=st.floats(2_000.0, 80_000.0),
        kernel_ns=st.floats(1_000.0, 200_000.0),
    ),
    min_size=1,
    max_size=40,
).filter(lambda made: any(s.stream >= 0 for s in made))
