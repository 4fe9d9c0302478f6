"""Windows added up, ranks brought together and waits of other queues, from a handful of numbers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracetool.replay.activities import Activities
from tracetool.replay.edits import Idle, even_ranks
from tracetool.replay.gap_causes import NAMES, Gap
from tracetool.replay.graph import Edge
from tracetool.replay.host_edges import Floors, cross_edges
from tracetool.replay.predict_windows import (
    IDLE_ERROR,
    _added_devices,
    _added_totals,
    added,
    added_signatures,
)

ENDS = ("", "_low", "_high")


def _window(
    kernel_ms: float, gap_ms: float, kernel_w: float, peak_w: float, throttled: float
) -> dict[str, Any]:
    """One clock's record of a window of two GPUs that draw 60 W each with nothing running."""
    gap_j = 2 * 60.0 * gap_ms * 1e-3
    kernel_j = kernel_w * kernel_ms * 1e-3
    reason = NAMES[Gap.HOST]
    zero = dict.fromkeys(NAMES, 0.0)
    record: dict[str, Any] = {
        "clock_mhz": 1410.0, "anchored": True, "idle_power_w": 60.0, "idle_power_low_w": 50.0,
        "idle_power_high_w": 70.0, "kernel_time_ms": kernel_ms, "copy_time_ms": 0.0,
        "throttled_share": throttled, "energy_parts_j": {"gaps": gap_j, "work": kernel_j},
        "gaps_ms": {**zero, reason: 2 * gap_ms}, "gaps_j": {**zero, reason: gap_j},
        "gap_counts": dict.fromkeys(NAMES, 0) | {reason: 2},
        "devices": [
            {"device": i, "energy_j": 0.5 * (kernel_j + gap_j), "peak_power_w": peak_w - i} for i in (0, 1)
        ],
    }  # fmt: skip
    for end, factor in zip(ENDS, (1.0, 0.9, 1.1), strict=True):
        record |= {
            f"kernel_energy{end}_j": factor * kernel_j, f"copy_energy{end}_j": 0.0,
            f"gap_energy{end}_j": factor * gap_j, f"energy{end}_j": factor * (kernel_j + gap_j),
            f"makespan{end}_ms": factor * (kernel_ms + gap_ms), f"gap{end}_ms": factor * 2 * gap_ms,
            f"kernel_power{end}_w": factor * kernel_w, f"copy_power{end}_w": 0.0,
            f"mean_power{end}_w": factor * (kernel_j + gap_j) / (kernel_ms + gap_ms) * 1e3,
            f"peak_power{end}_w": factor * peak_w,
        }  # fmt: skip
    return record


def test_windows_add_up_with_the_idle_time_between_them() -> None:
    """40 and 60 ms of kernels, 10 ms of gaps in each, and 20 ms between: 2.4 J of two idle GPUs."""
    parts = [_window(40.0, 10.0, 400.0, 500.0, 0.1), _window(60.0, 10.0, 300.0, 520.0, 0.6)]
    total = _added_totals(parts, np.array([0.0, 20e-3]), Gap.HOST)
    assert total["makespan_ms"] == pytest.approx(140.0)
    assert total["gap_ms"] == pytest.approx(2 * 40.0)
    assert total["gap_energy_j"] == pytest.approx(2.4 + 2.4)
    assert total["energy_j"] == pytest.approx(16.0 + 18.0 + 4.8)
    assert total["gap_energy_high_j"] == pytest.approx(1.1 * 2.4 + (1.0 + IDLE_ERROR) * 2.4)
    assert total["energy_low_j"] == pytest.approx(0.9 * 36.4 + (1.0 - IDLE_ERROR) * 2.4)
    assert total["energy_parts_j"] == pytest.approx({"gaps": 4.8, "work": 34.0})
    assert total["gaps_ms"][NAMES[Gap.HOST]] == pytest.approx(80.0)
    assert total["gaps_j"][NAMES[Gap.HOST]] == pytest.approx(4.8)
    assert total["gap_counts"][NAMES[Gap.HOST]] == 2 + 2 + 2
    assert total["throttled_share"] == pytest.approx(0.4 * 0.1 + 0.6 * 0.6)
    assert (total["peak_power_w"], total["clock_mhz"], total["idle_power_w"]) == (520.0, 1410.0, 60.0)
    assert total["kernel_power_w"] == pytest.approx(340.0)
    assert total["kernel_power_low_w"] == pytest.approx(340.0 - 0.1 * (40.0 * 400.0 + 60.0 * 300.0) / 100.0)
    assert total["mean_power_w"] == pytest.approx(38.8 / 0.14)
    assert [one["energy_j"] for one in total["devices"]] == pytest.approx([19.4, 19.4])
    assert [one["mean_power_w"] for one in total["devices"]] == pytest.approx([19.4 / 0.14] * 2)
    assert [one["peak_power_w"] for one in total["devices"]] == [520.0, 519.0]


def test_windows_without_kernels_add_up_too() -> None:
    """Copies alone: no kernel is throttled."""
    parts = [_window(0.0, 10.0, 0.0, 60.0, 0.5), _window(0.0, 30.0, 0.0, 60.0, 0.5)]
    total = _added_totals(parts, np.zeros(2), Gap.HOST)
    assert (total["throttled_share"], total["kernel_power_w"]) == (0.0, 0.0)
    assert total["mean_power_w"] == pytest.approx(120.0)
    (device,) = _added_devices([[{"device": 3, "energy_j": 0.0}]], {"makespan_ms": 0.0}, 0.0)
    assert device == {"device": 3, "energy_j": 0.0, "mean_power_w": 0.0}


