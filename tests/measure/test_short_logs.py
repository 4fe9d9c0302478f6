"""Logs of short jobs: few readings, many classes, a clock that moves, a GPU that idles at two powers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.measure.jobs import Job, Steps, counter_log, job, sensor_log
from tests.measure.test_class_energy import NOTHING, _sensor
from tracetool.measure.class_energy import attribute_classes
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.timeline import build_timeline

KNOWN = {"gain": 1.0, "offset_w": 0.0, "gain_sd": 1e-3, "offset_sd_w": 0.05}


def _moving(made: Job, seed: int, by: float) -> Job:
    """The same job where the power of work moves slowly, as under a clock that does."""
    random = np.random.default_rng(seed)
    at = np.arange(made.steps.edges_s[0], made.steps.edges_s[-1], 0.05)
    level = np.zeros(len(at))
    keep = np.exp(-0.05 / 0.15)
    for i in range(1, len(at)):
        level[i] = keep * level[i - 1] + np.sqrt(1 - keep**2) * random.standard_normal()
    factor = np.exp(by * np.interp(made.start_s, at, level))
    watts = made.steps.power_w.copy()
    watts[1::2] *= factor
    return replace(made, steps=Steps(made.steps.edges_s, watts))


def _energies(made: Job) -> np.ndarray:
    each = (made.end_s - made.start_s) * made.steps.power_w[1::2]
    return np.bincount(made.label, each, minlength=len(made.power_w))


def test_more_classes_than_readings_leave_no_class_sure_of_itself() -> None:
    held, energy = [], []
    for seed in range(8):
        made = _moving(job(500 + seed, classes=50, seconds=6.0, mean_s=1e-3), seed, 0.1)
        time, power = sensor_log(made.steps, 1, seed)
        timeline = build_timeline(made.start_s, made.end_s, made.label, 50, 2e-5)
        seen = observe(PowerLog("instant", time, power, NOTHING, NOTHING), timeline, [_sensor(1)])
        found = attribute_classes(
            replace(seen, sensor=replace(seen.sensor, **KNOWN)), limit_w=450.0, unsteady=0.1
        )
        low, high = found.interval()
        truth = _energies(made)
        held.append((low[:50] <= truth) & (truth <= high[:50]))
        energy.append(truth)
    assert float((np.array(held) * np.array(energy)).sum() / np.sum(energy)) > 0.85


def test_a_gpu_that_idles_at_two_powers_leaves_the_work_its_energy() -> None:
    made = job(77, classes=5, seconds=6.0)
    edges = np.concatenate(
        [[made.steps.edges_s[0] - 12.0], made.steps.edges_s, [made.steps.edges_s[-1] + 8.0]]
    )
    watts = np.concatenate([[75.0], made.steps.power_w, [75.0]])
    watts[1], watts[-2] = 140.0, 140.0  # a process holds the GPU, and nothing runs
    made = replace(made, steps=Steps(edges, watts))
    time, power = sensor_log(made.steps, 1, 3)
    polls, joules = counter_log(made.steps, 3)
    log = PowerLog("instant", time, power, polls + 0.004, joules)
    timeline = build_timeline(made.start_s, made.end_s, made.label, 5, 2e-5)
    seen = observe(log, timeline, [_sensor(1)])
    found = attribute_classes(replace(seen, sensor=replace(seen.sensor, **KNOWN)), counter=log)
    first, last = made.start_s[0], made.end_s[-1]
    truth = float(np.diff(made.steps.energy(np.array([first, last])))[0])
    gaps = (last - first) - float((made.end_s - made.start_s).sum())
    work = found.energy_j[:5].sum() + found.power_w[5] * gaps
    assert work == pytest.approx(truth, rel=0.012)
