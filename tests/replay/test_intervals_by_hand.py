"""Joules, waits and the ends of their intervals from a few numbers that are added up here, without a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.model.operators import rows_of
from tracetool.core.operators import OperatorColumns
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.without_cause import Closed, closed
from tracetool.replay.gap_causes import NAMES
from tracetool.replay.gpu_work import _add_caused, _row
from tracetool.replay.group_energy import GroupEnergy, GroupTimes, PredictedCosts
from tracetool.replay.roofline import _rows
from tracetool.replay.scope_totals import IDLE_ERROR, DeviceWork, Spread, budget, work_spread

ENDS = ("", "_low", "_high")


def _joules(*middle: float) -> GroupEnergy:
    """Return energies that may be 30 % less or 40 % more."""
    energy = np.array(middle)
    return GroupEnergy(energy, 0.7 * energy, 1.4 * energy, np.zeros(len(energy), np.int64))


def _sets(share: list[list[float]], shared_s: list[float]) -> GroupTimes:
    n, none = len(shared_s), np.zeros(len(share))
    return GroupTimes(np.arange(n), np.array(share), np.array(shared_s), none, none)


def test_idle_time_is_told_in_ms_with_both_ends() -> None:
    """20 ms of idle time, 15 to 28; at 50 W that is 1 J, with 0.4 J of 8 ms more."""
    column = lambda value: np.array([[value]])  # noqa: E731
    predicted: Any = SimpleNamespace(
        power_w=column(200.0), power_low_w=column(180.0), power_high_w=column(230.0),
        idle_w=np.array([50.0]), requested_mhz=np.array([1410.0]), throttled_share=column(0.0),
    )  # fmt: skip
    one, none = np.ones(1), np.zeros(1)
    window: Any = SimpleNamespace(
        makespan_s=one, makespan_low_s=one, makespan_high_s=one, busy_s=one, gap_s=20e-3 * one,
        gap_low_s=15e-3 * one, gap_high_s=28e-3 * one, peak_w=200.0 * one,
    )  # fmt: skip
    work = DeviceWork(rows_of("gemm", m=[64]), predicted, column(1e-3), column(0.2))
    spread = Spread((none, none), (none, none))
    (record,) = budget(work, window, anchored=True, spread=lambda _: spread)
    assert [record[f"gap{end}_ms"] for end in ENDS] == pytest.approx([20.0, 15.0, 28.0])
    joules = [1.0, 1.0 - np.hypot(0.25, IDLE_ERROR), 1.0 + np.hypot(0.4, IDLE_ERROR)]
    assert [record[f"gap_energy{end}_j"] for end in ENDS] == pytest.approx(joules)


def test_silences_that_no_replay_holds_are_idle_time_of_the_run() -> None:
    """3 s of silences beside gaps of 0.5 s; 30 ms and 2 J of unexplained idle time are taken out."""
    rows = pl.DataFrame(
        {"cause": [causes.UNEXPLAINED, causes.UNEXPLAINED, causes.IDLE], "time_ms": [10.0, 20.0, 3500.0],
         "energy_j": [0.5, 1.5, 175.0]}
    )  # fmt: skip
    pauses = SimpleNamespace(total_ns=3_000_000_000)
    booked: Any = SimpleNamespace(rows=rows, recorded=SimpleNamespace(replays=SimpleNamespace(pauses=pauses)))
    gap_ns = np.zeros(len(NAMES))
    gap_ns[0] = 5e8
    kept = closed(booked, (causes.UNEXPLAINED,))
    assert (kept.time_s, kept.energy_j) == pytest.approx((30e-3, 2.0))
    assert kept.idle_s(gap_ns) == pytest.approx(3.5)
    away = closed(booked, (causes.IDLE,))
    assert (away.time_s, away.energy_j) == pytest.approx((3.5, 175.0))
    assert away.idle_s(gap_ns) == pytest.approx(0.5)
    # nothing closed and nothing silent: gaps of 8 ns are no more and no less
    assert Closed().idle_s(gap_ns) == pytest.approx(0.5)
    assert Closed().idle_s(np.full(len(NAMES), 8.0)) == pytest.approx(len(NAMES) * 8e-9)


def test_work_that_gpus_do_not_share_is_not_compared() -> None:
    """3 ms of waits of 8 ms in all: waits and the whole are told, equal work where there is any."""
    gpu: Any = SimpleNamespace(device=4)
    sets = _sets([[1.0, 1.0], [0.0, 1.0], [0.5, 0.0]], [5e-3, 3e-3])
    row = _row(gpu, sets, _joules(10.0, 2.0, 6.0), None, equal=True)
    assert (row["wait_ms"], row["work_ms"]) == pytest.approx((3.0, 2.5))
    assert [row[f"work_energy{end}_j"] for end in ENDS] == pytest.approx([6.0, 4.2, 8.4])
    row = _row(gpu, sets, None, _joules(10.0, 2.0, 0.0), equal=False)
    assert (row["source"], row["energy_j"], row["wait_energy_j"]) == ("predicted", 10.0, 2.0)
    assert [row[f"work_energy{end}_j"] for end in ENDS] == [None] * 3
    assert row["work_ms"] is None


def test_waits_of_all_gpus_for_one_add_up() -> None:
    """GPU 1 was waited for by both others, 3 and 4 ms: 30 and 40 J, 9 and 12 less or 12 and 16 more."""
    none = [[0.0, 0.0]] * 4
    tables: Any = [
        (None, _sets([*none, [0.0, 1.0]], [5e-3, wait_s]), _joules(0, 0, 0, 0, joules), None)
        for wait_s, joules in ((3e-3, 30.0), (4e-3, 40.0))
    ]
    rows: list[dict[str, Any]] = [{}, {}]
    _add_caused(rows, tables)
    assert [row["caused_wait_ms"] for row in rows] == pytest.approx([0.0, 7.0])
    assert [rows[1][f"caused_wait_energy{end}_j"] for end in ENDS] == pytest.approx([70.0, 55.0, 90.0])


def test_errors_of_one_family_add_up_and_families_err_apart() -> None:
    """Products of 10 and 20 J, 2 + 2 J less or 5 + 4 more, a norm of 5 J, 1 J less or 12 more: 15 J more."""
    costs = PredictedCosts(
        gpu="a100-sxm",
        energy_j=np.array([10.0, 20.0, 5.0]),
        low=np.array([0.8, 0.9, 0.8]),
        high=np.array([1.5, 1.2, 3.4]),
        family=np.array(["gemm", "gemm", "norm"], dtype=object),
        idle_w=50.0,
    )
    made = costs.of(_sets([[1.0, 1.0, 1.0], [0.0, 0.5, 0.0]], [1.0, 1.0, 1.0]))
    assert made.energy_j.tolist() == pytest.approx([35.0, 10.0])
    assert made.low_j.tolist() == pytest.approx([35.0 - 17.0**0.5, 9.0])
    assert made.high_j.tolist() == pytest.approx([50.0, 12.0])
    idle = GroupTimes(np.zeros(0, np.int64), np.zeros((1, 0)), np.zeros(0), np.array([1.5]), np.array([0.5]))
    waiting = costs.of(idle)
    assert waiting.energy_j.tolist() == [100.0]
    assert waiting.high_j.tolist() == pytest.approx([100.0 * (1.0 + IDLE_ERROR)])


def test_predicted_joules_of_a_row_are_those_of_all_its_launches() -> None:
    """4 launches of 250 mJ are 1 J, 0.8 to 1.6 J; at 500 us each they take 2 ms."""
    signatures = pl.DataFrame({
        "signature": [0], "name": ["a"], "family": ["gemm"], "launches": [4], "predicted_from": ["shapes"],
        "measured_duration_us": [500.0], "flops": [1e9], "dram_bytes": [1e6], "energy_mj": [250.0],
        "energy_low_mj": [200.0], "energy_high_mj": [400.0],
    })  # fmt: skip
    run: Any = SimpleNamespace(
        signatures=pl.DataFrame(
            {"signature": [0], "operator_name": ["aten::mm"], "input_dims": [[[64, 32], [32, 16]]]}
        )
    )
    predicted: Any = SimpleNamespace(
        signatures=signatures, replays=SimpleNamespace(rows=rows_of("gemm", m=[64], n=16, k=32))
    )
    row = _rows(run, predicted).row(0, named=True)
    assert [row[f"predicted{end}_j"] for end in ENDS] == pytest.approx([1.0, 0.8, 1.6])
    assert (row["time_ms"], row["flops"], row["dram_bytes"]) == pytest.approx((2.0, 4e9, 4e6))
    assert (row["operator"], row["shape"]) == ("aten::mm", "64x32 32x16")
    assert (row["m"], row["n"], row["k"]) == (64, 16, 32)


def test_a_clock_nobody_recorded_is_an_error_of_all_kernels_together() -> None:
    """Two families of 1 ms each, 20 % less: 10 % of that is the clock's, which both ran at."""
    timing = SimpleNamespace(low=np.full((2, 1), 0.8), high=np.full((2, 1), 1.2), clock_low=np.full(2, 0.9))
    joules = np.array([[0.1], [0.1]])
    predicted: Any = SimpleNamespace(
        timing=timing, energy_j=joules, energy_low_j=joules, energy_high_j=joules
    )
    rows = OperatorColumns(np.array(["gemm", "softmax"], dtype=object), {})
    work = DeviceWork(rows, predicted, np.full((2, 1), 1e-3), joules)
    below, above = work_spread(work, np.ones(2, np.bool_)).time_s
    own = 1.0 - np.exp(-np.sqrt(np.log(0.8) ** 2 - np.log(0.9) ** 2))
    assert below.tolist() == pytest.approx([1e-3 * np.hypot(own * 2**0.5, 2 * 0.1)])
    assert above.tolist() == pytest.approx([1e-3 * 0.2 * 2**0.5])
