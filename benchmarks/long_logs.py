"""Attribution and checks of long power logs: time against the readings, and against plain integration.

An A100's sensor (25 ms every 100 ms) polled every 20 ms over kernels of twenty classes. Each line gives
processor time of ``attribute`` and ``check-power`` of so many readings, over that of integrating them, and,
from the second line on, how it grew over how the readings did: 1 is linear. Energies are held against truth.

    python benchmarks/long_logs.py [READINGS ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import polars as pl

from tracetool.hardware.load import load_gpu
from tracetool.measure.attributed_work import Work
from tracetool.measure.device_attribution import LoggedDevice, attribute_device
from tracetool.measure.power_check.check import check_telemetry
from tracetool.tables.schema import load_schema

#: Classes of kernels, their mean length and the polls. [1], [s], [s]
CLASSES, MEAN_S, POLL_S = 20, 0.04, 0.0203
ORIGIN_NS = 1_767_000_000_000_000_000


def invented(readings: int) -> tuple[pl.DataFrame, Work, np.ndarray]:
    """Return a log of so many lines, what ran beside it, and the joules of each class."""
    random = np.random.default_rng(1)
    count = int(readings * POLL_S / MEAN_S / 1.3)
    label = np.repeat(random.integers(0, CLASSES, count // 10 + 1), 10)[:count]
    length, gap = MEAN_S * random.lognormal(0.0, 0.3, count), random.exponential(0.25 * MEAN_S, count)
    end = np.cumsum(length + gap)
    start = end - length
    edges = np.concatenate([[-5.0], np.column_stack([start, end]).ravel(), [end[-1] + 5.0]])
    watts = np.full(len(edges) - 1, 90.0)
    watts[1::2] = random.uniform(150.0, 380.0, CLASSES)[label] * (1.0 + 0.02 * random.standard_normal(count))
    joules = np.concatenate([[0.0], np.cumsum(watts * np.diff(edges))])
    at = np.arange(-3.5, end[-1] + 4.0, 0.1)
    shown = (np.interp(at, edges, joules) - np.interp(at - 0.025, edges, joules)) / 0.025
    shown = np.round(shown + random.normal(0.0, 0.4, len(at)), 2)
    polls = np.arange(-3.3, end[-1] + 4.0, POLL_S)
    log = {"time_ns": (polls * 1e9).astype(np.int64) + ORIGIN_NS, "device": 0, "field": "power.draw"}
    power_w = shown[np.searchsorted(at, polls + 0.003, side="right") - 1]
    telemetry = pl.DataFrame({**log, "power_w": power_w, "power_kind": "average", "source": "log"})
    times = [(moments * 1e9).astype(np.int64) + ORIGIN_NS for moments in (start, end)]
    names = [f"k{i}" for i in range(CLASSES)]
    work = Work(names, [None] * CLASSES, [None] * CLASSES, label.astype(np.int64), *times, 2e-5)
    spent = np.interp(end, edges, joules) - np.interp(start, edges, joules)
    return load_schema("telemetry").conform(telemetry), work, np.bincount(label, spent, CLASSES)


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Return processor time and result. [s]"""
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def main(sizes: list[int]) -> None:
    gpu = load_gpu("a100-sxm-40gb", part="sensor")
    before: tuple[int, float, float] | None = None
    for size in sizes:
        telemetry, work, truth = invented(size)
        seconds = telemetry["time_ns"].to_numpy() * 1e-9
        plain_s, _ = timed(lambda: np.trapezoid(telemetry["power_w"].to_numpy(), seconds))  # noqa: B023
        attributed_s, found = timed(
            lambda: attribute_device(
                telemetry,  # noqa: B023
                work,  # noqa: B023
                LoggedDevice(0, 0, gpu),
                origin_ns=ORIGIN_NS,
                windows=None,
                prior={},
                sensor_values={},
                source="log",
            )
        )
        checked_s, _ = timed(lambda: check_telemetry(telemetry, {0: work}, {0: gpu}))  # noqa: B023
        worst = float(np.abs(found.classes.energy_j[:CLASSES] / truth - 1.0).max())  # type: ignore[attr-defined]
        grown = ""
        if before is not None:
            more = telemetry.height / before[0]
            growth = [
                now / then / more for now, then in zip((attributed_s, checked_s), before[1:], strict=True)
            ]
            grown = f"; over readings they grew by {growth[0]:.2f} and {growth[1]:.2f}"
        ratios = [taken_s / max(plain_s, 1e-6) for taken_s in (attributed_s, checked_s)]
        print(
            f"{telemetry.height:,} readings, {len(work.label):,} kernels: attribute {attributed_s:.2f} s"
            f" ({ratios[0]:,.0f} x integrating), check-power {checked_s:.2f} s ({ratios[1]:,.0f} x){grown};"
            f" worst class {worst:.2%} off"
        )
        before = telemetry.height, attributed_s, checked_s


if __name__ == "__main__":
    main([int(float(size)) for size in sys.argv[1:]] or [250_000, 1_000_000])
