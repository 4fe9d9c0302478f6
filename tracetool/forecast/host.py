"""The host of a forecast: its time to issue operators one by one, or as it was stated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracetool.families import names
from tracetool.forecast.case import Case
from tracetool.forecast.pricing import Row
from tracetool.forecast.steps import HostTime
from tracetool.replay.host import host_costs


def eager_host(case: Case, rows: Sequence[Row], launches: float = 1.0) -> HostTime:
    """Return the host's time to issue rows one by one, beside the kernels; or the one the case states.

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
    counts: dict[str, float] = {}
    for row in rows:
        counts[str(row["op"])] = counts.get(str(row["op"]), 0.0) + math.ceil(float(row.get("count", 1.0)))
    other = costs.operator_s.get(names.OTHER, 0.0)
    issue = sum(costs.operator_s.get(op, other) * count for op, count in counts.items())
    return HostTime(beside_s=issue * launches + costs.start_s)
