"""Share of every reading that each class of work fills, as one sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.filters import Boxes
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline, cut

#: Cells of edges and classes, readings and activities worked on at once, which bound memory. [1]
_CELLS, _READINGS, _ACTIVITIES = 1 << 20, (256, 8192), 100_000
#: Sums over all classes are kept where windows look at their cells this many times. [1]
_DENSE = 1.0


@dataclass(frozen=True)
class Design:
    """Share of each reading's filter in each class, then in gaps, then idle."""

    matrix: sparse.csr_matrix  # (n, k + 2) rows sum to 1
    seconds: Floats  # (k + 2,) time of each class within the log's span [s]
    launches: Ints  # (k + 2,) activities of each class that start within it

    @property
    def classes(self) -> int:
        """Number of classes of work, without gap and idle."""
        return int(self.matrix.shape[1]) - 2


def _expand(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Pairs (row, item) for items ``first[row]`` to ``last[row] - 1``."""
    count = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(first)), count)
    offset = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return row, first[row] + offset


def _work_part(readings: Readings, boxes: Boxes, timeline: Timeline) -> sparse.csr_matrix:
    """Return each reading's share of each class of work. Shape (n, k)."""
    time_s = readings.time_s
    limits = _limits(time_s, boxes, timeline)
    blocks = [_block(time_s[first:last], boxes, timeline) for first, last in pairwise(limits)]
    return sparse.vstack(blocks, format="csr") if blocks else sparse.csr_matrix((0, timeline.classes))


def _limits(time_s: Floats, boxes: Boxes, timeline: Timeline) -> list[int]:
    """Return where blocks of readings begin and end: few classes or activities let them be longer."""
    fewest, most = _READINGS
    each = int(np.clip(_CELLS // (2 * len(boxes.back_s) * (timeline.classes + 1)), fewest, most))
    before = np.searchsorted(timeline.start_s, time_s - boxes.reach_s)
    load = np.arange(len(time_s)) / each + before / _ACTIVITIES
    turns = np.flatnonzero(np.diff(np.floor(load), prepend=-1.0) > 0)
    spaced: list[int] = []
    for turn in turns.tolist():  # one a block
        if not spaced or turn - spaced[-1] >= fewest:
            spaced.append(turn)
    return [*spaced, len(time_s)] if len(time_s) else []


def _block(time_s: Floats, boxes: Boxes, timeline: Timeline) -> sparse.csr_matrix:
    """Return the shares of some readings: activities are cut where any of their windows opens or closes."""
    n, k = len(time_s), timeline.classes
    open_s, close_s = time_s - boxes.back_s[:, None], time_s - boxes.front_s[:, None]
    edges = np.unique(np.concatenate([open_s.ravel(), close_s.ravel()]))
    in_reach = _in_reach(timeline, open_s.ravel(), close_s.ravel())
    activity, cell, start_s, end_s = cut(timeline.start_s[in_reach], timeline.end_s[in_reach], edges)
    shared_s = timeline.share(end_s) - timeline.share(start_s)
    label = timeline.label[in_reach[activity]]
    cells = sparse.coo_matrix((shared_s, (cell, label)), (len(edges) - 1, k)).tocsr()
    first, last = np.searchsorted(edges, open_s), np.searchsorted(edges, close_s)
    weight = boxes.weight / (boxes.back_s - boxes.front_s)
    visits = int((cells.indptr[last] - cells.indptr[first]).sum())
    if visits > _DENSE * len(edges) * k:  # windows overlap and hold most classes: differences of sums
        until = np.zeros((len(edges), k))
        np.cumsum(cells.toarray(), axis=0, out=until[1:])
        shares = np.zeros((n, k))
        for share, begin, end in zip(weight, first, last, strict=True):
            shares += share * (until[end] - until[begin])
        return sparse.csr_matrix(shares)
    row, inside = _expand(first.ravel(), last.ravel())
    each = np.repeat(weight, n)[row]
    window = sparse.csr_matrix((each, (row % n, inside)), (n, len(edges) - 1))
    return window @ cells


def _in_reach(timeline: Timeline, open_s: Floats, close_s: Floats) -> Ints:
    """Return the activities between the first and last that a window overlaps, in order."""
    first = np.searchsorted(timeline.latest_end_s, open_s, side="right")
    last = np.maximum(np.searchsorted(timeline.start_s, close_s, side="left"), first)
    lowest = int(first.min(initial=len(timeline.start_s)))
    steps = np.zeros(int(last.max(initial=lowest)) - lowest + 1, np.int64)
    np.add.at(steps, first - lowest, 1)
    np.add.at(steps, last - lowest, -1)
    return lowest + np.flatnonzero(np.cumsum(steps[:-1]) > 0)


def span_of(readings: Readings, boxes: Boxes) -> tuple[float, float]:
    """Return the time a log covers: from the first filter's begin to the last reading. [s]"""
    return float(readings.time_s[0] - boxes.reach_s), float(readings.time_s[-1] - boxes.front_s.min())


def class_seconds(timeline: Timeline, start_s: float, end_s: float) -> tuple[Floats, Ints]:
    """Return each class's shared seconds within a span, and its launches; gap and idle last."""
    low, high = timeline.share(np.array([start_s, end_s]))
    overlap_s = np.minimum(timeline.share(timeline.end_s), high) - np.maximum(
        timeline.share(timeline.start_s), low
    )
    seconds = np.bincount(timeline.label, np.maximum(overlap_s, 0.0), minlength=timeline.classes)
    inside = (timeline.start_s < end_s) & (timeline.end_s > start_s)
    launches = np.bincount(timeline.label[inside], minlength=timeline.classes)
    ends = np.array([start_s, end_s])
    off = [float(np.diff(ramp(ends))[0]) for ramp in timeline.state_ramps()[1:]]
    gaps = int(((timeline.off_start_s < end_s) & (timeline.off_end_s > start_s)).sum())
    return np.append(seconds[: timeline.classes], off), np.append(launches[: timeline.classes], [gaps, 1])


def design(readings: Readings, boxes: Boxes, timeline: Timeline) -> Design:
    """Return the design matrix of a log over a timeline on the same clock.

    Notes
    -----
    The share of a moment in which several activities run is divided equally, so that rows sum to 1.
    What a window sees is summed from cells between the edges of all windows, in which each activity counts
    once: pairs of window and activity, of which a second of short kernels has tens of thousands, are never
    listed.
    """
    work = _work_part(readings, boxes, timeline)
    ramps = timeline.state_ramps()
    off = np.zeros((len(readings), 2))
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        for column, ramp in enumerate(ramps[1:]):
            overlap_s = ramp(readings.time_s - front) - ramp(readings.time_s - back)
            off[:, column] += overlap_s * weight / (back - front)
    matrix = sparse.hstack([work, sparse.csr_matrix(off)]).tocsr()
    seconds, launches = class_seconds(timeline, *span_of(readings, boxes))
    return Design(matrix, seconds, launches)
