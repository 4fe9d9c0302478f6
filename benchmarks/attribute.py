"""How long attribution takes at size, and how far off it and the controls are.

Prints, for a job of a million kernels, a hundred thousand readings and five thousand classes, the time
of each step; then, for small jobs through every class of sensor, the error of the attribution beside
those of the two controls (energy by time share, energy by model share).

    python benchmarks/attribute.py [KERNELS [READINGS [CLASSES]]]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np
from scipy.signal import lfilter

from tracetool.hardware.sensors import sensor_of
from tracetool.measure.class_energy import attribute_classes
from tracetool.measure.design_matrix import span_of
from tracetool.measure.naive_estimates import by_model, by_time
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.timeline import build_timeline

NOTHING = np.zeros(0)


def _job(kernels: int, classes: int, seconds: float, seed: int):
    """Kernels in phases of a few classes each, small gaps between them, and true power as steps."""
    random = np.random.default_rng(seed)
    phase = np.sort(random.integers(0, max(kernels // 400, 4), kernels))
    members = random.integers(0, classes, (int(phase.max()) + 1, 12))
    label = members[phase, random.integers(0, 12, kernels)].astype(np.int64)
    length = np.exp(random.normal(0.0, 0.7, classes))[label] * random.uniform(0.9, 1.1, kernels)
    gap = random.exponential(0.05, kernels)
    edges = np.cumsum(np.column_stack([gap, length]).ravel())
    edges *= seconds / edges[-1]
    power = random.uniform(150.0, 420.0, classes)
    watts = np.empty(2 * kernels)
    watts[0::2], watts[1::2] = 110.0, power[label]
    return edges[0::2], edges[1::2], label, power, np.concatenate([[0.0], edges]), watts


def _log(edges, watts, update: float, window: float, seed: int):
    random = np.random.default_rng(seed)
    energy = np.concatenate([[0.0], np.cumsum(watts * np.diff(edges))])
    at = np.arange(window + 0.2, edges[-1], update)
    mean = (np.interp(at, edges, energy) - np.interp(at - window, edges, energy)) / window
    polls = np.repeat(at, 3) + np.tile([0.001, 0.034, 0.067], len(at)) * update / 0.1
    return polls, np.repeat(mean + random.normal(0.0, 0.5, len(at)), 3), energy


def _truth(spans, label, edges, energy, classes: int):
    spent = np.interp(spans[1], edges, energy) - np.interp(spans[0], edges, energy)
    return np.bincount(label, spent, minlength=classes)


def large(kernels: int, readings: int, classes: int) -> None:
    seconds = readings * 0.1
    start, end, label, _, edges, watts = _job(kernels, classes, seconds, 0)
    polls, power, energy = _log(edges, watts, 0.1, 0.1, 1)
    truth = _truth((start, end), label, edges, energy, classes)
    sensor = replace(sensor_of("ampere-ga10x", "instant"), gain_sd=1e-4)
    begin = time.perf_counter()
    timeline = build_timeline(start, end, label, classes, 2e-5)
    built = time.perf_counter()
    seen = observe(PowerLog("instant", polls, power, NOTHING, NOTHING), timeline, [sensor])
    aligned = time.perf_counter()
    found = attribute_classes(seen)
    done = time.perf_counter()
    print(f"{kernels:,} kernels, {len(seen.readings):,} readings, {classes:,} classes")
    print(f"  timeline {built - begin:.1f} s, alignment {aligned - built:.1f} s,", end=" ")
    print(f"attribution {done - aligned:.1f} s, together {done - begin:.1f} s")
    many = (found.identification.coverage[:classes] >= 20) & (truth > 0)
    error = np.abs(found.energy_j[:classes][many] / truth[many] - 1)
    low, high = found.interval()
    held = (low[:classes] <= truth) & (truth <= high[:classes]) & (truth > 0)
    if many.any():
        print(
            f"  {int(many.sum())} classes seen by 20 windows or more: energy error {error.mean():.1%} on",
            end="",
        )
        print(f" average, {np.quantile(error, 0.99):.1%} at the 99th percentile")
    print(f"  90 % intervals hold {held.sum() / max((truth > 0).sum(), 1):.0%} of the truth")


def _lag_log(edges, watts, update: float, lag: float, seed: int):
    """A capacitor's reading: power through a first-order filter."""
    random = np.random.default_rng(seed)
    energy = np.concatenate([[0.0], np.cumsum(watts * np.diff(edges))])
    grid = np.arange(0.0, edges[-1], 0.002)
    mean = np.diff(np.interp(grid, edges, energy)) / 0.002
    rate = 1.0 - np.exp(-0.002 / lag)
    slow, _ = lfilter([rate], [1.0, rate - 1.0], mean, zi=[(1.0 - rate) * mean[0]])
    at = np.arange(0.2, edges[-1] - 0.01, update)
    polls = np.repeat(at, 3) + np.tile([0.001, 0.034, 0.067], len(at)) * update / 0.1
    shown = np.interp(at, grid[1:], slow) + random.normal(0.0, 0.5, len(at))
    return polls, np.repeat(shown, 3), energy


