"""The invented power sensor: a boxcar window, read late, with gain, offset, noise and a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from timeline import Timeline


@dataclass(frozen=True)
class Sensor:
    """How watts become log lines."""

    update_s: float = 0.100  # a new value this often
    window_s: float = 0.025  # each value averages this long before its update
    average_window_s: float | None = 1.0  # the second field, None where the GPU has one field only
    phase_s: float = 0.037  # first update after the log starts
    gain: float = 0.985
    offset_w: float = 1.6
    noise_w: float = 0.9
    clock_offset_s: float = 0.009  # the log's stamps are this much late against the trace's clock
    poll_s: float = 0.020


def power_steps(
    timeline: Timeline, lead_s: float, tail_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges [s] and watts of the true power from ``-lead_s`` to ``tail_s`` after the last kernel."""
    machine = timeline.machine
    edges, watts = [-lead_s], [machine.idle_w]
    end = None
    for launch in timeline.launches:
        start = launch.start_ns / 1e9
        if end is None or start > end:
            edges.append(start if end is None else end)
            watts.append(machine.idle_w if end is None else machine.gap_w)
        if launch.arrived_ns > launch.start_ns:  # a collective that waits for other ranks
            edges.append(start)
            watts.append(machine.power_w[f"{launch.kernel.kind}_wait"])
            start = launch.arrived_ns / 1e9
        edges.append(start)
        watts.append(machine.power_w[launch.kernel.kind])
        end = launch.end_ns / 1e9
    last = end or 0.0
    edges += [last, last + machine.hold_s, last + tail_s]
    watts += [machine.gap_w, machine.idle_w]
    return np.array(edges), np.array(watts)


@dataclass(frozen=True)
class Readings:
    """Polled values: stamp and the fields, one row per poll."""

    time_s: NDArray[np.float64]
    instant_w: NDArray[np.float64]
    average_w: NDArray[np.float64] | None
    busy: NDArray[np.float64]


def read(timeline: Timeline, sensor: Sensor, *, lead_s: float, tail_s: float, seed: int) -> Readings:
    """Return what a logger polling this sensor writes, times in seconds after the start of the job."""
    random = np.random.default_rng(seed)
    edges, watts = power_steps(timeline, lead_s + 2.0, tail_s)
    energy = np.concatenate([[0.0], np.cumsum(watts * np.diff(edges))])

    def mean(at: NDArray[np.float64], window: float) -> NDArray[np.float64]:
        return (np.interp(at, edges, energy) - np.interp(at - window, edges, energy)) / window

    updates = np.arange(-lead_s - 0.5 + sensor.phase_s, edges[-1], sensor.update_s)
    updates = updates + random.normal(0.0, 0.0004, updates.size)
    true = mean(updates, sensor.window_s)
    shown = sensor.gain * true + sensor.offset_w + random.normal(0.0, sensor.noise_w, updates.size)
    average = None
    if sensor.average_window_s is not None:
        average = sensor.gain * mean(updates, sensor.average_window_s) + sensor.offset_w
        average = average + random.normal(0.0, sensor.noise_w / 3, updates.size)
    polls = np.arange(-lead_s, edges[-1], sensor.poll_s)
    polls = polls + np.abs(random.normal(0.0006, 0.0004, polls.size))
    row = np.searchsorted(updates, polls, side="right") - 1
    busy = np.where(mean(updates, 0.1) > timeline.machine.gap_w * 1.2, 100.0, 0.0)
    return Readings(
        polls + sensor.clock_offset_s, shown[row], None if average is None else average[row], busy[row]
    )
