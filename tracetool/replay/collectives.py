"""Collectives of several devices: which of them were one, how long each waited, how long it moved data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.replay.activities import Activities
from tracetool.replay.compiled import compiled


@dataclass(frozen=True)
class Meetings:
    """Collectives that met: g activities of m meetings. No data is complete before the last has come."""

    member: Ints  # (g,) activity
    meeting: Ints  # (g,) number of its meeting
    arrival_ns: Floats  # (m,) start of the last to come

    @property
    def arrived_ns(self) -> Floats:
        """When the last of its meeting had come, for each member. Shape (g,). [ns]"""
        return self.arrival_ns[self.meeting]


def meetings(work: Activities, alike: Ints) -> Meetings:
    r"""Return which collectives of different devices were one.

    Parameters
    ----------
    work : Activities
        The recorded activities of all ranks, on one clock.
    alike : array of int, shape (n,)
        Equal numbers for collectives of the same operation and size; -1 for everything else.

    Returns
    -------
    Meetings
        Empty where one device ran alone: of other ranks nothing is inferred.

    Notes
    -----
    The ranks of a collective all run while its data moves, :math:`\max s < \min e`, and a rank begins
    its next one only after that: so alike collectives of different devices that overlap in time are
    one. Each splits into its wait, :math:`\max s - s_i`, and its transfer, :math:`e_i - \max s`.
    """
    chosen = np.flatnonzero((alike >= 0) & (work.duration_ns > 0))
    none = np.zeros(0, np.int64)
    if len(np.unique(work.device[chosen])) < 2:
        return Meetings(none, none, np.zeros(0))
    order = chosen[np.lexsort((work.start_ns[chosen], alike[chosen]))]
    group = np.zeros(len(order), np.int64)
    _, device = np.unique(work.device[order], return_inverse=True)
    last_group = np.full(int(device.max()) + 1, -1, np.int64)
    compiled(_group, len(order))(
        alike[order], work.start_ns[order], work.end_ns[order], device, last_group, group
    )
    size = np.bincount(group)
    several = size[group] > 1
    order, group = order[several], np.unique(group[several], return_inverse=True)[1]
    arrival = np.full(int(group.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(arrival, group, work.start_ns[order])
    return Meetings(order, group, arrival)


def _group(alike: Ints, start: Floats, end: Floats, device: Ints, last_group: Ints, group: Numbers) -> None:
    """Number those that all overlap, at most one of each device, in the order they start."""
    number = -1
    least = 0.0
    for i in range(len(alike)):
        if i == 0 or alike[i] != alike[i - 1] or start[i] >= least or last_group[device[i]] == number:
            number += 1
            least = end[i]
        least = min(least, end[i])
        last_group[device[i]] = number
        group[i] = number
