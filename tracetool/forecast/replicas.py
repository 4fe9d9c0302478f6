"""Attention replicas of one group: the busiest sets the time of a step, the others wait for it in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.families import names
from tracetool.forecast import passes
from tracetool.forecast.passes import Forward, Parallel
from tracetool.forecast.pricing import Row
from tracetool.forecast.steps import Step

#: What all replicas do together, whichever holds the requests.
_TOGETHER: Final = frozenset({names.MOE, names.COLLECTIVE})


def without_request(running: float, parallel: Parallel) -> tuple[str, ...]:
    """Return notes on attention replicas without a request, where fewer requests run than replicas."""
    if running >= parallel.dp:
        return ()
    waiting = parallel.dp - np.ceil(running)
    predicate = "holds no request and only takes" if waiting == 1.0 else "hold no request and only take"
    return (
        f"dp: {waiting:.0f} of {parallel.dp} attention replicas {predicate} part in the experts' exchange",
    )


def with_waiting(step: Step, forward: Forward, parallel: Parallel) -> Step:
    """Return a step of the busiest replica with the mean energy of a GPU: those with less to do wait at idle.

    Parameters
    ----------
    step : Step
        The pass as the busiest replica runs it.
    forward, parallel
        Its requests, and how they are divided.
    """
    if parallel.dp == 1 or not step.row_j.size:
        return step
    works = _shares(step.priced.rows, passes.Step(forward, parallel))
    idle_j = np.minimum(step.idle_w * step.row_s, step.row_j)
    row_j = idle_j + works * (step.row_j - idle_j)
    saved = float(step.row_j.sum() - row_j.sum())
    return replace(step, row_j=row_j, energy_j=step.energy_j - saved)


def _shares(rows: Sequence[Row], step: passes.Step) -> Floats:
    """Return a mean replica's share of each row of the busiest one. Shape (r,), at most 1. [1]

    Attention goes by requests and prompts by tokens; the rest of a step that decodes reads weights, whose
    bytes are the same for any number of requests.
    """
    forward, dp = step.forward, step.parallel.dp
    by_phase = {
        "prefill": _share(forward.prefill_requests, dp, step.prefill_requests),
        "decode": _share(forward.decode_requests, dp, step.decode_requests),
    }
    prompts = _share(step.all_tokens, dp, step.tokens)
    of_rest = prompts if forward.prefill_requests else min(forward.decode_requests / dp, 1.0)
    experts = {f"{row['module']}.quantize" for row in rows if row["op"] == names.MOE}
    return np.array(
        [
            1.0
            if row["op"] in _TOGETHER or row["module"] in experts
            else by_phase.get(str(row.get("phase")), of_rest)
            for row in rows
        ]
    )


def _share(total: float, replicas: int, most: float) -> float:
    return min(total / (replicas * most), 1.0) if most else 1.0
