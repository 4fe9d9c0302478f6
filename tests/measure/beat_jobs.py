"""Invented loads that repeat in step, or nearly, with a sensor that looks for 25 ms every 100 ms.

What a reading shows of such a load is the part of its period that the sensor's phase meets. Nothing here
imports the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .invented_gpu import Steps
from .jobs import sensor_log

Array = NDArray[np.float64]
#: A GPU's power: idle, between kernels, and its limit. [W]
IDLE_W, GAP_W, LIMIT_W = 65.0, 100.0, 400.0
#: Windows that GPUs of this sensor were seen to have. [s]
WINDOWS_S = (0.0176, 0.0254)


@dataclass(frozen=True)
class Load:
    """Work, its true energies and the log of its sensor."""

    start_s: Array
    end_s: Array
    label: NDArray[np.int64]
    steps: Steps
    log_s: Array
    log_w: Array

    @property
    def energy_j(self) -> Array:
        """Energy of each class of work. [J]"""
        spent = self.steps.energy(self.end_s) - self.steps.energy(self.start_s)
        return np.bincount(self.label, spent)


def load(seed: int, period_s: float, *, seconds: float = 9.0, classes: int = 4) -> Load:
    """Return a load whose phase, powers, shares of the period and sensor's window are drawn."""
    random = np.random.default_rng([9, seed])
    power = random.uniform(150.0, 380.0, classes)
    length = random.dirichlet(np.full(classes, 2.0)) * random.uniform(0.4, 0.9) * period_s
    launches = np.maximum(1, np.round(length / 0.005)).astype(np.int64)
    label = np.repeat(np.arange(classes), launches)
    periods = int((seconds - 1.0) / period_s)
    each = np.tile((length / launches)[label], (periods, 1))
    each *= 1.0 + 0.005 * random.standard_normal(each.shape)
    end = 1.0 + period_s * np.arange(periods)[:, None] + np.cumsum(each, axis=1)
    start, end = (end - each).ravel(), end.ravel() - 2e-6
    label = np.tile(label, periods)
    edges = np.concatenate([[-3.0], np.column_stack([start, end]).ravel(), [end[-1] + 1.0, end[-1] + 4.0]])
    watts = np.full(len(edges) - 1, GAP_W)
    watts[0] = watts[-1] = IDLE_W
    watts[1:-2:2] = power[label] * (1.0 + 0.02 * random.standard_normal(len(start)))
    steps = Steps(edges, watts)
    window = float(np.clip(random.normal(0.025, 0.003), *WINDOWS_S))
    stamps, shown = sensor_log(steps, 1, seed, window_s=window)
    return Load(start, end, label, steps, stamps, shown)
