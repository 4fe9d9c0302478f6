"""The parts of a run's time sum to its window to the nanosecond, and their energies to the run's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.replay.group_energy import GroupEnergy
from tracetool.replay.time_budget import WHOLE, _rows, _together, time_budget
from tracetool.replay.time_parts import BUSY, IDLE, PARTS, busy_parts, idle_times, time_parts


@pytest.fixture(scope="module")
def trained(sample_run: Path) -> tt.Run:
    return tt.open(sample_run)


def _slow_parts(start: np.ndarray, end: np.ndarray, kind: np.ndarray) -> list[int]:
    """Count nanosecond by nanosecond."""
    parts = [0, 0, 0, 0, 0]
    for moment in range(int(start.min()), int(end.max())):
        kinds = set(kind[(start <= moment) & (moment < end)].tolist())
        if kinds:
            alone = 2 if 1 in kinds else 3 if 3 in kinds else 4
            parts[alone if 0 not in kinds else 1 if kinds & {1, 3} else 0] += 1
    return parts


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_those_of_a_count_of_every_nanosecond(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = random.integers(0, 300, 25)
    end = start + random.integers(0, 40, 25)
    kind = random.integers(0, 4, 25)
    part_ns, shared_s = busy_parts(start, end, kind)
    assert part_ns.tolist() == _slow_parts(start, end, kind)
    assert np.allclose(shared_s.sum(axis=1) * 1e9, part_ns)
    idle = idle_times(start, end, np.arange(25), (int(start.min()), int(end.max())))
    assert int((idle.end_ns - idle.start_ns).sum()) + int(part_ns.sum()) == int(end.max() - start.min())


def test_parts_sum_to_the_window_exactly(trained: tt.Run, example_run: tt.Run) -> None:
    for run in (trained, example_run):
        for one in time_parts(run):
            assert int(one.part_ns.sum()) == one.span_ns
            assert one.gap_s.sum() + one.idle_s.sum() == pytest.approx(1e-9 * one.part_ns[len(BUSY) :].sum())


def test_measured_energies_are_those_of_attribute(trained: tt.Run) -> None:
    budget = time_budget(trained).together()
    assert budget["part"].to_list() == [*PARTS, WHOLE]
    assert set(budget["source"]) == {"measured"}
    assert budget["energy_j"][:-1].sum() == pytest.approx(budget["energy_j"][-1], rel=1e-12)
    assert budget["time_share"][:-1].sum() == pytest.approx(1.0, rel=1e-12)
    scopes = trained.attribute().scopes
    by_part = dict(zip(budget["part"], budget["energy_j"], strict=True))
    assert by_part[WHOLE] == pytest.approx(scopes["run"]["energy_j"], rel=1e-9)
    assert by_part["computing"] == pytest.approx(scopes["kernels"]["energy_j"], rel=1e-9)
    assert by_part["copies"] == pytest.approx(scopes["copies"]["energy_j"], rel=1e-9)
    assert sum(by_part[p] for p in IDLE) == pytest.approx(scopes["gaps"]["energy_j"], rel=1e-9)
    ends = budget.filter(pl.col("energy_j") > 0)
    assert (ends["energy_low_j"] <= ends["energy_j"]).all()
    assert (ends["energy_high_j"] >= ends["energy_j"]).all()


def test_predicted_energies_are_those_of_predict(trained: tt.Run) -> None:
    budget = time_budget(trained).together()
    total = trained.predict().totals.row(0, named=True)
    assert budget["predicted_energy_j"][-1] == pytest.approx(total["energy_j"], rel=2e-3)
    assert budget["predicted_energy_j"][:-1].sum() == pytest.approx(
        budget["predicted_energy_j"][-1], rel=1e-12
    )


def test_a_run_without_a_log_is_predicted_and_says_so(example_run: tt.Run) -> None:
    summed = tt.summary(example_run)
    assert set(summed.parts["source"]) == {"predicted"}
    assert any("no power readings" in note for note in summed.notes)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "tracelens__h100__Qwen_Qwen1.5-0.5B-Chat.json.gz",
        "hta__nccl_parser_config__nccl_data.json.gz",
        "hta__timeline_analysis__sampled_rank-0.json.gz",
        "hta__triton_example__triton_example.json.gz",
        "tracelens__mi210__gpu_only_trace__gpu_only_trace.json.gz",
    ],
)
def test_parts_of_real_traces_sum_to_the_window(name: str, data: Path, tmp_path: Path) -> None:
    run = tt.ingest(data / "traces" / "kineto" / name, out=tmp_path / "run.tracetool")
    for one in time_parts(run):
        assert int(one.part_ns.sum()) == one.span_ns


@pytest.mark.parametrize(
    ("measured", "source"),
    [((True, True), "measured"), ((False, False), "predicted"), ((True, False), "measured, predicted"),
     ((True, None), None)],
)  # fmt: skip
def test_parts_of_all_gpus_are_measured_where_those_of_each_are(
    measured: tuple[bool | None, ...], source: str | None
) -> None:
    """10 J of each part of each GPU, known to 1: 20 of two, to the root of two."""
    count = len(PARTS) + 1
    ten = np.full(count, 10.0)
    energy = GroupEnergy(ten, ten - 1.0, ten + 1.0, np.zeros(count, np.int64))
    each = [
        _rows(i, ten, replace(energy, measured_j=ten) if how else None, None if how is None else energy)
        for i, how in enumerate(measured)
    ]
    together = _together(each)
    assert {row["source"] for row in together} == {source}
    assert {row["time_ms"] for row in together} == {20.0}
    energies = {row["energy_j"] for row in together}
    assert energies == ({None} if source is None else {20.0})
    if source is not None:
        assert together[0]["energy_high_j"] == pytest.approx(20.0 + 2.0**0.5)
