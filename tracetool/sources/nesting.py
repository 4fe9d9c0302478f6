"""Which interval encloses which: one sort and pointer jumps, never a join of intervals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tracetool.vocabulary.arrays import Ints

NONE = -1


@dataclass(frozen=True)
class Nest:
    """Intervals of many threads, sorted once.

    Parameters
    ----------
    order : array of int, shape (n,)
        Row of each interval in the caller's order, sorted by group, start, longest first.
    group, start, end : array of int, shape (n,)
        In sorted order. [1, ns, ns]
    parent : array of int, shape (n,)
        Sorted place of the enclosing interval, -1 where there is none.
    """

    order: Ints
    group: Ints
    start: Ints
    end: Ints
    parent: Ints

    def depths(self) -> Ints:
        """Return how many intervals enclose each, in the caller's order. Shape (n,)."""
        depth = (self.parent >= 0).astype(np.int64)
        jump = self.parent.copy()
        while True:
            live = np.flatnonzero(jump >= 0)
            if not len(live):
                break
            depth_of = depth.copy()
            depth[live] = depth[live] + depth_of[jump[live]]
            jump[live] = jump[jump[live]]
        return self._back(depth)

    def parents(self) -> Ints:
        """Return the caller's row of the enclosing interval, -1 for none. Shape (n,)."""
        found = np.where(self.parent >= 0, self.order[self.parent], NONE)
        return self._back(found)

    def _back(self, values: Ints) -> Ints:
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def innermost(self, group: Ints, time: Ints) -> Ints:
        """Return the caller's row of the innermost interval open at each time, -1 for none.

        Parameters
        ----------
        group, time : array of int, shape (q,)
            Thread and instant. [1, ns]

        Returns
        -------
        array of int, shape (q,)
            Rows in the caller's order.
        """
        found = np.full(len(time), NONE, dtype=np.int64)
        if not len(self.start) or not len(time):
            return found
        order = None
        asked = group
        if (group != group[0]).any():
            order = np.argsort(group, kind="stable")
            asked = group[order]
        edges = [0, *(np.flatnonzero(asked[1:] != asked[:-1]) + 1).tolist(), len(asked)]
        for a, b in itertools.pairwise(edges):  # one thread after the other
            low, high = (
                np.searchsorted(self.group, asked[a], "left"),
                np.searchsorted(self.group, asked[a], "right"),
            )
            which = slice(a, b) if order is None else order[a:b]
            # The last interval that began before or at each instant.
            place = low + np.searchsorted(self.start[low:high], time[which], "right") - 1
            found[which] = np.where(place >= low, place, NONE)
        while True:
            shut = np.flatnonzero((found >= 0) & (self.end[np.maximum(found, 0)] < time))
            if not len(shut):
                break
            found[shut] = self.parent[found[shut]]
        return np.where(found >= 0, self.order[np.maximum(found, 0)], NONE)


def nest(group: Ints, start: Ints, end: Ints) -> Nest:
    """Sort intervals and find what encloses each.

    Parameters
    ----------
    group : array of int, shape (n,)
        Thread of each interval: only intervals of one group enclose each other.
    start, end : array of int, shape (n,)
        Closed at both ends. [ns]

    Notes
    -----
    The parent is the nearest earlier interval of the sort that ends no sooner. Candidates start at
    the place before and jump to their own candidate while they end too soon; all places jump at once,
    so a thousand siblings take ten rounds.
    """
    order = np.lexsort((-end, start, group))
    g, s, e = group[order], start[order], end[order]
    n = len(order)
    parent = np.arange(n, dtype=np.int64) - 1
    if n:
        first = np.ones(n, dtype=bool)
        first[1:] = g[1:] != g[:-1]
        parent[first] = NONE
        while True:
            short = np.flatnonzero((parent >= 0) & (e[np.maximum(parent, 0)] < e))
            if not len(short):
                break
            parent[short] = parent[parent[short]]
    return Nest(order.astype(np.int64), g, s, e, parent)
