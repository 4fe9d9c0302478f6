"""The device timeline as intervals of classes, and time integrals over it without loops.

Where launches overlap on several streams each gets an equal share of the moment, so that all classes,
gaps and idle time add up to wall time exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tracetool.core.arrays import Floats, Ints

#: Off time up to this long after an activity is a gap (clocks still high); the rest is idle. [s]
GAP_HOLD_S = 1.0
STATES = ("active", "gap", "idle")
#: A burst's power differs for this long after it begins, and what follows it for this long after. [s]
YOUNG_S = 0.2
#: Its last blocks leave the GPU half empty. [s]
LATE_S = 0.1
#: Classes of time without activity: soon after one, clocks still high, and later or outside the trace.
ACTIVE_IDLE, IDLE = "(active idle)", "(idle)"


@dataclass(frozen=True)
class Ramp:
    """A non-decreasing piecewise linear function of time, given at its corners."""

    time_s: Floats  # (m,) increasing
    value_s: Floats  # (m,)

    def __call__(self, at_s: Floats) -> Floats:
        """Return its value, constant outside the corners."""
        return np.interp(at_s, self.time_s, self.value_s)


@dataclass(frozen=True)
class Timeline:
    """Activities of one device with a class each, and the idle times between them."""

    start_s: Floats  # (n,) [s]
    end_s: Floats  # (n,)
    label: Ints  # (n,) class of each activity, 0 to classes - 1
    classes: int
    share: Ramp  # integral of 1 / (activities running)
    busy: Ramp  # integral of (any running)
    off_start_s: Floats  # (g,) gaps and idle stretches between merged activities, by start
    off_end_s: Floats  # (g,)
    jitter_s: float = 0.0  # how far off each start and end may be [s]

    @property
    def span_s(self) -> tuple[float, float]:
        """First start and last end; (0, 0) without activities."""
        return (float(self.start_s.min()), float(self.end_s.max())) if len(self.start_s) else (0.0, 0.0)

    @cached_property
    def latest_end_s(self) -> Floats:
        """The latest end of each activity and those before it. Shape (n,). [s]"""
        return np.maximum.accumulate(self.end_s)

    @cached_property
    def edges_s(self) -> Floats:
        """The moments where activity comes or goes, sorted. [s]"""
        starts = self.start_s[:1] if len(self.start_s) else np.zeros(0)
        ends = self.off_end_s[np.isfinite(self.off_end_s)]
        return np.sort(np.concatenate([starts, self.off_start_s, ends]))

    def stretches(self, apart_s: float) -> tuple[Floats, Floats]:
        """Return begins and ends of stretches of activity that idle times longer than a limit part. [s]

        Examples
        --------
        >>> work = build_timeline(np.array([0.0, 1.5, 9.0]), np.array([1.0, 2.0, 9.5]), np.zeros(3, int), 1)
        >>> work.stretches(1.0)
        (array([0., 9.]), array([2. , 9.5]))
        """
        if not len(self.start_s):
            return np.zeros(0), np.zeros(0)
        first, last = self.span_s
        inside = (self.off_start_s > first) & (self.off_end_s < last)
        long = inside & (self.off_end_s - self.off_start_s > apart_s)
        return np.append(first, self.off_end_s[long]), np.append(self.off_start_s[long], last)

    def within(self, start_s: float, end_s: float) -> Timeline:
        """Return the activities that touch a span, whole."""
        keep = (self.end_s > start_s) & (self.start_s < end_s)
        return build_timeline(
            self.start_s[keep], self.end_s[keep], self.label[keep], self.classes, self.jitter_s
        )

    def state_ramps(self) -> tuple[Ramp, Ramp, Ramp]:
        """Return the integrals of active, gap and idle time; their sum is wall time."""
        return self._states

    @cached_property
    def _states(self) -> tuple[Ramp, Ramp, Ramp]:
        gap_end = np.minimum(self.off_end_s, self.off_start_s + GAP_HOLD_S)
        corners = np.empty(2 * len(gap_end) + 2)
        corners[0] = self.busy.time_s[0] - 1.0 if len(self.busy.time_s) else 0.0
        corners[1:-1:2], corners[2:-1:2] = self.off_start_s, gap_end
        corners[-1] = corners[-2] + 1.0
        values = np.zeros_like(corners)
        values[2:-1:2] = np.cumsum(gap_end - self.off_start_s)
        values[3:-1:2] = values[2:-2:2]
        values[-1] = values[-2]
        gap = Ramp(corners, values)
        far = 1e7  # idle time must grow outside the activities too: four months either way
        ends = ([corners[0] - far], [corners[-1] + far])
        # Both are sorted already: a stable sort merges them, which is several times quicker than sorting.
        times = np.sort(np.concatenate([ends[0], self.busy.time_s, corners, ends[1]]), kind="stable")
        times = times[np.append(np.diff(times) > 0, True)]
        idle = Ramp(times, (times - times[0]) - self.busy(times) - gap(times))
        return self.busy, gap, idle

    @cached_property
    def burst_ramps(self) -> list[Ramp]:
        """Integrals of time before anything ran, just after a burst began, before its end, and after it."""
        ends = self.off_start_s
        starts = np.concatenate([self.start_s[:1], self.off_end_s[:-1]])
        if not len(ends):
            return []
        ramps = []
        late = np.maximum(starts + YOUNG_S, ends - LATE_S)
        spans = (
            (starts[:1] - 1e7, starts[:1]),  # before anything ran: clocks are lower than after
            (starts, np.minimum(ends, starts + YOUNG_S)),
            (np.minimum(late, ends), ends),
            (ends, np.minimum(np.append(starts[1:], np.inf), ends + YOUNG_S)),
        )
        for open_s, stop in spans:
            corners = np.empty(2 * len(open_s))
            corners[0::2], corners[1::2] = open_s, stop
            values = np.zeros(2 * len(open_s))
            values[1::2] = np.cumsum(stop - open_s)
            values[2::2] = values[1:-1:2]
            ramps.append(Ramp(corners, values))
        return ramps

    def seconds_until(self, at_s: Floats) -> Floats:
        """Return the seconds of each class, of gaps and of idle time until moments. Shape (m, k + 2). [s]

        Time that several activities share grows with the integral of ``1 / running``; on that axis each
        activity is a ramp of slope 1 between its ends, and a class the sum of its activities' ramps.
        """
        shared = self.share(at_s)
        begin, end = self.share(self.start_s), self.share(self.end_s)
        seconds = np.zeros((len(at_s), self.classes + 2))
        by_class = np.argsort(self.label, kind="stable")
        limits = np.searchsorted(self.label[by_class], np.arange(self.classes + 1))
        for label, (first, last) in enumerate(pairwise(limits)):
            members = by_class[first:last]
            if len(members):
                corners = np.concatenate([begin[members], end[members]])
                order = np.argsort(corners, kind="stable")
                corners = corners[order]
                running = np.cumsum(np.where(order < len(members), 1.0, -1.0))[:-1]
                values = np.concatenate([[0.0], np.cumsum(running * np.diff(corners))])
                seconds[:, label] = np.interp(shared, corners, values)
        for column, ramp in enumerate(self.state_ramps()[1:], start=self.classes):
            seconds[:, column] = ramp(at_s)
        return seconds

    def shifted(self, by_s: float, drift: float = 0.0, pivot_s: float = 0.0) -> Timeline:
        """Return the same timeline moved by ``by_s`` at ``pivot_s``, and stretched by ``drift``.

        Durations keep their length; a drift of clocks is parts per million.
        """

        def move(at_s: Floats) -> Floats:
            if not drift:
                return at_s + by_s
            with np.errstate(invalid="ignore"):  # what never ends does not end earlier
                return np.where(np.isinf(at_s), at_s, at_s + by_s + drift * (at_s - pivot_s))

        moved = Timeline(
            move(self.start_s),
            move(self.end_s),
            self.label,
            self.classes,
            Ramp(move(self.share.time_s), self.share.value_s),
            Ramp(move(self.busy.time_s), self.busy.value_s),
            move(self.off_start_s),
            move(self.off_end_s),
            self.jitter_s,
        )
        if not drift and "_states" in self.__dict__:  # what only moves keeps its integrals
            moved.__dict__["_states"] = tuple(Ramp(move(r.time_s), r.value_s) for r in self._states)
        return moved

    def ending(self, by_s: float) -> Timeline:
        """Return the same activities, each ending ``by_s`` later (or earlier, at most at its middle). [s]"""
        end = np.maximum(self.end_s + by_s, 0.5 * (self.start_s + self.end_s))
        return build_timeline(self.start_s, end, self.label, self.classes, self.jitter_s)


def build_timeline(
    start_s: Floats, end_s: Floats, label: Ints, classes: int, jitter_s: float = 0.0
) -> Timeline:
    """Return the timeline of one device.

    Parameters
    ----------
    start_s, end_s : array, shape (n,)
        Activities, in any order; those that do not last are dropped. [s]
    label : array of int, shape (n,)
        Class of each, 0 to ``classes - 1``.
    classes : int
        Number of classes.
    jitter_s : float
        Standard deviation of the stamps: microseconds from a profiler, more from a host program. [s]
    """
    keep = end_s > start_s
    order = np.argsort(start_s[keep], kind="stable")
    start, end, label = start_s[keep][order], end_s[keep][order], label[keep][order]
    if not len(start):
        flat = Ramp(np.zeros(1), np.zeros(1))
        return Timeline(start, end, label, classes, flat, flat, np.zeros(0), np.zeros(0), jitter_s)
    times = np.concatenate([start, end])
    change = np.concatenate([np.ones(len(start), np.int64), np.full(len(end), -1, np.int64)])
    order = np.argsort(times, kind="stable")
    times, running = times[order], np.cumsum(change[order])
    step = np.diff(times)
    alive = np.maximum(running[:-1], 0)
    share = np.concatenate([[0.0], np.cumsum(step / np.maximum(alive, 1) * (alive > 0))])
    busy = np.concatenate([[0.0], np.cumsum(step * (alive > 0))])
    last = np.append(np.diff(times) > 0, True)  # one corner per moment, the last value counts
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(start[1:] > reach[:-1]) + 1
    off_start = np.append(reach[opens - 1], reach[-1])
    off_end = np.append(start[opens], np.inf)
    return Timeline(
        start,
        end,
        label,
        classes,
        Ramp(times[last], share[last]),
        Ramp(times[last], busy[last]),
        off_start,
        off_end,
        jitter_s,
    )


def weighted_busy(timeline: Timeline, ratio: Floats) -> Ramp:
    """Return the integral of active time, each class's time counted ``ratio`` times, shape (classes,)."""
    if not len(timeline.start_s):
        return timeline.busy
    each = ratio[timeline.label]
    times = np.concatenate([timeline.start_s, timeline.end_s])
    order = np.argsort(times, kind="stable")
    times = times[order]
    one = np.ones(len(each), np.int64)
    running = np.maximum(np.cumsum(np.concatenate([one, -one])[order])[:-1], 0)
    heavy = np.cumsum(np.concatenate([each, -each])[order])[:-1]
    mean = np.where(running > 0, heavy / np.maximum(running, 1), 0.0)
    value = np.concatenate([[0.0], np.cumsum(np.diff(times) * np.maximum(mean, 0.0))])
    last = np.append(np.diff(times) > 0, True)
    return Ramp(times[last], value[last])


def cut(start_s: Floats, end_s: Floats, edges_s: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Cut intervals at edges.

    Returns
    -------
    row, cell : array of int, shape (p,)
        Which interval each piece is of, and which cell ``edges_s[cell]`` to ``edges_s[cell + 1]``.
    start_s, end_s : array, shape (p,)
        The pieces; what lies outside the edges is dropped.
    """
    start = np.clip(start_s, edges_s[0], edges_s[-1])
    end = np.clip(end_s, edges_s[0], edges_s[-1])
    first = np.clip(np.searchsorted(edges_s, start, side="right") - 1, 0, len(edges_s) - 2)
    final = np.clip(np.searchsorted(edges_s, end, side="left") - 1, 0, len(edges_s) - 2)
    count = np.where(end > start, final - first + 1, 0)
    row = np.repeat(np.arange(len(start)), count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    cell = first[row] + offset
    return row, cell, np.maximum(start[row], edges_s[cell]), np.minimum(end[row], edges_s[cell + 1])
