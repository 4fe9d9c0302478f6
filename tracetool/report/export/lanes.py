"""Lanes: slices of one track that run at once are drawn beside each other."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.compiled import compiled

#: Lanes of a track at most: GPUs run at most 128 kernels at once (CUDA programming guide, table of technical
#: specifications); slices beyond that share the last lane.
_MOST_LANES: Final = 128
#: Slices inside one another on a lane at most.
_MOST_DEPTH: Final = 64


def lanes_of(track: Ints, start_ns: Ints, end_ns: Ints, *, nested: bool = False) -> Ints:
    """Return the lane of each slice of its track, from 0.

    Parameters
    ----------
    track, start_ns, end_ns : array of int, shape (n,)
        Slices in the order of ``track``, then of start, then the longer one first. [ns]
    nested : bool
        Whether a slice may lie inside another one of its lane.

    Returns
    -------
    array of int, shape (n,)
        On a lane no slice begins before the one before it ended, unless it lies in it and ``nested``.
    """
    same = track[1:] == track[:-1]
    if not (same & (start_ns[1:] < end_ns[:-1])).any():
        return np.zeros(len(track), np.int64)
    assign = compiled(_lanes, 2 * len(track))
    return np.asarray(assign(track, start_ns, end_ns, nested, _MOST_LANES, _MOST_DEPTH))


def _lanes(track: Any, start_ns: Any, end_ns: Any, nested: bool, most: int, deepest: int) -> Any:
    lane_of = np.zeros(len(track), np.int64)
    ends = np.zeros((most, deepest), np.int64)  # of the slices still open, the innermost last
    depth = np.zeros(most, np.int64)
    for i in range(len(track)):
        if i and track[i] != track[i - 1]:
            depth[:] = 0
        for lane in range(most):
            while depth[lane] and ends[lane, depth[lane] - 1] <= start_ns[i]:
                depth[lane] -= 1
            free = depth[lane] == 0
            inside = (
                nested and not free and depth[lane] < deepest and end_ns[i] <= ends[lane, depth[lane] - 1]
            )
            if free or inside:
                ends[lane, depth[lane]] = end_ns[i]
                depth[lane] += 1
                lane_of[i] = lane
                break
        else:
            lane_of[i] = most - 1
    return lane_of
