"""Loads in step, or nearly, with a sensor that looks for 25 ms of every 100: how often intervals hold.

Loads and logs are those of ``tests/measure/beat_jobs.py``, phase and window of the sensor drawn for each
seed; gain and offset are known, so that what is left is what the sensor never saw. Printed per period: how
often 90 % intervals hold the energy of classes and of all work, and the run's from its first reading to its
last; half the width of the one of all work at the median, and by how much the run's energy is off on average.

    python benchmarks/beat_energy.py [SEEDS]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from tracetool.core.interval import Z90
from tracetool.hardware.load import load_gpu
from tracetool.measure.class_energy import attribute_classes
from tracetool.measure.design_matrix import span_of
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import build_timeline

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.measure.beat_jobs import LIMIT_W, load

PERIODS_S = (0.100, 0.103)


def trial(seed: int, period_s: float, seconds: float = 9.0) -> tuple[np.ndarray, np.ndarray]:
    """Return misses over deviations of classes, all work and the run; relative width and relative error."""
    truth = load(seed, period_s, seconds=seconds)
    k = len(truth.energy_j)
    timeline = build_timeline(truth.start_s, truth.end_s, truth.label, k)
    log = PowerLog("draw", truth.log_s, truth.log_w, np.zeros(0), np.zeros(0))
    seen = observe(log, timeline, candidate_sensors(load_gpu("a100-sxm", part="sensor"), "power.draw"))
    metered = replace(seen.sensor, gain=1.0, offset_w=0.0, gain_sd=1e-3, offset_sd_w=0.05)
    energies = attribute_classes(replace(seen, sensor=metered), limit_w=LIMIT_W)
    work = energies.energy_j[:k]
    work_sd = np.sqrt(energies.covariance[:k, :k].sum())
    span = np.array(span_of(seen.readings, seen.boxes)) - seen.alignment.offset_s
    run_j = float(np.diff(truth.steps.energy(span))[0])
    total = float(energies.energy_j.sum())
    misses = [
        *(work - truth.energy_j) / energies.energy_sd_j[:k],
        (work.sum() - truth.energy_j.sum()) / work_sd,
        (total - run_j) / np.sqrt(energies.covariance.sum()),
    ]
    return np.array(misses), np.array([Z90 * work_sd / truth.energy_j.sum(), abs(total / run_j - 1.0)])


def main(seeds: int) -> None:
    """Print the table."""
    print("period   hold: classes    work   run   half width of work   run is off")
    for period_s in PERIODS_S:
        misses, sizes = zip(*(trial(seed, period_s) for seed in range(seeds)), strict=True)
        held = np.abs(np.stack(misses)) < Z90
        shares = (held[:, :-2].mean(), held[:, -2].mean(), held[:, -1].mean())
        width, off = np.median(sizes, axis=0)[0], np.mean(sizes, axis=0)[1]
        print(
            f"{1e3 * period_s:4.0f} ms {shares[0]:13.0%} {shares[1]:7.0%} {shares[2]:5.0%}"
            f" {width:18.2%} {off:14.2%}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
