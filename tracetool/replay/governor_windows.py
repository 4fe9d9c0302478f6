"""A GPU's timeline in windows of equal length: a power governor decides on the clock once in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.core.compiled import compiled
from tracetool.replay.overlap import LEAST_ACTIVE, SLOWEST, Rates, in_time_order

#: Windows of one time constant: the clock is decided on once in each window.
_WINDOWS: Final = 8
#: Windows of a timeline at most; a longer one is decided on in longer windows.
_MOST_WINDOWS: Final = 100_000


@dataclass(frozen=True)
class Windows:
    """A device's timeline in windows of equal length, at the requested clock and at clocks under the cap."""

    first_ns: float
    length_ns: float
    free_w: Floats  # (w,) mean power at the clock asked for
    held_w: Floats  # (w,) mean power of the same work at clocks under the cap
    longer: Floats  # (w,) time under the cap over the time at the clock asked for, at least 1 [1]


def windows_of(
    start_ns: Floats,
    end_ns: Floats,
    signature: Numbers,
    members: Ints | None,
    *,
    free: Rates,
    capped: Rates,
    longer: Floats,
    idle_w: float,
    limit_w: float,
    time_constant_s: float,
    span_ns: tuple[float, float] | None = None,
) -> Windows:
    """Cut a device's timeline into windows that are short beside the governor's time constant.

    Parameters
    ----------
    start_ns, end_ns : array, shape (n,)
        The timeline at the clock asked for. [ns]
    signature : array of int, shape (n,)
        Row of each activity in the rates.
    members : array of int, optional
        Activities of this device; by default all.
    free, capped : Rates
        Power of each signature at the clock asked for and under the cap.
    longer : array, shape (s,)
        Time of each signature under the cap over time at the clock asked for. [1]
    idle_w, limit_w : float
        Power with nothing running, and the cap. [W]
    time_constant_s : float
        Of the governor. [s]
    span_ns : (float, float), optional
        First and last moment of the timeline; by default of these activities. [ns]

    Notes
    -----
    The power at each moment is that of :func:`tracetool.replay.power.power_curve`; the factor on the time is
    the mean over what runs, weighted by SM activity.
    """
    first, last = span_ns or (float(start_ns.min(initial=np.inf)), float(end_ns.max(initial=-np.inf)))
    span = max(last - first, 1.0)
    count = int(np.clip(np.ceil(span / (time_constant_s * 1e9 / _WINDOWS)), 1, _MOST_WINDOWS))
    begins, ends = in_time_order(start_ns, end_ns, members)
    sums = np.zeros((3, count))
    compiled(_sums, 2 * len(begins))(
        begins,
        ends,
        start_ns,
        end_ns,
        signature,
        np.maximum(free.active, LEAST_ACTIVE),
        np.maximum(capped.active, LEAST_ACTIVE),
        np.stack([free.base_w, free.clock_w, free.counts_w]),
        np.stack([capped.base_w, capped.clock_w, capped.counts_w]),
        longer,
        float(idle_w),
        float(limit_w),
        first,
        max(last, first),
        span / count,
        sums,
    )
    free_w, stretched_w, factor = sums / (span / count)
    factor = np.maximum(factor, 1.0)
    return Windows(first, span / count, free_w, stretched_w / factor, factor)


def _sums(
    begins: Ints,
    ends: Ints,
    start: Floats,
    end: Floats,
    signature: Numbers,
    active: Floats,
    capped_active: Floats,
    free: Floats,
    capped: Floats,
    longer: Floats,
    idle: float,
    cap: float,
    now: float,
    last: float,
    length: float,
    sums: Floats,
) -> None:
    """Add up power, power under the cap times the factor on time, and that factor, by window, in place."""
    n, count, first = len(begins), sums.shape[1], now
    a = b = running = window = 0
    sum_active = sum_base = sum_moved = sum_counts = sum_longer = 0.0
    cap_active = cap_base = cap_moved = cap_counts = 0.0
    while True:
        starts = a < n and b < n and start[begins[a]] < end[ends[b]]
        i = 0
        moment = last
        if b < n:
            i = begins[a] if starts else ends[b]
            moment = start[i] if starts else end[i]
        if moment > now:
            power = under = idle
            factor = 1.0
            if running > 0:
                power = sum_base / sum_active + sum_moved / max(1.0, sum_active) + sum_counts
                floor = cap_base / cap_active
                moved = cap_moved / max(1.0, cap_active) + cap_counts
                over = floor + moved > cap and moved > 0.0
                under = floor + moved * (max((cap - floor) / moved, SLOWEST) if over else 1.0)
                factor = sum_longer / sum_active
            while now < moment:
                edge = first + (window + 1) * length
                inside = window == count - 1 or edge >= moment
                stop = moment if inside else max(edge, now)
                sums[0, window] += power * (stop - now)
                sums[1, window] += under * factor * (stop - now)
                sums[2, window] += factor * (stop - now)
                now = stop
                window += 0 if inside else 1
        if b >= n:
            return
        s = signature[i]
        sign = 1.0 if starts else -1.0
        a, b = (a + 1, b) if starts else (a, b + 1)
        running += 1 if starts else -1
        if running == 0:  # fresh sums: no rounding is carried on
            sum_active = sum_base = sum_moved = sum_counts = sum_longer = 0.0
            cap_active = cap_base = cap_moved = cap_counts = 0.0
            continue
        sum_active += sign * active[s]
        sum_base += sign * active[s] * free[0, s]
        sum_moved += sign * free[1, s]
        sum_counts += sign * free[2, s]
        sum_longer += sign * active[s] * longer[s]
        cap_active += sign * capped_active[s]
        cap_base += sign * capped_active[s] * capped[0, s]
        cap_moved += sign * capped[1, s]
        cap_counts += sign * capped[2, s]


def held_of_each(windows: Windows, share: Floats, start_ns: Floats, end_ns: Floats) -> Floats:
    """Return the share of each activity's work that is held under the cap. Shape (n,). [1]

    Examples
    --------
    >>> windows = Windows(0.0, 10.0, np.zeros(2), np.zeros(2), np.ones(2))
    >>> held_of_each(windows, np.array([0.0, 1.0]), np.array([0.0, 5.0]), np.array([5.0, 15.0]))
    array([0. , 0.5])
    """
    total = np.concatenate([[0.0], np.cumsum(share)])
    held_shares = np.empty(len(start_ns))
    compiled(_means, len(held_shares))(
        share, total, windows.first_ns, windows.length_ns, start_ns, end_ns, held_shares
    )
    return held_shares


def _means(
    share: Floats, total: Floats, first: float, length: float, start: Floats, end: Floats, held_shares: Floats
) -> None:
    """Write the mean of ``share`` over each activity's time, given its sums up to each window."""
    count = len(share)
    for i in range(len(held_shares)):
        begin = min(max((start[i] - first) / length, 0.0), float(count))
        stop = min(max((end[i] - first) / length, 0.0), float(count))
        at, to = min(int(begin), count - 1), min(int(stop), count - 1)
        if stop - begin <= 1e-9:
            held_shares[i] = share[at]
            continue
        until = total[to] + share[to] * (stop - to)
        held_shares[i] = min(max((until - total[at] - share[at] * (begin - at)) / (stop - begin), 0.0), 1.0)
