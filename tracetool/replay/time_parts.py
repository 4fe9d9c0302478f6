"""The use of every moment of a recorded timeline, to the nanosecond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families import names
from tracetool.kernels.collective_matching import alike_collectives, arrivals_ns, meetings
from tracetool.kernels.refine import families_of
from tracetool.measure.logged_work import Covered
from tracetool.measure.timeline import GAP_HOLD_S
from tracetool.replay.activities import KERNEL_COLUMNS, read_activities, rows_of_devices, without_pauses
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.gap_causes import WORDS, Gap, gap_reasons
from tracetool.replay.longest_path import solve
from tracetool.replay.reused_memory import Memory
from tracetool.replay.scope_totals import COPIES
from tracetool.tables.run import Run

#: Parts of the time with activity, in the order they are reported.
BUSY: Final = (
    "computing",
    "overlapped communication",
    "exposed communication",
    "waiting for ranks",
    "copies",
)
#: Causes of idle time, in the order they are reported, and the reasons of gaps they hold.
IDLE: Final = {
    f"idle: {WORDS[Gap.HOST]}": (Gap.HOST,),
    f"idle: {WORDS[Gap.SYNC]}": (Gap.SYNC,),
    f"idle: {WORDS[Gap.DEPENDENCY]}": (Gap.DEPENDENCY, Gap.COMMUNICATION),
    WORDS[Gap.TAIL]: (Gap.TAIL,),
    WORDS[Gap.UNKNOWN]: (Gap.UNKNOWN,),
}
PARTS: Final = (*BUSY, *IDLE)
_COMPUTE, _LINK, _COPY, _WAIT = 0, 1, 2, 3


@dataclass(frozen=True)
class Pieces:
    """Activities of one GPU; waits of collectives for other ranks are separate pieces, at the end."""

    rows: Ints  # (n,) rows of the kernels table
    start_ns: Ints  # (n,) [ns]
    end_ns: Ints
    waits: Bools  # (n,)

    @property
    def part(self) -> Floats:
        """Share of its activity that each piece is. Shape (n,)."""
        length = (self.end_ns - self.start_ns).astype(np.float64)
        _, place = np.unique(self.rows, return_inverse=True)
        activity_ns = np.bincount(place, length)[place]
        return np.divide(length, activity_ns, out=np.where(self.waits, 0.0, 1.0), where=activity_ns > 0)


def pieces_of(rows: Ints, start_ns: Ints, end_ns: Ints, arrived_ns: Ints) -> Pieces:
    """Cut activities where the last rank had come.

    Parameters
    ----------
    rows : array of int, shape (n,)
        Rows of the kernels table.
    start_ns, end_ns, arrived_ns : array of int, shape (n,)
        Times of those activities. [ns]
    """
    late = arrived_ns > start_ns
    return Pieces(
        np.concatenate([rows, rows[late]]),
        np.concatenate([arrived_ns, start_ns[late]]),
        np.concatenate([end_ns, arrived_ns[late]]),
        np.concatenate([np.zeros(len(rows), np.bool_), np.ones(int(late.sum()), np.bool_)]),
    )


@dataclass(frozen=True)
class TimeParts:
    """One GPU of a run, its window cut into parts.

    Attributes
    ----------
    pieces : Pieces
        Its activities, those that waited for other ranks in two.
    part_ns : array of int, shape (parts,)
        Time of each of :data:`PARTS`; they sum to ``span_ns``. [ns]
    shared_s : array, shape (busy parts, n)
        Of each piece, its share of each part of the busy time: moments in which several run are divided
        equally. [s]
    gap_s, idle_s : array, shape (parts,)
        Of the idle parts, the time up to a second after an activity, and the rest. [s]
    idle : IdleTimes
        Its idle times.
    idle_cause : array of int, shape (idle times,)
        Cause of each, as its place in :data:`IDLE`.
    """

    device: int
    pieces: Pieces
    part_ns: Ints
    span_ns: int
    shared_s: Floats
    gap_s: Floats
    idle_s: Floats
    idle: IdleTimes
    idle_cause: Ints


@dataclass(frozen=True)
class IdleTimes:
    """Idle times of one GPU; one that waited for one thing after another may be cut in two, in order."""

    start_ns: Ints  # (g,) [ns]
    end_ns: Ints
    before: Ints  # (g,) row of the activity that ends each whole one, -1 where none does
    after: Ints  # (g,) row of the last activity before it, -1 where there is none
    whole_index: Ints  # (g,) the uncut idle time each is or is a part of, ascending

    @property
    def opens_ns(self) -> Ints:
        """Start of the uncut idle time. Shape (g,). [ns]"""
        return self.start_ns[np.searchsorted(self.whole_index, self.whole_index)]

    @property
    def whole_s(self) -> Floats:
        """Length of the uncut idle time. Shape (g,). [s]"""
        last = np.searchsorted(self.whole_index, self.whole_index, side="right") - 1
        return np.asarray((self.end_ns[last] - self.opens_ns) * 1e-9)

    def held_s(self) -> tuple[Floats, Floats]:
        """Return the part of each up to a second after an activity, clocks still high, and the rest. [s]"""
        length_s = (self.end_ns - self.start_ns) * 1e-9
        hold_s = np.maximum(GAP_HOLD_S - (self.start_ns - self.opens_ns) * 1e-9, 0.0)
        held_s: Floats = np.where(self.after >= 0, np.minimum(length_s, hold_s), 0.0)
        return held_s, np.asarray(length_s - held_s)

    def outside_s(self, part: Covered | None) -> tuple[Floats, Floats] | None:
        """Return the times of :meth:`held_s` that a log does not cover; None where it covers all. [s]"""
        if part is None:
            return None
        held_s, rest_s = self.held_s()
        middle_ns = self.start_ns + np.rint(held_s * 1e9).astype(np.int64)
        return (
            held_s * part.outside(self.start_ns, middle_ns),
            rest_s * part.outside(middle_ns, self.end_ns),
        )

    def cut(self, late_ns: Ints) -> tuple[IdleTimes, Bools]:
        """Return uncut idle times cut so long before their ends, and which are then such an end. (g,) [ns]"""
        length_ns = self.end_ns - self.start_ns
        row = np.repeat(np.arange(len(late_ns)), 1 + ((late_ns > 0) & (late_ns < length_ns)))
        second = np.r_[False, row[1:] == row[:-1]][: len(row)]
        first = np.r_[second[1:], False][: len(row)]
        split_ns = (self.end_ns - late_ns)[row]
        cut_times = IdleTimes(
            np.where(second, split_ns, self.start_ns[row]),
            np.where(first, split_ns, self.end_ns[row]),
            self.before[row],
            self.after[row],
            self.whole_index[row],
        )
        return cut_times, second | (late_ns >= length_ns)[row]


def idle_causes(idle: IdleTimes, reasons: Ints, late_ns: Floats) -> tuple[IdleTimes, Ints]:
    """Return idle times of a GPU by what they waited for, and its cause, as the place in :data:`IDLE`.

    Parameters
    ----------
    idle : IdleTimes
        Idle times of one GPU, whole.
    reasons, late_ns : array of int and of float, shape (n,)
        As :func:`idle_reasons` returns.
    """
    waited = (idle.before >= 0) & (idle.after >= 0)
    length_ns = idle.end_ns - idle.start_ns
    late = np.where(waited, np.minimum(np.rint(late_ns[idle.before]), length_ns), 0.0)
    idle, is_late = idle.cut(late.astype(np.int64))
    reason = np.where(idle.before >= 0, reasons[idle.before], int(Gap.TAIL))
    reason = np.where(is_late, int(Gap.UNKNOWN), reason)
    reason = np.where(idle.after < 0, int(Gap.TAIL), reason)  # others had begun before it
    place = np.zeros(len(Gap), dtype=np.int64)
    for i, gaps in enumerate(IDLE.values()):
        place[list(gaps)] = i
    return idle, np.asarray(place[reason])


def idle_times(start_ns: Ints, end_ns: Ints, rows: Ints, span_ns: tuple[int, int]) -> IdleTimes:
    """Return when a GPU has no activity within the run's window.

    Parameters
    ----------
    start_ns, end_ns : array of int, shape (n,)
        Its activities, in any order. [ns]
    rows : array of int, shape (n,)
        Their rows in the kernels table.
    span_ns : (int, int)
        First start and last end of the run. [ns]
    """
    order = np.argsort(start_ns, kind="stable")
    start, end, row = start_ns[order], end_ns[order], rows[order]
    reach = np.maximum.accumulate(end)
    # the activity whose end is the running maximum
    newest = np.maximum.accumulate(np.where(end >= reach, np.arange(len(end)), 0))
    opens = np.flatnonzero(start[1:] > reach[:-1])
    begin = np.concatenate([[span_ns[0]], reach[opens], reach[-1:]])
    stop = np.concatenate([start[:1], start[opens + 1], [span_ns[1]]])
    before = np.concatenate([row[:1], row[opens + 1], [-1]])
    after = np.concatenate([[-1], row[newest[opens]], row[newest[-1:]]])
    lasting = stop > begin
    count = int(lasting.sum())
    return IdleTimes(begin[lasting], stop[lasting], before[lasting], after[lasting], np.arange(count))


def time_parts(run: Run) -> list[TimeParts]:
    """Cut the window of every GPU of a run into computing, communication, copies and idle time by cause.

    The window is the run's, from its first start to its last end. A moment in which a collective and a
    computing kernel run is overlapped communication; one in which collectives alone run, and all of them wait
    for other ranks, is waiting; with copies alone it is copies.
    """
    kernels = run.table("kernels", KERNEL_COLUMNS)
    start = kernels["start_ns"].to_numpy()
    end = start + kernels["duration_ns"].to_numpy()
    span = int(start.min()), int(end.max())
    kind = activity_kinds(run, kernels)
    reasons, late_ns = idle_reasons(run, kernels, kind)
    arrived = arrivals_ns(run)
    gpu_parts = []
    for device, members in rows_of_devices(kernels["device"].to_numpy()):
        rows = np.arange(len(start)) if members is None else members
        pieces = pieces_of(rows, start[rows], end[rows], arrived[rows])
        piece_kind = np.where(pieces.waits, _WAIT, kind[pieces.rows])
        busy_ns, shared_s = busy_parts(pieces.start_ns, pieces.end_ns, piece_kind)
        idle, cause = idle_causes(idle_times(start[rows], end[rows], rows, span), reasons, late_ns)
        length_ns = idle.end_ns - idle.start_ns
        held_s, rest_s = idle.held_s()
        empty = np.zeros(len(BUSY))
        by_cause = [cause == c for c in range(len(IDLE))]
        idle_ns = np.array([length_ns[c].sum() for c in by_cause], dtype=np.int64)
        gpu_parts.append(
            TimeParts(
                int(device),
                pieces,
                np.concatenate([busy_ns, idle_ns]),
                span[1] - span[0],
                shared_s,
                np.concatenate([empty, [held_s[c].sum() for c in by_cause]]),
                np.concatenate([empty, [rest_s[c].sum() for c in by_cause]]),
                idle,
                cause,
            )
        )
    return gpu_parts


def activity_kinds(run: Run, kernels: pl.DataFrame) -> Ints:
    """Return which activities compute (0), communicate (1) and copy (2). Shape (n,)."""
    signatures = run.signatures.sort("signature")
    family = families_of(signatures)
    link = (family == names.COLLECTIVE).fill_null(value=False).to_numpy()
    copy = signatures["kind"].is_in(COPIES).to_numpy()
    by_signature = np.where(copy, _COPY, np.where(link, _LINK, _COMPUTE))
    place = np.searchsorted(signatures["signature"].to_numpy(), kernels["signature"].to_numpy())
    return np.asarray(by_signature[place], dtype=np.int64)


def busy_parts(start_ns: Ints, end_ns: Ints, kind: Ints) -> tuple[Ints, Floats]:
    """Return the time of each busy part of one GPU, and every activity's share of each.

    Parameters
    ----------
    start_ns, end_ns : array of int, shape (n,)
        Activities. [ns]
    kind : array of int, shape (n,)
        0 computing, 1 communication, 2 copy, 3 waiting for other ranks.

    Returns
    -------
    part_ns : array of int, shape (5,)
        Time of each of :data:`BUSY`. [ns]
    shared_s : array, shape (4, n)
        Share of each activity; the sum over activities is ``part_ns``. [s]

    Examples
    --------
    >>> part_ns, shared_s = busy_parts(np.array([0, 5]), np.array([10, 20]), np.array([0, 1]))
    >>> part_ns.tolist()
    [5, 5, 10, 0, 0]
    """
    n = len(start_ns)
    moment = np.concatenate([start_ns, end_ns])
    order = np.argsort(moment, kind="stable")
    moment = moment[order]
    step_ns = np.diff(moment)
    running = []
    for k in (_COMPUTE, _LINK, _COPY, _WAIT):
        one = (kind == k).astype(np.int64)
        running.append(np.cumsum(np.concatenate([one, -one])[order])[:-1])
    compute, link, copy, wait = running
    alive = compute + link + copy + wait
    states: list[Bools] = [
        (compute > 0) & (link + wait == 0),
        (compute > 0) & (link + wait > 0),
        (compute == 0) & (link > 0),
        (compute == 0) & (link == 0) & (wait > 0),
        (compute == 0) & (link + wait == 0) & (copy > 0),
    ]
    part_ns = np.array([int(step_ns[state].sum()) for state in states], dtype=np.int64)
    shared_s = np.zeros((len(states), n))
    first, last = np.searchsorted(moment, start_ns), np.searchsorted(moment, end_ns)
    for i, state in enumerate(states):
        each_s = np.where(state, step_ns / np.maximum(alive, 1), 0.0) * 1e-9
        total_s = np.concatenate([[0.0], np.cumsum(each_s)])
        shared_s[i] = total_s[last] - total_s[first]
    return part_ns, shared_s


def idle_reasons(run: Run, kernels: pl.DataFrame, kind: Ints) -> tuple[Ints, Floats]:
    """Return, for each activity, the reason of the idle time before it, if any: a :class:`Gap`. Shape (n,).

    And how long before its start that was over, shape (n,), [ns]: from then on the idle time is ``UNKNOWN``.
    ``kind`` is as :func:`activity_kinds` returns.
    """
    collective = kind == _LINK
    work, calls = read_activities(kernels, run.table("host_calls"))
    work, pauses = without_pauses(work)
    met = meetings(work.start_ns, work.end_ns, work.device, alike_collectives(run))
    graph, _ = dependency_graph(work, calls, met=met)
    node_ns = np.zeros(len(graph))
    node_ns[graph.node] = work.duration_ns
    if len(graph.met):
        node_ns[graph.node[graph.met]] = 0.0
        node_ns[graph.transfer] = graph.duration_ns[graph.transfer]
    _, binding, released_ns = solve(graph, node_ns, Memory())
    reach_ns = np.zeros(len(work))
    for _, members in work.by_device:
        rows = np.arange(len(work)) if members is None else members
        order = rows[np.argsort(work.start_ns[rows], kind="stable")]
        until = np.maximum.accumulate(work.end_ns[order])
        reach_ns[order] = np.concatenate([work.start_ns[order[:1]], until[:-1]])
    reason, late_ns = gap_reasons(graph, binding, released_ns, np.arange(len(work)), reach_ns, collective)
    if pauses.count:  # what was taken out of the timeline has no cause in it
        reason[:] = int(Gap.UNKNOWN)
    return reason, late_ns
