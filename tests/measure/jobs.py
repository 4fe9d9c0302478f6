"""Invented jobs of many kernel classes and the logs their GPUs' sensors write. Nothing imports the tool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .invented_gpu import Steps

Array = NDArray[np.float64]

#: Sensor classes: update [s], window [s], lag [s].
CLASSES = {
    1: (0.1, 0.025, 0.0),
    2: (0.1, 0.1, 0.0),
    3: (0.1, 1.0, 0.0),
    4: (0.02, 0.01, 0.0),
    5: (0.1, 0.0, 0.8),
}


@dataclass(frozen=True)
class Job:
    start_s: Array
    end_s: Array
    label: NDArray[np.int64]
    power_w: Array  # per class
    steps: Steps

    @property
    def energy_j(self) -> Array:
        spent = self.steps.energy(self.end_s) - self.steps.energy(self.start_s)
        return np.bincount(self.label, spent, minlength=len(self.power_w))


def job(
    seed: int, *, classes: int = 6, seconds: float = 40.0, mean_s: float = 4e-3, vary: float = 0.02
) -> Job:
    """Phases of a random mix of classes each, launch gaps, idle times; kernels of one class vary."""
    random = np.random.default_rng(seed)
    power = random.uniform(180.0, 420.0, classes)
    length = mean_s * np.exp(random.normal(0.0, 0.6, classes))
    now, start, end, label = 1.0, [], [], []
    while now < seconds:
        mix = random.dirichlet(np.full(classes, 0.5))
        stop = now + random.uniform(0.3, 2.0)
        while now < stop:
            k = int(random.choice(classes, p=mix))
            took = length[k] * np.exp(random.normal(0.0, 0.1))
            start.append(now)
            end.append(now + took)
            label.append(k)
            now += took + random.exponential(3e-4 if random.uniform() < 0.8 else 3e-3)
        if random.uniform() < 0.25:
            now += random.uniform(0.1, 0.6)
    s, e, which = np.array(start), np.array(end), np.array(label)
    edges = np.concatenate([[-3.0], np.column_stack([s, e]).ravel(), [e[-1] + 3.0]])
    watts = np.full(len(edges) - 1, 105.0)
    watts[0] = watts[-1] = 70.0
    watts[1::2] = power[which] * (1 + vary * random.standard_normal(len(s))) * (1 - 0.02 * np.exp(-s / 20))
    return Job(s, e, which, power, Steps(edges, watts))


def sensor_log(
    steps: Steps,
    kind: int,
    seed: int,
    *,
    gain: float = 1.0,
    offset_w: float = 0.0,
    shift_s: float = 0.004,
    drift: float = 15e-6,
    noise_w: float = 0.4,
    window_s: float | None = None,
) -> tuple[Array, Array]:
    """What a logger writes: stamps (before asking, on a clock of its own) and quantized values."""
    random = np.random.default_rng(seed + 1000)
    update, window, lag = CLASSES[kind]
    window = window if window_s is None else window_s
    at = np.arange(steps.edges_s[0] + 1.3 + random.uniform(0, update), steps.edges_s[-1], update)
    if lag:
        grid = np.arange(steps.edges_s[0], steps.edges_s[-1], 0.002)
        power = steps.mean(grid[1:], 0.002)
        held, keep = power[0], np.empty(len(power))
        rate = 1.0 - np.exp(-0.002 / lag)
        for i, value in enumerate(power):
            held += rate * (value - held)
            keep[i] = held
        true = np.interp(at, grid[1:], keep)
    else:
        true = steps.mean(at, window)
    shown = np.round(gain * true + offset_w + random.normal(0, noise_w, len(at)), 2)
    poll = min(0.02, update / 4) * 1.0137
    asked = np.arange(at[0] + 0.001, steps.edges_s[-1], poll)
    read = asked + random.uniform(0.0025, 0.0035, len(asked)) * min(1.0, poll / 0.006)
    row = np.searchsorted(at, read, side="right") - 1
    return asked * (1 + drift) + shift_s, shown[row]


def counter_log(steps: Steps, seed: int, *, rate: float = 1.0, tick_s: float = 0.1) -> tuple[Array, Array]:
    """A cumulative counter in whole millijoules that moves every tick, polled every 20 ms."""
    random = np.random.default_rng(seed + 2000)
    tick = np.arange(steps.edges_s[0] + random.uniform(0, tick_s), steps.edges_s[-1], tick_s)
    joules = np.floor(rate * steps.energy(tick) * 1e3) / 1e3
    polls = np.arange(tick[0] + 0.001, steps.edges_s[-1], 0.0203)
    return polls, 5000.0 + joules[np.searchsorted(tick, polls, side="right") - 1]
