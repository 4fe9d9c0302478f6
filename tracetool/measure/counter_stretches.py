"""Gain of an energy counter over each stretch of work, as equations in the powers of the classes."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.measure.counter import counter_totals
from tracetool.measure.design_matrix import class_seconds, span_of
from tracetool.measure.observe import Observation
from tracetool.measure.power_log import PowerLog
from tracetool.measure.timeline import GAP_HOLD_S

#: Relative error between a usable counter and the sensor it integrates. [1] A prior.
_COUNTER_SHARE = 0.005
#: Time added before and after a stretch of work, so that a delayed counter includes all of it. [s] A prior.
_AROUND_S = 0.2
#: Stretches of work, the longest ones, for which the counter's increase is an equation. [1] For speed.
_MOST_STRETCHES = 64


def counted_stretches(observation: Observation, log: PowerLog | None) -> tuple[Floats, Floats, Floats] | None:
    """Return the counter's gain over each stretch of work as one equation in the powers, or None.

    A stretch in which the counter fell is one equation for each part without a fall.

    Returns
    -------
    seconds : array, shape (parts, k + 2)
        Time of each class of work, of gaps and of idle in each stretch. [s]
    energy : array, shape (parts,)
        What the counter gained. [J]
    deviation : array, shape (parts,)
        How far off that may be. [J]

    Notes
    -----
    Long idle time is left out: a GPU idles at more than one power (with and without a process's context, at
    several clocks), and what one level of idle misses would be put upon the work.
    """
    if log is None:
        return None
    first, last = span_of(observation.readings, observation.boxes)
    starts, ends = observation.timeline.stretches(GAP_HOLD_S)
    longest = np.sort(np.argsort(starts - ends, kind="stable")[:_MOST_STRETCHES])
    spans = [
        (max(start - _AROUND_S, first), min(end + GAP_HOLD_S, last))
        for start, end in zip(starts[longest], ends[longest], strict=True)  # at most _MOST_STRETCHES
    ]
    totals = [total for span in spans for total in counter_totals(log, *span)]
    if not totals:
        return None
    rows = [class_seconds(observation.timeline, begin, end)[0] for begin, end, _, _ in totals]
    energy, deviation = np.array([t[2] for t in totals]), np.array([t[3] for t in totals])
    return np.array(rows), energy, np.hypot(deviation, _COUNTER_SHARE * energy)
