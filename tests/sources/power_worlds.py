"""Invented GPUs under bursts of work, their logs polled and stamped as loggers do, offset and all known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetool.hardware.load import load_gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.sensors import candidate_sensors

Floats = NDArray[np.float64]
#: A GPU of each sort of sensor: a tenth of a second, a part of it, a second, some milliseconds.
GPUS = (
    ("rtx-3090", "power.draw.instant"),
    ("a100-sxm", "power.draw.instant"),
    ("h100-sxm", "power.draw"),
    ("v100-sxm2-16gb", "power.draw"),
)
_STEP_S = 1e-3


@dataclass(frozen=True)
class World:
    """What ran, what was logged, and by how much the log's clock is ahead of the trace's."""

    sensors: list[Sensor]
    field: str
    start_s: Floats
    end_s: Floats
    time_s: Floats  # on the log's clock
    power_w: Floats
    offset_s: float


def make_world(seed: int) -> World:
    """Return bursts whose powers differ and wander, on a GPU that warms, read by a sensor of its kind."""
    random = np.random.default_rng(seed)
    gpu, field = GPUS[seed % len(GPUS)]
    sensors = candidate_sensors(load_gpu(gpu, part="sensor"), field, None)
    sensor = sensors[int(random.integers(len(sensors)))]
    count = int(random.integers(12, 24))
    start = np.cumsum(random.uniform(0.3, 1.8, count))
    end = start + np.diff(start, append=start[-1] + 1.0) * random.uniform(0.1, 0.85, count)
    time = np.arange(-4.0, end[-1] + 5.0, _STEP_S)
    power = np.full(len(time), 60.0)
    swing = random.uniform(80, 320)
    for a, b, share in zip(start, end, random.uniform(0.6, 1.0, count), strict=True):
        inside = (time >= a) & (time < b)
        wave = 1.0 + 0.1 * np.sin(2 * np.pi * random.uniform(0.5, 6.0) * time[inside])
        power[inside] += swing * share * wave * (1.0 + 0.02 * a / end[-1])
    settle = np.exp(-np.arange(0.0, 0.02, _STEP_S) / 0.002)  # regulators and input filter
    power = np.convolve(power, settle / settle.sum())[: len(power)]
    updates = np.arange(-2.9 + random.uniform(0, sensor.update_s), time[-1] - 0.1, sensor.update_s)
    energy = np.concatenate([[0.0], np.cumsum(power) * _STEP_S])
    edges = np.append(time, time[-1] + _STEP_S)
    shown = np.interp(updates, edges, energy) - np.interp(updates - sensor.window_s, edges, energy)
    shown = random.normal(1.0, 0.02) * shown / sensor.window_s + random.normal(0, 1.5)
    shown = np.round(shown + random.normal(0, 1.0, len(shown)), 2)
    spacing = float(random.choice([0.02, 0.05, 0.1, 0.25, 0.5]))
    polls = np.arange(-2.4, time[-1] - 0.3, spacing)
    polls = np.sort(polls + random.normal(0, 0.001, len(polls)))
    seen = shown[np.searchsorted(updates, polls, side="right") - 1]
    offset = float(random.uniform(-1e4, 1e4))
    stamps = polls - random.normal(0.003, 0.002)  # a line is stamped, then the driver asked
    return World(sensors, field, start, end, stamps + offset, seen, offset)
