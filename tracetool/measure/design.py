"""Which share of every reading each class of work fills, as one sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.filters import Boxes
from tracetool.measure.readings import Readings
from tracetool.measure.timeline import Timeline

#: Pairs of reading and activity worked on at once, to bound memory.
_PAIRS = 20_000_000
#: Readings times classes up to which shares are summed in a plain array: 64 MB, and nothing is sorted.
_CELLS = 1 << 23


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
    shape = (len(readings), timeline.classes)
    total = sparse.csr_matrix(shape)
    cells = shape[0] * shape[1]
    plain = np.zeros(cells if cells <= _CELLS else 0)
    from_s, to_s = timeline.share(timeline.start_s), timeline.share(timeline.end_s)
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        open_s, close_s = readings.time_s - back, readings.time_s - front
        open_v, close_v = timeline.share(open_s), timeline.share(close_s)
        first = np.searchsorted(close_s, timeline.start_s, side="right")
        last = np.searchsorted(open_s, timeline.end_s, side="left")
        size = np.cumsum(np.maximum(last - first, 0))
        chunks = np.searchsorted(size, np.arange(_PAIRS, (size[-1] if len(size) else 0) + _PAIRS, _PAIRS))
        begin = 0
        for end in np.minimum(chunks + 1, len(size)):
            activity, reading = _expand(first[begin:end], last[begin:end])
            activity += begin
            shared = np.minimum(to_s[activity], close_v[reading]) - np.maximum(
                from_s[activity], open_v[reading]
            )
            value = np.maximum(shared, 0.0) * (weight / (back - front))
            label = timeline.label[activity]
            if len(plain):
                plain += np.bincount(reading * shape[1] + label, value, minlength=cells)
            else:
                total = total + sparse.coo_matrix((value, (reading, label)), shape).tocsr()
            begin = int(end)
    return sparse.csr_matrix(plain.reshape(shape)) if len(plain) else total


def span_of(readings: Readings, boxes: Boxes) -> tuple[float, float]:
    """Return the time a log speaks of: from the first filter's begin to the last reading. [s]"""
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
    An activity meets the readings between two binary searches; no loop runs over activities.
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