KINDS = {
    1: ("ampere-ga100", "draw", 0.1, 0.025), 2: ("ampere-ga10x", "instant", 0.1, 0.1),
    3: ("hopper", "average", 0.1, 1.0), 4: ("volta", "draw", 0.02, 0.01), 5: ("kepler", "draw", 0.1, 0.8),
}  # fmt: skip


def _small_job(kind: int, seed: int, gain_drawn: bool, seconds: float = 60.0):
    """One job of ten classes through a sensor: what was found, and the truth."""
    architecture, field, update, window = KINDS[kind]
    start, end, label, power, edges, watts = _job(int(200 * seconds), 10, seconds, seed)
    logged = (_lag_log if kind == 5 else _log)(edges, watts, update, window, seed)
    polls, shown, energy = logged
    sensor = sensor_of(architecture, field)
    if gain_drawn:
        random = np.random.default_rng(1000 * kind + seed)
        shown = shown * (1 + sensor.gain_sd * random.standard_normal())
        shown = shown + sensor.offset_sd_w * random.standard_normal()
    else:
        sensor = replace(sensor, gain_sd=1e-4, offset_sd_w=0.01)
    seen = observe(
        PowerLog(field, polls, shown, NOTHING, NOTHING), build_timeline(start, end, label, 10, 2e-5), [sensor]
    )
    # What the log speaks of is what it is judged by; the log's clock has the offset that was found.
    span = tuple(t - seen.alignment.offset_s for t in span_of(seen.readings, seen.boxes))
    truth = _truth((np.clip(start, *span), np.clip(end, *span)), label, edges, energy, 10)
    return attribute_classes(seen), truth, power


def small() -> None:
    print("error of all classes' energies together: attribution, by time share, by model share (15 % model)")
    for kind in KINDS:
        rows = []
        for seed in range(3):
            found, truth, power = _small_job(kind, seed, gain_drawn=False)
            model = power * (1 + 0.15 * np.random.default_rng(seed).standard_normal(10))
            says = (
                found.energy_j[:10],
                by_time(found.seconds[:10], truth.sum()),
                by_model(found.seconds[:10], model, truth.sum()),
            )
            rows.append([np.abs(s - truth).sum() / truth.sum() for s in says])
        mean = np.mean(rows, axis=0)
        print(f"  class {kind}: {mean[0]:6.1%} {mean[1]:6.1%} {mean[2]:6.1%}")


def by_gpu(count: int = 40) -> None:
    """How often intervals hold over GPUs whose gain and offset are drawn as their class states."""
    print(f"share of {count} GPUs' classes held by their 90 % intervals")
    for kind in (1, 2, 4):
        held = []
        for seed in range(count):
            found, truth, _ = _small_job(kind, seed, gain_drawn=True, seconds=15.0)
            low, high = found.interval()
            seen = found.identification.coverage[:10] >= 5
            held += list(((low[:10] <= truth) & (truth <= high[:10]))[seen])
        print(f"  class {kind}: {np.mean(held):.1%}")


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    large(*(given + [1_000_000, 100_000, 5_000][len(given) :]))
    small()
    by_gpu()
