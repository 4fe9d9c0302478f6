"""Runs of one kernel laid one after another: clocks that do not meet, components that all of them have."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.measure.fingrav.basis import end_spline
from tracetool.measure.fingrav.campaign_runs import Part, join_parts, read_part
from tracetool.measure.fingrav.campaign_tables import read_samples
from tracetool.measure.fingrav.executions import Executions, steady_execution
from tracetool.measure.fingrav.interleaving import Activities, _samples_near, _solved
from tracetool.measure.fingrav.profile import _outliers
from tracetool.measure.fingrav.settling import GoldenSamples
from tracetool.measure.fingrav.stitch import Placed, Samples, place


def _part(begin_s: float, components: dict[str, float], names: tuple[str, ...], error_s: float) -> Part:
    """One execution of 2 s, another activity 1 s later, and samples from 1 s before to 6 s after."""
    start = begin_s + np.array([0.0, 3.0])
    time = begin_s + np.array([-1.0, 1.0, 6.0])
    return Part(
        Executions(np.zeros(1, np.int64), np.zeros(1, np.int64), start[:1], start[:1] + 2.0),
        Samples(time, {name: np.full(3, watts) for name, watts in components.items()}, 0.5, 2.0, error_s),
        Activities(start, start + np.array([2.0, 1.0]), np.array([0, 1]), names),
        "",
    )


def test_runs_are_laid_ten_seconds_from_one_another() -> None:
    one = _part(100.0, {"total": 300.0, "memory": 50.0}, ("k", "a"), 1e-6)
    two = _part(-7.0, {"total": 200.0, "gpu": 150.0}, ("k", "b"), 3e-6)
    executions, samples, activities = join_parts([one, two])
    # the first takes 7 s from its first sample on, the second begins 10 s later
    assert executions.start_s == pytest.approx([1.0, 18.0])
    assert executions.end_s == pytest.approx([3.0, 20.0])
    assert executions.run.tolist() == [0, 1]
    assert samples.time_s == pytest.approx([0.0, 2.0, 7.0, 17.0, 19.0, 24.0])
    assert {name: watts.tolist() for name, watts in samples.power_w.items()} == {
        "total": [300.0] * 3 + [200.0] * 3
    }
    assert samples.error_s == 3e-6
    assert activities.names == ("k", "a", "b")
    assert activities.label.tolist() == [0, 1, 0, 2]
    assert activities.start_s == pytest.approx([1.0, 4.0, 18.0, 21.0])


def test_components_that_all_runs_have_are_kept() -> None:
    parts = [_part(begin, {"total": 300.0, "memory": 50.0}, ("k", "a"), 0.0) for begin in (0.0, 50.0)]
    assert set(join_parts(parts)[1].power_w) == {"total", "memory"}


def test_one_run_alone_begins_at_zero() -> None:
    executions, samples, _ = join_parts([_part(40.0, {"total": 300.0, "memory": 50.0}, ("k", "a"), 0.0)])
    assert executions.start_s == pytest.approx([1.0])
    assert set(samples.power_w) == {"total", "memory"}


def test_samples_of_one_stretch_are_cut_into_stretches_alike() -> None:
    """240 samples beside one kernel after another: ten in each of two dozen stretches."""
    start = np.arange(60) * 5e-3
    work = Activities(start, start + 4e-3, np.zeros(60, np.int64), ("k",))
    time = np.arange(1, 241) * 1.25e-3
    samples = Samples(time, {"total": np.arange(240.0)}, 1e-3, 1.25e-3)
    _, power, stretch = _samples_near(work, samples)
    assert power.tolist() == list(range(240))
    assert np.bincount(stretch).tolist() == [10] * 24


def _executions(*rows: list[float]) -> Executions:
    length: Floats = np.concatenate(rows)
    run = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    place = np.concatenate([np.arange(len(row)) for row in rows])
    start = np.arange(float(len(length))) * 100.0
    return Executions(run, place, start, start + length)


def test_executions_are_steady_once_they_no_longer_shorten() -> None:
    assert steady_execution(_executions([9.0, 6.0, 5.05, 5.0], [9.2, 6.0, 5.05, 5.0])) == 2
    # what one of four runs alone goes on to tells nothing
    assert steady_execution(_executions([9.0, 5.0, 4.0], [9.0, 5.0], [9.0, 5.0], [9.0, 5.0])) == 1


def test_powers_are_tied_weakly_to_the_mean() -> None:
    """Shares of 0.5 of three classes: each square 0.25, so that the tie weighs 1e-4 of that."""
    shares, powers = 0.5 * np.eye(3), np.array([100.0, 200.0, 600.0])
    solved = _solved(shares, shares @ powers)
    assert solved == pytest.approx((powers + 1e-4 * 150.0) / (1.0 + 1e-4), rel=1e-9)


def test_a_spline_has_no_function_without_a_place() -> None:
    """Sixteen pieces of a cubic spline: nineteen functions that sum to one, each with a part of the phase."""
    basis, place = end_spline(16)
    values = basis.at(np.linspace(0.0, 1.0, 2001))
    assert values.shape == (2001, 19)
    assert values[1:-1].sum(axis=1) == pytest.approx(1.0)
    assert (values.max(axis=0) > 0.4).all()
    assert (np.diff(place) > 0).all()
    assert (place[0], place[-1]) == pytest.approx((0.0, 1.0), abs=0.06)


@pytest.mark.parametrize(("window_s", "count"), [(0.0, 12), (0.0, 11), (1e-3, 12)])
def test_unusual_executions_have_a_profile_by_a_dozen_samples(window_s: float, count: int) -> None:
    """Means over a window are of what ran before as well, and eleven samples are too few."""
    rows, phase = np.arange(count), np.linspace(0.0, 1.0, count)
    start = rows * 1e-3
    placed = Placed(rows, rows, phase, phase, np.ones(count))
    data = GoldenSamples(
        Executions(rows, np.zeros(count, np.int64), start, start + 1e-3),
        Samples(start, {"total": np.full(count, 300.0)}, window_s, 1e-3, 0.0),
        placed, np.zeros(count, np.bool_), 0, 1, 11, 0,
    )  # fmt: skip
    curve = _outliers(data, np.ones(count, np.bool_))
    if window_s or count < 12:
        assert curve is None
    else:
        assert curve is not None
        assert (curve.kind, curve.mean_w, curve.samples) == ("outlier", pytest.approx(300.0), 12)


@pytest.mark.parametrize(("error_s", "inside"), [(0.0, [0, 1, 2, 3, 4]), (1e-4, [1, 2, 3]), (9.0, [2])])
def test_moments_that_may_lie_outside_of_an_execution_are_left_out(error_s: float, inside: list[int]) -> None:
    """0.1, 0.24, 0.5, 0.76 and 0.9 ms into one of a millisecond: 0.2 ms from its ends, or a quarter of it."""
    executions = Executions(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([5.0]), np.array([5.001]))
    at = np.array([0.1, 0.24, 0.5, 0.76, 0.9, 1.1])
    found = place(Samples(5.0 + 1e-3 * at, {"total": np.ones(6)}, 0.0, 1e-3, error_s), executions)
    assert found.sample.tolist() == inside
    assert found.end.tolist() == pytest.approx(at[inside], rel=1e-6)


def test_samples_are_of_a_moment_unless_a_window_is_stated(tmp_path: Path) -> None:
    table = tmp_path / "samples.csv"
    table.write_text("time_us,power_w,hbm_w\n2000,300,40\n0,100,20\n1000,200,30\n")
    found = read_samples(table)
    assert (found.window_s, found.period_s, found.error_s) == (0.0, pytest.approx(1e-3), 0.0)
    assert found.time_s.tolist() == pytest.approx([0.0, 1e-3, 2e-3])
    assert {name: watts.tolist() for name, watts in found.power_w.items()} == {
        "total": [100.0, 200.0, 300.0], "hbm": [20.0, 30.0, 40.0],
    }  # fmt: skip
    assert read_samples(table, window_s=5e-4).window_s == 5e-4


@pytest.mark.parametrize(
    ("devices", "logged"), [([1, 1, 0], 1), ([0, 0, 1], 0), ([3, 3, 0], None), ([5, 1, 2, 4, 3], 1)]
)
def test_a_kernel_is_profiled_on_the_gpu_that_ran_it_most(
    devices: list[int], logged: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By that one's own log, and by no other's; of GPUs that ran it as often by the first."""
    kernels = pl.DataFrame({"signature": 5, "device": devices, "start_ns": 0, "duration_ns": 5})
    run: Any = SimpleNamespace(
        path="run", telemetry=pl.DataFrame({"device": [0, 1], "time_ns": [0, 0], "power_w": [90.0, 90.0]}),
        signatures=pl.DataFrame({"signature": [5], "name": ["k"]}), kernels=kernels,
        devices=pl.DataFrame({"device": [0], "gpu": ["a100-sxm"], "name": [""]}),
    )  # fmt: skip
    asked = []

    def logs(_: Any, device: int, __: int) -> Any:
        asked.append(device)
        raise KeyboardInterrupt

    monkeypatch.setattr("tracetool.measure.fingrav.campaign_runs.telemetry_devices", lambda _: [0, 1])
    monkeypatch.setattr("tracetool.measure.fingrav.campaign_runs.power_logs", logs)
    with pytest.raises(KeyboardInterrupt if logged is not None else BadInput):
        read_part(run, "k", None)
    assert asked == [logged] * (logged is not None)
