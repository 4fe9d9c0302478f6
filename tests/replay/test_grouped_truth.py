"""Energies by module, range, step and rank against planted joules: a slice of the benchmark on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.grouped_energy import A100, KEYS, SENSORS, Row, trial
from tests.replay.grouped_jobs import grouped_job

Trial = dict[str, dict[str, list[Row]]]


@pytest.fixture(scope="module")
def tried() -> Trial:
    return trial(1, replace(SENSORS["10 ms of 20 (V100)"], seconds=6.0))


def test_errors_stay_within_three_per_cent(tried: Trial) -> None:
    for key in ("range", "iteration", "gpu"):
        error = [abs(energy / truth - 1) for truth, energy, *_ in tried["on a meter"][key]]
        assert np.mean(error) < 0.01, key
        assert np.quantile(error, 0.95) < 0.03, key
    error = [abs(energy / truth - 1) for truth, energy, *_ in tried["on a meter"]["module"]]
    assert np.mean(error) < 0.03


def test_intervals_hold_the_truth_and_are_no_wider_than_it_takes(tried: Trial) -> None:
    rows = [r for key in KEYS for r in tried["on a meter"][key]]
    held = np.mean([low <= truth <= high for truth, _, low, high, _ in rows])
    assert held > 0.75
    steps = tried["on a meter"]["iteration"]
    width = [(high - low) / energy for _, energy, low, high, _ in steps]
    assert 0.002 < np.median(width) < 0.04  # two per cent a launch, some fifty launches


@pytest.mark.parametrize("key", KEYS)
def test_planted_joules_sum_to_the_run(key: str) -> None:
    job = grouped_job(3, A100, seconds=2.0)
    assert sum(job.energy_j[key].values()) == pytest.approx(sum(job.energy_j["gpu"].values()), rel=1e-9)
