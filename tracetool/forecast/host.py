"""The host of a forecast: its time to issue operators eagerly, from the model or as stated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.forecast.case import Case
from tracetool.forecast.pricing import Row
from tracetool.forecast.steps import HostTime
from tracetool.replay.host import host_costs
from tracetool.replay.recorded_host import RecordedHost, recorded_host
from tracetool.tables.run import Run

#: Least share of a step's operators that what repeats in a run holds, to be a step. [1] Libraries fuse two or
#: three operators into one kernel; layers hold a tenth or less of a step.
_SHORTEST: Final = 0.25


@cache
def host_of(path: str) -> RecordedHost:
    """Return the host of a recorded run.

    Raises
    ------
    BadInput
        If it is no run, or shows nothing of its host.
    """
    return recorded_host(Run.open(path))


def stated_host(case: Case, rows: Sequence[Row]) -> HostTime | None:
    """Return a host that the case states for steps of a serving engine; None where it states none.

    Parameters
    ----------
    case : Case
        The case.
    rows : sequence of Row
        Operators of a step, with ``count``.

    Raises
    ------
    BadInput
        If the run that is named holds no repeated steps, or what repeats is too short for one.
    """
    if case.host_us is not None:
        return HostTime(before_s=case.host_us * 1e-6)
    if case.host is None:
        return None
    host = host_of(case.host)
    if host.idle_s is None:
        raise BadInput.in_file(case.host, "holds no repeated steps", "give --host-us")
    launches = sum(float(row.get("count", 1.0)) for row in rows)
    if host.activities < _SHORTEST * launches:
        raise BadInput.in_file(
            case.host,
            f"{host.activities:.0f} kernels repeat, a step has {launches:.0f}: layers, not steps",
            "record several steps, or give --host-us",
        )
    return HostTime(before_s=host.idle_s, less_s=host.idle_s - host.low_s, more_s=host.high_s - host.idle_s)


def host_notes(case: Case) -> tuple[str, ...]:
    """Return notes on the host of the run that a case names."""
    if case.host is None:
        return ()
    host, texts = host_of(case.host), []
    if host.idle_s is not None:
        ends = f"{host.low_s * 1e6:.4g} to {host.high_s * 1e6:.4g}"
        texts.append(f"{host.idle_s * 1e6:.4g} us without a kernel in each of {host.steps} steps ({ends})")
    if host.issue is not None:
        texts.append(f"{host.issue:.3g} times the usual time to issue a launch")
    return (f"host of {case.host}: {'; '.join(texts)}",)


def eager_host(case: Case, rows: Sequence[Row], launches: float = 1.0) -> HostTime:
    """Return the host's time to issue rows one by one, beside the kernels; or as the case states it.

    Parameters
    ----------
    case : Case
        The case.
    rows : sequence of Row
        Operators of a pass, with ``count``.
    launches : float
        Launches over the operators listed. [1]
    """
    if case.host_us is not None:
        return HostTime(beside_s=case.host_us * 1e-6)
    costs = host_costs("eager")
    if case.host is not None:
        issue = host_of(case.host).issue
        if issue is None:
            raise BadInput.in_file(case.host, "holds too few launches, or graphs of them", "give --host-us")
        costs = costs.scaled(issue)
    counts: dict[str, float] = {}
    for row in rows:
        counts[str(row["op"])] = counts.get(str(row["op"]), 0.0) + math.ceil(float(row.get("count", 1.0)))
    usual_s = costs.operator_s.get(names.OTHER, 0.0)
    issue = sum(costs.operator_s.get(op, usual_s) * count for op, count in counts.items())
    return HostTime(beside_s=issue * launches + costs.start_s)
