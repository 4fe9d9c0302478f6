"""Activities at the same time on one device: shares of its power, idle gaps, peak and energy per moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.core.compiled import compiled
from tracetool.replay.reused_memory import Scratch

#: Places an activity may move on average before sorting anew is quicker. [1]
_MOVES = 8


def in_order(time_ns: Floats, rows: Ints | None, scratch: Scratch, name: str) -> Numbers:
    """Return rows by time, equal times by row.

    Parameters
    ----------
    time_ns : array, shape (n,)
        Times of all activities. [ns]
    rows : array of int, shape (k,), optional
        Distinct rows of it, rising; by default all.
    scratch : Scratch
        Holds the order of the last call of this ``name``, from which this one starts where it is of the
        same rows.
    name : str
        Which order.

    Examples
    --------
    >>> in_order(np.array([3.0, 1.0, 2.0, 1.0]), None, Scratch(), "start").tolist()
    [1, 3, 2, 0]
    """
    n = len(time_ns) if rows is None else len(rows)
    settle = compiled(_settle, n)
    if settle is _settle:  # not worth compiling yet
        return _sorted(time_ns, rows)
    reusable = rows is None and scratch.has(name, n)
    if not reusable:
        scratch.forget(name)  # a longer one would be left half overwritten
    order = scratch.take(name, n, np.int32)
    if not reusable:
        order[:] = np.arange(n) if rows is None else rows
    if not settle(order, time_ns, _MOVES * n):
        order[:] = _sorted(time_ns, rows)
    if rows is not None:
        scratch.forget(name)
    return order


def in_time_order(start_ns: Floats, end_ns: Floats, members: Ints | None = None) -> tuple[Numbers, Numbers]:
    """Return activities that last any time by start, and by end; of all or of some ``members``."""
    scratch = Scratch()
    _, rows = _lasting(start_ns, end_ns, members, scratch)
    return in_order(start_ns, rows, scratch, "by start"), in_order(end_ns, rows, scratch, "by end")


def _sorted(time: Floats, rows: Ints | None) -> Numbers:
    order = np.argsort(time, kind="stable") if rows is None else rows[np.argsort(time[rows], kind="stable")]
    return order.astype(np.int32)


def _settle(order: Numbers, time: Floats, most: int) -> bool:
    """Sort by insertion, in place; give up after ``most`` moves."""
    moves = 0
    for a in range(1, len(order)):
        i = order[a]
        t = time[i]
        b = a - 1
        while b >= 0 and (time[order[b]] > t or (time[order[b]] == t and order[b] > i)):
            order[b + 1] = order[b]
            b -= 1
        order[b + 1] = i
        moves += a - 1 - b
        if moves > most:
            return False
    return True


#: The least weight of an activity among those that share the device (copies keep no SM busy).
LEAST_ACTIVE = 0.01
#: What lasts no longer shares nothing with others: profilers count in nanoseconds. [ns]
SHORTEST_NS = 1e-3
#: However far a cap is below what runs at once, clocks do not fall below this share. [1]
SLOWEST = 0.05


@dataclass(frozen=True)
class Rates:
    """Power of each signature while it runs, at one clock. All of shape (s,)."""

    active: Floats  # share of SM-time with a resident block [1]
    base_w: Floats  # fixed part, leakage, memory idle: drawn once, however many kernels run [W]
    clock_w: Floats  # clock tree of its SMs [W]
    counts_j: Floats  # by counts of operations and bytes, per launch [J]
    counts_w: Floats  # the same over its usual time: what it draws while it runs [W]


@dataclass(frozen=True)
class Shared:
    """One device at one clock. What is said of each activity holds for those in ``rows``."""

    rows: Ints | slice  # activities of the device that last any time

    base_ns: Floats  # (s,) time each signature answers for the base power
    clock_ns: Floats  # (s,) time each signature's clock tree is paid for
    busy_ns: float  # time with at least one activity
    gap_ns: Floats  # (g,) lengths of the idle gaps between activities
    gap_next: Ints  # (g,) activity that ends each gap
    gap_from_ns: Floats  # (g,) when each gap begins
    peak_w: float  # under the cap
    demand_w: float  # what it would have been without it
    done_ns: Floats  # (n,) time each would have needed at full speed, empty unless requested
    each_base_ns: Floats  # (n,) base_ns of each activity, empty unless requested
    each_clock_ns: Floats  # (n,)


def _sweep(
    begins: Ints,
    ends: Ints,
    start: Floats,
    end: Floats,
    signature: Ints,
    active: Floats,
    base: Floats,
    clock: Floats,
    counts: Floats,
    base_ns: Floats,
    clock_ns: Floats,
    gap_ns: Floats,
    gap_next: Ints,
    gap_from: Floats,
    each_base: Floats,
    each_clock: Floats,
    at_base: Floats,
    at_clock: Floats,
    cap: float,
    done: Floats,
    at_done: Floats,
) -> tuple[int, float, float, float]:
    """Step through the starts and ends of one device in time order; fills the outputs in place."""
    n = len(begins)
    running = gaps = a = b = 0
    busy = peak = demand = now = to_done = 0.0
    sum_active = sum_base = sum_clock = sum_counts = 0.0
    to_base = to_clock = 0.0  # integrals of 1 / sum_active and of 1 / max(1, sum_active)
    while b < n:
        starts = a < n and start[begins[a]] < end[ends[b]]
        i = begins[a] if starts else ends[b]
        moment = start[i] if starts else end[i]
        s = signature[i]
        if running > 0 and moment > now:
            step = moment - now
            crowd = max(1.0, sum_active)
            floor = sum_base / sum_active
            moved = sum_clock / crowd + sum_counts
            demand = max(demand, floor + moved)
            over = floor + moved > cap and moved > 0.0
            speed = max((cap - floor) / moved, SLOWEST) if over else 1.0
            to_base += step / sum_active
            to_clock += step * speed / crowd
            to_done += step * speed
            busy += step
            peak = max(peak, floor + moved * speed)
        elif running == 0 and a > 0 and moment > now:
            gap_ns[gaps] = moment - now
            gap_next[gaps] = i
            gap_from[gaps] = now
            gaps += 1
        now = moment
        if starts:
            a += 1
            running += 1
            at_base[i] = to_base
            at_clock[i] = to_clock
            if len(done) > 0:
                at_done[i] = to_done
            sum_active += active[s]
            sum_base += active[s] * base[s]
            sum_clock += clock[s]
            sum_counts += counts[s]
            continue
        b += 1
        running -= 1
        base_share = active[s] * (to_base - at_base[i])
        paid = to_clock - at_clock[i]
        base_ns[s] += base_share
        clock_ns[s] += paid
        if len(each_base) > 0:
            each_base[i] = base_share
            each_clock[i] = paid
        if len(done) > 0:
            done[i] = to_done - at_done[i]
        # Fresh sums whenever the device falls idle: no rounding is carried on.
        sum_active = 0.0 if running == 0 else sum_active - active[s]
        sum_base = 0.0 if running == 0 else sum_base - active[s] * base[s]
        sum_clock = 0.0 if running == 0 else sum_clock - clock[s]
        sum_counts = 0.0 if running == 0 else sum_counts - counts[s]
        to_base = 0.0 if running == 0 else to_base
        to_clock = 0.0 if running == 0 else to_clock
        to_done = 0.0 if running == 0 else to_done
    return gaps, busy, peak, demand


def share(
    start_ns: Floats,
    end_ns: Floats,
    signature: Ints,
    rates: Rates,
    *,
    members: Ints | None = None,
    each: bool = False,
    cap_w: float = np.inf,
    progress: bool = False,
    scratch: Scratch | None = None,
) -> Shared:
    r"""Share one device's power among the activities that run on it at the same time.

    Parameters
    ----------
    start_ns, end_ns : array, shape (n,)
        Times of all activities. [ns]
    signature : array of int, shape (n,)
        Row of each activity in ``rates``.
    rates : Rates
        Power of each signature.
    members : array of int, optional
        Activities of this device; by default all. Those that last no time share nothing.
    each : bool
        Also return the shares of every activity.
    cap_w : float
        Power limit: above it the shared clock falls. [W]
    progress : bool
        Also return how far every activity got, as time at full speed.
    scratch : Scratch, optional
        Memory of an earlier call to overwrite, the gaps and shares it returned included.

    Notes
    -----
    With :math:`a_k` the SM activity of those that run at a moment, the base power is shared as
    :math:`a_k / \sum a`, each clock tree is paid in full until the SMs are all busy,
    :math:`1 / \max(1, \sum a)`, and energies by counts are each kernel's own. The sums over kernels
    are the device's energy by construction. Where together they would draw more than the cap, all
    are slowed alike, :math:`v = (P_{cap} - P_{base}) / (P - P_{base})`: the voltage is taken to stay,
    so this bounds the slowdown from above.

    Examples
    --------
    Two equal kernels side by side, then a gap, then one of them alone.

    >>> rates = Rates(np.ones(1), np.array([50.0]), np.zeros(1), np.zeros(1), np.zeros(1))
    >>> shared = share(np.array([0, 0, 30.0]), np.array([10, 10, 40.0]), np.zeros(3, int), rates)
    >>> shared.base_ns, shared.gap_ns, shared.peak_w
    (array([20.]), array([20.]), 50.0)
    """
    memory = scratch or Scratch()
    total, s = len(start_ns), len(rates.active)
    span, rows = _lasting(start_ns, end_ns, members, memory)
    n = total if rows is None else len(rows)
    base_ns, clock_ns = np.zeros(s), np.zeros(s)
    gap_ns, gap_from = span, memory.take("gap from", n)  # the spans are done with
    gap_next = memory.take("gap next", n, np.int64)
    each_base, each_clock = (memory.take(name, total if each else 0) for name in ("each base", "each clock"))
    done = memory.take("done", total if progress else 0)
    gaps, busy, peak, demand = compiled(_sweep, 2 * n)(
        in_order(start_ns, rows, memory, "by start"),
        in_order(end_ns, rows, memory, "by end"),
        start_ns,
        end_ns,
        signature,
        np.maximum(rates.active, LEAST_ACTIVE),
        rates.base_w,
        rates.clock_w,
        rates.counts_w,
        base_ns,
        clock_ns,
        gap_ns,
        gap_next,
        gap_from,
        each_base,
        each_clock,
        memory.take("at base", total),
        memory.take("at clock", total),
        float(cap_w),
        done,
        memory.take("at done", total if progress else 0),
    )
    return Shared(
        slice(None) if rows is None else rows,
        base_ns,
        clock_ns,
        float(busy),
        gap_ns[:gaps],
        gap_next[:gaps],
        gap_from[:gaps],
        float(peak),
        float(demand),
        done,
        each_base,
        each_clock,
    )


def _lasting(
    start_ns: Floats, end_ns: Floats, members: Ints | None, memory: Scratch
) -> tuple[Floats, Ints | None]:
    """Return how long members last, and which of them last any time: None for all activities. [ns]"""
    span = memory.take("span", len(start_ns) if members is None else len(members))
    if members is None:
        np.subtract(end_ns, start_ns, out=span)
    else:
        np.subtract(end_ns[members], start_ns[members], out=span)
    lasting = np.greater(span, SHORTEST_NS, out=memory.take("lasting", len(span), np.bool_))
    if members is not None:
        return span, members[lasting]
    return span, None if lasting.all() else np.flatnonzero(lasting)
