"""An invented GPU and its loggers, written apart from the tool: what the tests know to be true.

Power is a list of steps; every sensor integrates those steps. Nothing here imports the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """Power that is constant between edges."""

    edges_s: Array  # (m + 1,)
    power_w: Array  # (m,)

    def energy(self, at_s: Array) -> Array:
        joules = np.concatenate([[0.0], np.cumsum(self.power_w * np.diff(self.edges_s))])
        return np.interp(at_s, self.edges_s, joules)

    def mean(self, at_s: Array, window_s: float) -> Array:
        return (self.energy(at_s) - self.energy(at_s - window_s)) / window_s

    def now(self, at_s: Array) -> Array:
        i = np.clip(np.searchsorted(self.edges_s, at_s, side="right") - 1, 0, len(self.power_w) - 1)
        return self.power_w[i]


def shape(u: Array) -> Array:
    """A kernel's profile: a ramp up, a plateau with a hump, a tail. Mean 1 by construction below."""
    return 1.0 - 0.22 * np.exp(-u / 0.07) + 0.06 * np.sin(2 * np.pi * u) - 0.15 * np.exp((u - 1.0) / 0.06)


_FINE = np.linspace(0.0, 1.0, 20001)
SHAPE_MEAN = float(np.mean(shape(_FINE)))


@dataclass(frozen=True)
class Campaign:
    """Repeated runs of one kernel, as a FinGraV campaign makes them."""

    run: NDArray[np.int64]
    start_s: Array
    end_s: Array
    steps: Steps
    sse_w: float  # true mean of the steady execution
    ssp_w: float  # true mean of steady power
    end_w: float  # true mean of a run's last execution
    duration_s: float


def campaign(
    *,
    seed: int,
    runs: int = 200,
    executions: int = 40,
    duration_s: float = 100e-6,
    power_w: float = 600.0,
    settle: float = 8.0,
    begin_share: float = 0.88,
    overshoot: float = 0.18,
    odd_share: float = 0.12,
) -> Campaign:
    """Three slower warm-up executions that overshoot, then a slow rise from SSE to SSP."""
    random = np.random.default_rng(seed)
    cells = 40
    u = (np.arange(cells) + 0.5) / cells
    form = shape(u) / shape(u).mean()
    run, start, end, edges, watts = [], [], [], [0.0], []
    now = 0.01
    warm = np.array([1.3, 1.12, 1.05])
    for r in range(runs):
        now += 0.004 + random.uniform(0.0, 0.003)
        slow = 1.0 + 0.10 * random.uniform() + 0.05 if random.uniform() < odd_share else 1.0
        own = duration_s * slow * (1.0 + 0.004 * random.standard_normal())
        for j in range(executions):
            length = own * (1.0 + 0.002 * random.standard_normal()) * (warm[j] if j < 3 else 1.0)
            level = power_w * (1.0 - (1.0 - begin_share) * np.exp(-max(j - 3, 0) / settle))
            if j < 3:
                level = power_w * (1.0 + overshoot * (1.0 - abs(j - 1) / 2.0))
            edges += [now, *(now + length * np.arange(1, cells + 1) / cells)]
            watts += [140.0, *(level * form)]
            run.append(r)
            start.append(now)
            end.append(now + length)
            now += length + 3e-6
    edges.append(now + 0.02)
    watts.append(140.0)
    return Campaign(
        np.array(run),
        np.array(start),
        np.array(end),
        Steps(np.array(edges), np.array(watts)),
        power_w * begin_share,
        power_w,
        power_w * (1.0 - (1.0 - begin_share) * np.exp(-max(executions - 4, 0) / settle)),
        duration_s,
    )


#: Components that a logger reports, each a share of the total power.
PARTS = {"xcd": 0.62, "iod": 0.2, "hbm": 0.12}


@dataclass(frozen=True)
class GpuLog:
    """A logger on the GPU: its own clock, jitter, noise; averaging or not."""

    gpu_s: Array
    power_w: dict[str, Array]
    sync_host_s: Array
    sync_gpu_s: Array
    sync_delay_s: Array
    true_s: Array  # host time of the samples, which no user knows


def gpu_log(
    steps: Steps,
    *,
    seed: int,
    period_s: float = 1e-3,
    window_s: float = 0.0,
    drift: float = 25e-6,
    shift_s: float = 137.25,
    noise: float = 0.012,
    points: int = 2,
) -> GpuLog:
    random = np.random.default_rng(seed)
    span = steps.edges_s[-1]
    at = np.arange(period_s + window_s, span, period_s)
    at = np.sort(at + random.uniform(-0.02, 0.02, len(at)) * period_s)
    true = steps.now(at) if window_s <= 0 else steps.mean(at, window_s)
    power = {"total": true * (1 + noise * random.standard_normal(len(at)))}
    for name, share in PARTS.items():
        power[name] = share * true * (1 + noise * random.standard_normal(len(at)))
    to_gpu = lambda host: (host - 0.3 * span) * (1 + drift) + shift_s  # noqa: E731
    when = np.linspace(0.0, span, points)
    delay = 6e-6 + random.exponential(2e-6, points)
    return GpuLog(
        to_gpu(at), power, when, to_gpu(when + delay * random.uniform(0.35, 0.65, points)), delay, at
    )
