"""Joules that ranks waited for a slow one, and GPUs at equal work, against what was planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.measure.rank_jobs import RankJob, read_job
from tracetool.kernels.collective_matching import arrivals_ns
from tracetool.tables.run import Run as StoredRun

Summed = tuple[RankJob, Any]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Summed:
    job = read_job(tmp_path_factory.mktemp("two"), ranks=2, steps=30, slow=1)
    return job, tt.summary(job.run)


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Summed:
    job = read_job(tmp_path_factory.mktemp("eight"), ranks=8, steps=20, slow=3, hungry=5)
    return job, tt.summary(job.run)


def test_waits_are_cut_where_the_last_rank_came(two: Summed) -> None:
    job, _ = two
    kernels = job.run.kernels
    waited = arrivals_ns(StoredRun.open(job.run.path)) - kernels["start_ns"].to_numpy()
    for device, truth in enumerate(job.truth):
        own = kernels["device"].to_numpy() == device
        assert waited[own].sum() * 1e-9 == pytest.approx(truth["wait_s"], abs=1e-5)


@pytest.mark.parametrize("name", ["two", "eight"])
def test_joules_waiting_are_the_planted_ones(name: str, request: pytest.FixtureRequest) -> None:
    job, summed = request.getfixturevalue(name)
    gpus = summed.gpus.sort("device")
    planted = np.array([row["wait_j"] for row in job.truth])
    assert gpus["wait_energy_j"].sum() == pytest.approx(planted.sum(), rel=0.05)
    low, high = (gpus[f"wait_energy_{end}_j"].to_numpy() for end in ("low", "high"))
    inside = (low <= planted) & (planted <= high)
    assert inside.sum() >= 0.85 * len(planted)
    part = summed.parts.filter(part="waiting for ranks").row(0, named=True)
    assert part["energy_j"] == pytest.approx(gpus["wait_energy_j"].sum(), rel=1e-9)
    assert summed.parts["energy_j"][:-1].sum() == pytest.approx(summed.parts["energy_j"][-1], rel=1e-12)
    slow = int(np.argmin(planted))
    caused = gpus["caused_wait_energy_j"].to_numpy()
    assert caused[slow] == pytest.approx(gpus["wait_energy_j"].sum(), rel=1e-6)
    assert np.delete(caused, slow).max() < 0.01 * caused[slow]


def test_attribute_states_the_same_waits_inside_the_collectives(two: Summed) -> None:
    job, summed = two
    energy = tt.attribute(job.run.path).energy
    assert energy["wait_energy_j"].sum() == pytest.approx(summed.gpus["wait_energy_j"].sum(), rel=1e-9)
    waiting = energy.filter(pl.col("wait_energy_j").is_not_null())
    assert waiting["family"].to_list() == ["collective"]
    assert (waiting["wait_energy_j"] < waiting["energy_j"]).all()
    assert (waiting["wait_ns"] < waiting["duration_ns"]).all()
    by_gpu = tt.energy_by(job.run, ["gpu"]).groups
    assert by_gpu["energy_j"][-1] == pytest.approx(summed.gpus["energy_j"].sum(), rel=1e-9)


def test_gpus_are_ranked_by_energy_at_equal_work(eight: Summed) -> None:
    job, summed = eight
    gpus = summed.gpus
    truth = np.array([row["compute_j"] for row in job.truth])
    assert gpus["device"].to_list()[:2] == [3, 5]
    assert gpus.filter("outlier")["device"].to_list() == [3, 5]
    for row in gpus.iter_rows(named=True):
        more = 100.0 * (truth[row["device"]] / np.median(np.delete(truth, row["device"])) - 1.0)
        assert row["work_energy_more_low_pct"] < more < row["work_energy_more_high_pct"]
    assert gpus.filter(device=3)["work_time_more_pct"][0] == pytest.approx(30.0, abs=1.0)


def test_of_one_gpu_nothing_is_compared(example_run: tt.Run) -> None:
    gpus = tt.summary(example_run).gpus
    assert gpus.height == 1
    assert gpus["work_energy_more_pct"][0] is None
    assert gpus["wait_ms"][0] == 0.0