def test_a_run_of_two_windows_is_told_with_the_idle_time_between(tmp_path: Path) -> None:
    """A signature three times in one window and once in the next; 50 ms pass between them."""
    infos = [
        {"edges": {"launch": n, "sync": 1}, "coverage": {"time": share}, "recorded_makespan_ms": 50.0,
         "unexplained_idle_ms": 1.0, "edges_inferred": 2}
        for n, share in ((3, 1.0), (1, 0.5))
    ]  # fmt: skip
    windows: list[Any] = [
        (
            SimpleNamespace(idle_before_ns=idle_ns, numbers=pl.Series([7])),
            SimpleNamespace(
                totals=[_window(kernel_ms, 10.0, 400.0, 500.0, 0.0)], notes=("replayed all", "a note"),
                signatures=pl.DataFrame(
                    {"signature": [0], "clock_mhz": [1410.0], "launches": [n], "duration_us": [us],
                     "power_w": [us], "throttled": [n == 1]}
                ),
            ),
        )
        for idle_ns, kernel_ms, n, us in ((0, 40.0, 3, 100.0), (50_000_000, 10.0, 1, 300.0))
    ]  # fmt: skip
    pl.DataFrame({"start_ns": [0] * 4}).write_parquet(tmp_path / "kernels.parquet")
    run: Any = SimpleNamespace(path=tmp_path, stamps=None)
    told = added(windows, infos, run)
    assert told["info"]["recorded_makespan_ms"] == pytest.approx(150.0)
    assert told["info"]["coverage"]["time"] == pytest.approx(0.8 * 1.0 + 0.2 * 0.5)
    assert told["info"]["edges"] == {"launch": 4, "sync": 2}
    assert told["totals"][0]["makespan_ms"] == pytest.approx(50.0 + 20.0 + 50.0)
    assert told["notes"][0] == "a note"
    assert "2 windows" in told["notes"][1]
    assert "50 ms between" in told["notes"][1]
    (row,) = told["signatures"].to_dicts()
    assert (row["signature"], row["launches"], row["throttled"]) == (7, 4, True)
    assert row["duration_us"] == pytest.approx(150.0)  # by launches
    assert row["power_w"] == pytest.approx(200.0)  # by time


def test_a_signature_that_no_window_launches_is_as_the_first_says() -> None:
    columns = {"signature": [3], "clock_mhz": [1410.0], "launches": [0], "throttled": [False]}
    frames = [pl.DataFrame(columns | {"duration_us": [us], "power_w": [3.0 * us]}) for us in (10.0, 20.0)]
    (row,) = added_signatures(frames).to_dicts()
    assert (row["duration_us"], row["power_w"], row["launches"]) == (10.0, 30.0, 0)


def _work(start: list[float], length: list[float], device: list[int], queue: list[int]) -> Activities:
    n = len(start)
    return Activities(
        np.array(start), np.array(length), np.array(device), np.array(queue), np.zeros(n, np.int64),
        np.full(n, -1), np.zeros(n, np.bool_), 0,
    )  # fmt: skip


def test_ranks_share_their_work_and_the_least_idle_time() -> None:
    """100 and 300 ns of work come to 200 each; 50 ns without any to the other's 30."""
    work = _work([0.0, 150.0, 0.0, 330.0], [100.0, 200.0, 300.0, 20.0], [0, 0, 1, 1], [0, 0, 1, 1])
    met: Any = SimpleNamespace(member=np.array([1, 3]), meeting=np.array([0, 0]))
    even = even_ranks(work, met, Idle(np.array([1, 3]), np.array([100.0, 300.0])))
    assert even.pace.tolist() == pytest.approx([2.0, 1.0, 2.0 / 3.0, 1.0])
    assert even.idle.ends.tolist() == [1]
    assert even.idle.begins_ns.tolist() == pytest.approx([130.0])


def _crossed(other_ends: float, starts: float) -> list[Any]:
    """Queue 0 works up to ``other_ends``; queue 1 up to 200 us and again from ``starts`` on."""
    work = _work([0.0, 0.0, starts], [other_ends, 2e5, 1e5], [0, 0, 0], [0, 1, 1])
    calls: Any = SimpleNamespace(start_ns=np.zeros(0))
    return cross_edges(work, calls, work.end_ns, np.array([-1, -1, 1]), Floors(2e3, 4e3, 1e3, 1e3, 4e3))


def test_a_wait_for_another_queue_is_told_where_its_own_explains_nothing() -> None:
    (edges,) = _crossed(1e6, 1.003e6)
    assert (edges.source.tolist(), edges.target.tolist()) == ([0], [2])
    assert edges.lag_ns.tolist() == pytest.approx([3e3])
    assert set(edges.kind.tolist()) == {int(Edge.CROSS)}
    # 11 us after its own queue, of which that takes 2 us: 9 us are nothing to explain
    assert _crossed(2.05e5, 2.11e5) == []
    assert len(_crossed(2.05e5, 2.13e5)[0].source) == 1
