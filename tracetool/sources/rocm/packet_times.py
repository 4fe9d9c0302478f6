"""Times of packets of a Perfetto trace, on the clock that counts since boot.

Source: Perfetto's ``clock_snapshot.proto``; "Synchronization of multiple clock domains" in its documentation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracetool.core.arrays import Bools, Ints, Numbers
from tracetool.sources.io.protobuf_columns import Fields, Wholes, joined
from tracetool.sources.last_definitions import Latest
from tracetool.sources.rocm.packets import BOOT, CLOCK, CLOCKS, TIME, State, held

#: Clocks that belong to one writer of packets alone, up to below the second. [1] Source:
#: clock_snapshot.proto.
_OWN_CLOCKS: Final = 64, 128
#: Sums of times below this are exact in 64 bits; others are added as Python's numbers. [ns]
_SAFE_NS: Final = 2.0**62


@dataclass(frozen=True)
class Readings:
    """Clocks read at one moment: which, what each showed, its step, whether times count from it, boot's time.

    Steps and boot's time in ns.
    """

    packet: Ints
    clock: Wholes
    stamp: Wholes
    step: Wholes
    adds: Bools
    boot: Wholes


@dataclass
class Stamps:
    """Times of packets as they are stated, and readings of clocks."""

    _time: list[tuple[Numbers, ...]] = field(default_factory=list)
    _readings: list[Readings] = field(default_factory=list)
    _count: int = 0

    def take(self, packets: Fields) -> None:
        """Take in the next packets."""
        time = packets.last(packets.are(TIME, varint=True)) >= 0
        clock = packets.last(packets.are(CLOCK, varint=True)) >= 0
        self._time.append((packets.wholes(TIME), time, packets.wholes(CLOCK), clock))
        rows = held(packets, CLOCKS)
        if len(rows):
            self._learn(packets.message[rows] + self._count, packets.inner(rows))
        self._count += packets.messages

    def _learn(self, packet: Ints, snapshots: Fields) -> None:
        rows = np.flatnonzero(snapshots.are(1, varint=False))
        readings = snapshots.inner(rows)
        clock, stamp = readings.wholes(1), readings.wholes(2)
        of = snapshots.message[rows]
        booted = np.flatnonzero(clock == BOOT)[::-1]  # the first one counts
        boot, has_boot = np.zeros(len(packet), np.uint64), np.zeros(len(packet), np.bool_)
        boot[of[booted]], has_boot[of[booted]] = stamp[booted], True
        rows = np.flatnonzero(has_boot[of])
        packet, boot, step = packet[of[rows]], boot[of[rows]], np.maximum(readings.wholes(4), 1)[rows]
        adds = readings.wholes(3)[rows] != 0
        self._readings.append(Readings(packet, clock[rows], stamp[rows], step, adds, boot))

    def since_boot(self, state: State, packets: Ints) -> list[int | None]:
        """Return times of packets since boot, None where the trace does not state them. [ns]"""
        stamp, timed, clock, clocked = joined(self._time, np.uint64, np.bool_, np.uint64, np.bool_)
        clock = np.where(clocked, clock, state.clock)
        of_own_clock = timed & (clock >= _OWN_CLOCKS[0]) & (clock < _OWN_CLOCKS[1])
        read = self._all_readings()
        kind = _number_type(stamp[timed], stamp[of_own_clock], read)
        at: NDArray[Any] = read.stamp.astype(kind) * read.step.astype(kind)
        to_boot = read.boot.astype(kind) - at
        times: NDArray[Any] = np.where(timed, stamp, 0).astype(kind)
        common_rows = np.flatnonzero(timed & ~of_own_clock & (clock != BOOT))
        no_writer = np.zeros(len(read.packet), np.int64)
        rows = Latest(no_writer, read.clock, read.packet).find(
            np.zeros(len(common_rows), np.int64), clock[common_rows], common_rows
        )
        times[common_rows[rows >= 0]] += to_boot[rows[rows >= 0]]
        own_rows = np.flatnonzero(of_own_clock)
        rows = Latest(state.writer[read.packet], read.clock, read.packet).find(
            state.writer[own_rows], clock[own_rows], own_rows
        )
        timed[own_rows[rows < 0]] = False
        own_rows, rows = own_rows[rows >= 0], rows[rows >= 0]
        counted = _counted(times[own_rows] * read.step.astype(kind)[rows], rows, at, read.adds)
        times[own_rows] = counted + to_boot[rows]
        stated = zip(times[packets].tolist(), timed[packets].tolist(), strict=True)
        return [time if is_stated and -(2**63) <= time < 2**63 else None for time, is_stated in stated]

    def _all_readings(self) -> Readings:
        columns: list[tuple[Numbers, ...]] = [
            (r.packet, r.clock, r.stamp, r.step, r.adds, r.boot) for r in self._readings
        ]
        return Readings(*joined(columns, np.int64, np.uint64, np.uint64, np.uint64, np.bool_, np.uint64))


def _number_type(stamps: Wholes, own_stamps: Wholes, read: Readings) -> type:
    """Return the type in which times can be added without overflow."""
    step = float(read.step.max(initial=1))
    largest = float(stamps.max(initial=0)) + float(read.boot.max(initial=0))
    largest += step * (float(read.stamp.max(initial=0)) + float(own_stamps.sum(dtype=np.float64)))
    return np.int64 if largest < _SAFE_NS else object


def _counted(stated: NDArray[Any], rows: Ints, at: NDArray[Any], adds: Bools) -> NDArray[Any]:
    """Return what own clocks show: times as stated, or each counted from the one before, first a reading."""
    if not len(rows):
        return stated
    order = np.argsort(rows, kind="stable")
    sums = np.cumsum(stated[order])
    first = np.flatnonzero(np.diff(rows[order], prepend=-1))
    before = sums[first] - stated[order][first]
    shown = np.empty_like(stated)
    shown[order] = sums - np.repeat(before, np.diff(first, append=len(rows))) + at[rows[order]]
    return np.where(adds[rows], shown, stated)
